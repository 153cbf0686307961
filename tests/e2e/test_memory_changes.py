"""Memories over the wire: changed by field mask, deleted, restored; every change leaves a revision."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing
from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import whole_memory
from tests.support.history import plain
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, create, found, get, list_all, refused, write
from tests.support.server_process import ServerProcess, Stubs

ACTIVE, ARCHIVED, DELETED = (
    types_pb.MEMORY_STATUS_ACTIVE,
    types_pb.MEMORY_STATUS_ARCHIVED,
    types_pb.MEMORY_STATUS_DELETED,
)
CLEARED = {
    "key", "layer", "kind", "category", "speaker", "title", "summary", "tags", "related_ids", "file_refs",
    "importance", "tier", "confidence", "event_time", "expire_time", "work_in_progress", "source", "metadata", "ttl",
    "valid_from", "valid_to", "origin", "trust", "derived_from_ids", "reminder",
}  # fmt: skip


def update(
    stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, *paths: str, expected_revision: int = 0
) -> types_pb.Memory:
    """Change a memory and return it as it is then."""
    request = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=memory, update_mask=FieldMask(paths=paths), expected_revision=expected_revision
    )
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


def delete(
    stubs: Stubs, scope: types_pb.Scope, memory_id: str, *, hard: bool = False
) -> memory_pb.DeleteMemoryResponse:
    """Delete a memory."""
    return stubs.memory.DeleteMemory(
        memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=hard), timeout=TIMEOUT
    )


def restore(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> types_pb.Memory:
    """Restore a memory."""
    return stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT).memory


def test_an_update_without_a_mask_changes_what_is_given(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The rest stays; create_time stays, update_time and revision move; searches see the new words only."""
    before = create(stubs, scope, "The walrus sleeps.", title="Animals", tags=["a"], importance=2)
    after = update(stubs, scope, types_pb.Memory(id=before.id, content="The ostrich runs."))

    assert ("The ostrich runs.", "Animals", ["a"], 2) == (
        after.content, after.title, list(after.tags), after.importance,
    )  # fmt: skip
    assert (before.create_time, 2) == (after.create_time, after.revision)
    assert after.update_time.ToNanoseconds() > before.update_time.ToNanoseconds()
    assert after.content_hash != before.content_hash
    assert {"animals", "ostrich", "runs"} == {word.term for word in after.keywords}
    assert [] == found(stubs, scope, "walrus", mode=KEYWORD)
    assert [after.content] == found(stubs, scope, "ostrich", mode=KEYWORD)


def test_a_mask_clears_what_has_no_value(stubs: Stubs, user: str) -> None:
    """Every field that can be changed can be cleared but the content; cleared fields get their defaults."""
    scope = types_pb.Scope(user_id=user, project_id="项目", agent_id="agent 7", session_id="会话-1")
    before = write(stubs, scope, whole_memory()).memory
    after = update(stubs, scope, types_pb.Memory(id=before.id), *sorted(CLEARED))

    plain = {"id", "scope", "content", "keywords", "create_time", "update_time", "content_hash", "revision"}
    given = {descriptor.name for descriptor, _ in after.ListFields()}
    defaults = {"layer", "kind", "importance", "tier", "confidence", "status", "origin", "trust"}
    assert plain | defaults == given
    assert (types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_KIND_FACT, 3, types_pb.MEMORY_TIER_CONTEXTUAL, 1.0) == (
        after.layer, after.kind, after.importance, after.tier, after.confidence,
    )  # fmt: skip
    assert before.keywords == after.keywords


def test_a_mask_leaves_the_other_given_fields_alone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Only the listed fields change, metadata and lists as a whole."""
    first, second = Struct(), Struct()
    first.update({"a": 1, "b": {"c": 2}})
    second.update({"b": {"d": 3}})
    before = create(stubs, scope, "x", metadata=first, tags=["one", "two"], title="t")
    new = types_pb.Memory(id=before.id, metadata=second, tags=["three"], title="ignored", content="ignored")
    after = update(stubs, scope, new, "metadata", "tags")

    assert (second, ["three"], "t", "x") == (after.metadata, list(after.tags), after.title, after.content)


def test_an_update_can_name_the_memory_by_its_key(stubs: Stubs, user: str) -> None:
    """In exactly the scope's project; by id the key itself can change, to one that is free."""
    world, project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p")
    create(stubs, world, "global", key="k")
    own = create(stubs, project, "own", key="k")
    taken = create(stubs, project, "other", key="taken")

    assert own.id == update(stubs, project, types_pb.Memory(key="k", title="t")).id
    refusal = refused(
        stubs.memory.UpdateMemory,
        memory_pb.UpdateMemoryRequest(scope=project, memory=types_pb.Memory(id=own.id, key="taken")),
    )
    assert (grpc.StatusCode.ALREADY_EXISTS, taken.id) == (refusal.code, refusal.metadata["memory_id"])
    assert "free" == update(stubs, project, types_pb.Memory(id=own.id, key="free")).key
    gone = refused(
        stubs.memory.UpdateMemory,
        memory_pb.UpdateMemoryRequest(scope=project, memory=types_pb.Memory(key="k", title="x")),
    )
    assert (grpc.StatusCode.NOT_FOUND, {"memory": "k"}) == (gone.code, dict(gone.metadata))


def test_a_change_based_on_an_old_revision_is_aborted(stubs: Stubs, scope: types_pb.Scope) -> None:
    """For update, delete and restore; the error says which revision there is; nothing is changed."""
    memory = create(stubs, scope, "x")
    update(stubs, scope, types_pb.Memory(id=memory.id, title="newer"), expected_revision=1)
    for method, request in (
        (
            "UpdateMemory",
            memory_pb.UpdateMemoryRequest(memory=types_pb.Memory(id=memory.id, title="t"), expected_revision=1),
        ),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(id=memory.id, expected_revision=1)),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(id=memory.id, expected_revision=3, purge=True)),
        ("RestoreMemory", memory_pb.RestoreMemoryRequest(id=memory.id, expected_revision=1)),
    ):
        request.scope.CopyFrom(scope)
        refusal = refused(getattr(stubs.memory, method), request)
        assert (grpc.StatusCode.ABORTED, "REVISION_CONFLICT") == (refusal.code, refusal.reason)
        expected = str(request.expected_revision)
        assert {"memory_id": memory.id, "expected_revision": expected, "revision": "2"} == refusal.metadata

    assert ("newer", 2) == ((left := get(stubs, scope, memory.id)).title, left.revision)


def test_a_change_that_changes_nothing_makes_no_revision(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The memory comes back as it is."""
    memory = create(stubs, scope, "x", title="t", importance=4)
    same = update(stubs, scope, types_pb.Memory(id=memory.id, content="x", title="t", importance=4))

    assert memory == same


def test_an_update_to_content_that_another_memory_holds_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The error names that memory."""
    holder, memory = create(stubs, scope, "held"), create(stubs, scope, "free")
    refusal = refused(
        stubs.memory.UpdateMemory,
        memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory.id, content="held")),
    )

    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS") == (refusal.code, refusal.reason)
    assert holder.id == refusal.metadata["memory_id"]
    assert "free" == get(stubs, scope, memory.id).content


def test_an_update_moves_the_expiry(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A ttl counts from the update; clearing both times gives SHORT_TERM its 14 days again."""
    memory = create(stubs, scope, "x", layer=types_pb.MEMORY_LAYER_SHORT_TERM, ttl=Duration(seconds=60))
    longer = update(stubs, scope, types_pb.Memory(id=memory.id, ttl=Duration(seconds=3_600)))
    fixed = update(stubs, scope, types_pb.Memory(id=memory.id, expire_time=Timestamp(seconds=5_000_000_000)))
    default = update(stubs, scope, types_pb.Memory(id=memory.id), "ttl", "expire_time")

    def life(one: types_pb.Memory) -> timedelta:
        return one.expire_time.ToDatetime() - one.update_time.ToDatetime()

    assert timedelta(seconds=3_599) < life(longer) <= timedelta(seconds=3_601)
    assert 5_000_000_000 == fixed.expire_time.seconds
    assert timedelta(days=13.99) < life(default) <= timedelta(days=14)


def test_archived_memories_leave_searches_and_come_back(stubs: Stubs, scope: types_pb.Scope) -> None:
    """ARCHIVED is found by a filter that names it; ACTIVE brings it back."""
    memory = create(stubs, scope, "The marmot whistles.")
    archived = filters_pb.Filter(statuses=[ARCHIVED])
    assert ARCHIVED == update(stubs, scope, types_pb.Memory(id=memory.id, status=ARCHIVED)).status
    assert [] == found(stubs, scope, "marmot", mode=KEYWORD)
    assert [] == list_all(stubs, scope)
    assert [memory.content] == found(stubs, scope, "marmot", mode=KEYWORD, filter=archived)
    assert [memory.content] == found(stubs, scope, "marmot", mode=SEMANTIC, filter=archived)

    assert ACTIVE == update(stubs, scope, types_pb.Memory(id=memory.id, status=ACTIVE)).status
    assert [memory.content] == found(stubs, scope, "marmot", mode=KEYWORD)


def test_a_softly_deleted_memory_is_gone_until_restored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """No get, list or search returns it, no change finds it; a list by status does; restoring brings all back."""
    memory = create(stubs, scope, "The marmot whistles.", key="m", title="Alps")
    reply = delete(stubs, scope, memory.id)

    assert (DELETED, 2) == (reply.memory.status, reply.memory.revision)
    assert [] == list_all(stubs, scope)
    for mode in (KEYWORD, SEMANTIC):
        assert [] == found(stubs, scope, "marmot", mode=mode)
    for method, request in (
        ("GetMemory", memory_pb.GetMemoryRequest(scope=scope, id=memory.id)),
        ("GetMemory", memory_pb.GetMemoryRequest(scope=scope, key="m")),
        ("UpdateMemory", memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory.id, title="t"))),
        ("UpdateMemory", memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(key="m", title="t"))),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id)),
    ):
        assert "MEMORY_NOT_FOUND" == refused(getattr(stubs.memory, method), request).reason
    assert [memory.id] == [one.id for one in list_all(stubs, scope, filter=filters_pb.Filter(statuses=[DELETED]))]

    restored = restore(stubs, scope, memory.id)
    assert (ACTIVE, 3, "m", "Alps") == (restored.status, restored.revision, restored.key, restored.title)
    assert [memory.content] == found(stubs, scope, "marmot", mode=KEYWORD)
    assert [memory.content] == found(stubs, scope, "marmot", mode=SEMANTIC)
    # The searches are counted as accesses a moment later.
    assert restored == plain(restore(stubs, scope, memory.id))


def test_restoring_takes_away_an_expiry_that_has_passed(stubs: Stubs, scope: types_pb.Scope) -> None:
    """SHORT_TERM gets 14 days from then; content that was stored again meanwhile stands in the way."""
    over = create(stubs, scope, "over", expire_time=Timestamp(seconds=1_000))
    short = create(stubs, scope, "short", layer=types_pb.MEMORY_LAYER_SHORT_TERM, expire_time=Timestamp(seconds=1_000))
    again = create(stubs, scope, "again")
    for memory in (over, short, again):
        delete(stubs, scope, memory.id)
    holder = create(stubs, scope, "again")

    assert not restore(stubs, scope, over.id).HasField("expire_time")
    renewed = restore(stubs, scope, short.id)
    assert timedelta(days=14) == renewed.expire_time.ToDatetime() - renewed.update_time.ToDatetime()
    refusal = refused(stubs.memory.RestoreMemory, memory_pb.RestoreMemoryRequest(scope=scope, id=again.id))
    assert ("MEMORY_EXISTS", holder.id) == (refusal.reason, refusal.metadata["memory_id"])


@pytest.mark.parametrize("softly_first", [False, True])
def test_a_hard_deletion_leaves_nothing(
    stubs: Stubs, server: ServerProcess, scope: types_pb.Scope, *, softly_first: bool
) -> None:
    """No row of the memory, its chunks, keywords, tags or revisions is left in the store; it cannot be restored."""
    secret = f"secret{uuid.uuid4().hex}"
    memory = create(
        stubs, scope, f"# {secret}\n\n" + f"A line about {secret} and more.\n\n" * 300, key=secret, tags=[secret],
        keywords=[types_pb.Keyword(term=secret)], title=secret,
    )  # fmt: skip
    update(stubs, scope, types_pb.Memory(id=memory.id, summary=secret))
    if softly_first:
        delete(stubs, scope, memory.id)
    reply = delete(stubs, scope, memory.id, hard=True)

    assert not reply.HasField("memory")
    assert reply.consistency_token
    for method, request in (
        ("RestoreMemory", memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id)),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, purge=True)),
        ("GetMemory", memory_pb.GetMemoryRequest(scope=scope, id=memory.id)),
    ):
        assert "MEMORY_NOT_FOUND" == refused(getattr(stubs.memory, method), request).reason
    every = filters_pb.Filter(statuses=[ACTIVE, ARCHIVED, DELETED])
    assert [] == list_all(stubs, scope, filter=every)
    assert [] == found(stubs, scope, secret, filter=every)
    with closing(database(server)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        for table in names:
            for row in connection.execute(f"select * from {table}"):  # noqa: S608 - names from the database itself
                assert not any(secret in str(value) for value in row), table


def database(server: ServerProcess) -> sqlite3.Connection:
    """Open the store of a running server, to look only."""
    (path,) = server.data_dir.joinpath("metadata").glob("*.db")
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def test_every_change_leaves_a_revision(stubs: Stubs, server: ServerProcess, scope: types_pb.Scope) -> None:
    """One row for each, with its action and time; all but the current one hold the memory as it was."""
    memory = create(stubs, scope, "v1", key="k")
    write(stubs, scope, types_pb.Memory(key="k", content="v2"))
    update(stubs, scope, types_pb.Memory(id=memory.id, content="v3"))
    update(stubs, scope, types_pb.Memory(id=memory.id, content="v3"))
    delete(stubs, scope, memory.id)
    restore(stubs, scope, memory.id)

    with closing(database(server)) as connection:
        rows = connection.execute(
            "select r.revision, r.action, r.time, r.snapshot from revisions r join memories m on m.row = r.row"
            " where m.id = ? order by r.revision",
            (memory.id,),
        ).fetchall()
    assert [1, 2, 3, 4, 5] == [row[0] for row in rows]
    assert ["CREATED", "UPDATED", "UPDATED", "DELETED", "RESTORED"] == [row[1] for row in rows]
    assert sorted(row[2] for row in rows) == [row[2] for row in rows]
    assert ["v1", "v2", "v3", "v3"] == [json.loads(row[3])["content"] for row in rows[:-1]]
    assert rows[-1][3] is None
