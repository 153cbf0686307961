"""Memories over the wire: stored, kept whole, replaced, met again, repeated safely."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import whole_memory
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, create, found, get, list_all, refused, search, write
from tests.support.server_process import Stubs
from tests.support.until import until

CREATED, UPDATED, DUPLICATE = (
    types_pb.WRITE_OUTCOME_CREATED,
    types_pb.WRITE_OUTCOME_UPDATED,
    types_pb.WRITE_OUTCOME_DUPLICATE,
)
DIMENSION = 256
"""Of the vectors of the fast embedder."""


def test_a_memory_with_nothing_but_content_gets_the_defaults(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What is not given is as the API says, and the reply shows all of it."""
    before = datetime.now(UTC)
    reply = write(stubs, scope, "The heating of the office is too loud.")
    memory = reply.memory

    assert CREATED == reply.outcome
    assert reply.consistency_token
    assert uuid.UUID(memory.id).version == 7
    assert scope == memory.scope
    assert (types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_KIND_FACT) == (memory.layer, memory.kind)
    assert (types_pb.MEMORY_TIER_CONTEXTUAL, types_pb.MEMORY_STATUS_ACTIVE) == (memory.tier, memory.status)
    assert (3, 1.0, 1, 0) == (memory.importance, memory.confidence, memory.revision, memory.access_count)
    assert memory.HasField("confidence")
    assert hashlib.sha256(memory.content.encode()).hexdigest() == memory.content_hash
    assert {"heating", "office", "loud"} == {word.term for word in memory.keywords}
    assert before <= memory.create_time.ToDatetime(UTC) <= datetime.now(UTC)
    assert memory.create_time == memory.update_time
    given = {descriptor.name for descriptor, _ in memory.ListFields()}
    assert not given & {"access_time", "event_time", "expire_time", "ttl", "metadata", "key", "title", "source"}
    assert memory == get(stubs, scope, memory.id)


def test_a_write_under_a_key_makes_no_memory_private_that_belongs_to_no_session(
    stubs: Stubs, scope: types_pb.Scope
) -> None:
    """Neither a single write nor one of a batch: no scope would see the memory, and its key would stay taken."""
    kept = create(stubs, scope, "Plan of the trip.", key="plan")
    session = types_pb.Scope(user_id=scope.user_id, session_id="s")
    private = types_pb.Memory(content="Another plan.", key="plan", layer=types_pb.MEMORY_LAYER_SESSION)

    refusal = refused(stubs.memory.CreateMemory, memory_pb.CreateMemoryRequest(scope=session, memory=private))
    batch = memory_pb.BatchCreateMemoriesRequest(scope=session, memories=[memory_pb.BatchMemory(memory=private)])
    result = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results[0]

    assert (grpc.StatusCode.INVALID_ARGUMENT, ("memory.layer",)) == (refusal.code, refusal.fields)
    assert grpc.StatusCode.INVALID_ARGUMENT.value[0] == result.status.code
    assert kept == get(stubs, scope, kept.id)


@pytest.mark.parametrize("content", ["I live in Lisbon.", "我住在里斯本。"])
def test_a_speaker_does_not_change_the_kind(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    """What is said is a FACT, kept once for each speaker; a MESSAGE is one on request, and never a duplicate."""

    def said(speaker: str, **fields: Any) -> memory_pb.CreateMemoryResponse:
        return write(stubs, scope, types_pb.Memory(content=content, speaker=speaker, **fields))

    anna, ben, nobody, again = said("Anna"), said("Ben"), said(""), said("Anna")
    messages = [said("Anna", kind=types_pb.MEMORY_KIND_MESSAGE) for _ in range(2)]

    assert {types_pb.MEMORY_KIND_FACT} == {reply.memory.kind for reply in (anna, ben, nobody, again)}
    assert [CREATED, CREATED, CREATED, DUPLICATE] == [reply.outcome for reply in (anna, ben, nobody, again)]
    assert (anna.memory.id, "Anna") == (again.memory.id, again.memory.speaker)
    assert [CREATED] * 2 == [reply.outcome for reply in messages]
    assert {types_pb.MEMORY_KIND_MESSAGE} == {reply.memory.kind for reply in messages}
    assert messages[0].memory.id != messages[1].memory.id


def test_a_changed_speaker_keeps_the_kind_and_meets_duplicates(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An update of the speaker, and one that clears the kind."""
    anna, ben = (
        write(
            stubs, scope, types_pb.Memory(content="I sail.", speaker=name, kind=types_pb.MEMORY_KIND_EXPERIENCE)
        ).memory
        for name in ("Anna", "Ben")
    )

    def update(memory: types_pb.Memory, *paths: str) -> memory_pb.UpdateMemoryRequest:
        return memory_pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=FieldMask(paths=paths))

    taken = update(types_pb.Memory(id=ben.id, speaker="Anna"), "speaker")
    assert grpc.StatusCode.ALREADY_EXISTS == refused(stubs.memory.UpdateMemory, taken).code
    renamed = stubs.memory.UpdateMemory(update(types_pb.Memory(id=ben.id, speaker="Bo"), "speaker"), timeout=TIMEOUT)
    assert ("Bo", types_pb.MEMORY_KIND_EXPERIENCE) == (renamed.memory.speaker, renamed.memory.kind)
    cleared = stubs.memory.UpdateMemory(update(types_pb.Memory(id=anna.id), "kind"), timeout=TIMEOUT).memory
    assert ("Anna", types_pb.MEMORY_KIND_FACT) == (cleared.speaker, cleared.kind)


def test_every_field_comes_back_as_it_was_sent(stubs: Stubs, user: str) -> None:
    """Through create, get, list and search: Chinese, emoji, line ends, nested metadata, old times."""
    scope = types_pb.Scope(user_id=user, project_id="项目", session_id="会话-1")
    sent = whole_memory()
    expected = types_pb.Memory()
    expected.CopyFrom(sent)
    expected.scope.user_id = user
    expected.event_time.nanos = 123_456_000
    expected.related_ids[:] = ["0190163d-8694-739b-aea5-966c26f8ad91"]
    del expected.keywords[:]
    expected.keywords.add(term="决定", weight=0.75)
    expected.keywords.add(term="sqlite", weight=0.5)

    created = write(stubs, types_pb.Scope(user_id=user), sent).memory
    seen = [
        created,
        get(stubs, scope, created.id),
        stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key=sent.key), timeout=TIMEOUT).memory,
        *list_all(stubs, scope),
        *(hit.memory for hit in search(stubs, scope, "SQLite", mode=KEYWORD).hits),
    ]

    assert len(seen) == 5
    for memory in seen:
        shown = types_pb.Memory()
        shown.CopyFrom(memory)
        for name in ("id", "status", "create_time", "update_time", "access_time", "access_count"):
            shown.ClearField(name)  # type: ignore[arg-type] # names of fields
        shown.ClearField("content_hash")
        shown.ClearField("revision")
        assert expected == shown


def test_a_negative_zero_is_a_zero(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Whichever database holds it: not every one has a negative zero."""
    written = create(stubs, scope, "The ferry may be late.", confidence=-0.0, trust=-0.0)
    changed = types_pb.Memory(id=written.id, confidence=-0.0)
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, update_mask=FieldMask(paths=["confidence"]))
    updated = stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory

    for memory in (written, updated):
        assert ["0.0", "0.0"] == [str(memory.confidence), str(memory.trust)]


def test_output_only_fields_of_a_write_are_ignored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A client cannot choose the id, the times, the hash, the counts."""
    forged = str(uuid.uuid4())
    moment = Timestamp(seconds=1)
    memory = create(
        stubs, scope, "Forged.", id=forged, status=types_pb.MEMORY_STATUS_ACTIVE, access_count=9, revision=8,
        create_time=moment, update_time=moment, access_time=moment, content_hash="x", supersedes_id=forged,
    )  # fmt: skip

    assert forged != memory.id
    assert (types_pb.MEMORY_STATUS_ACTIVE, 0, 1) == (memory.status, memory.access_count, memory.revision)
    assert moment.seconds not in {memory.create_time.seconds, memory.update_time.seconds}
    assert not memory.HasField("access_time")
    assert memory.supersedes_id == ""
    assert len(memory.content_hash) == 64


def test_repeated_list_values_are_kept_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Tags, relations and files keep their order; of a repeated keyword the largest weight counts."""
    one, two = (str(uuid.uuid4()) for _ in range(2))
    memory = create(
        stubs, scope, "Repeated.", tags=["b", "a", "b"], related_ids=[two, one, two.upper()],
        file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP, id="x")] * 2,
        keywords=[types_pb.Keyword(term="Word", weight=0.1), types_pb.Keyword(term="word", weight=0.9)],
    )  # fmt: skip

    assert ["b", "a"] == memory.tags
    assert [two, one] == memory.related_ids
    assert len(memory.file_refs) == 1
    assert [("word", 0.9)] == [(word.term, word.weight) for word in memory.keywords]


def test_writing_an_existing_key_updates_that_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Given fields replace, the others stay; the id stays, the revision grows; a key is one per project."""
    first = write(stubs, scope, types_pb.Memory(key="city", content="Lisbon", title="Home", tags=["a"])).memory
    second = write(stubs, scope, types_pb.Memory(key="city", content="Porto", tags=["b"]))
    same = write(stubs, scope, types_pb.Memory(key="city", content="Porto"))
    elsewhere = write(
        stubs, scope, types_pb.Memory(key="city", content="Faro", scope=types_pb.Scope(project_id="travel"))
    )

    assert (UPDATED, first.id, 2) == (second.outcome, second.memory.id, second.memory.revision)
    assert ("Porto", "Home", ["b"]) == (second.memory.content, second.memory.title, list(second.memory.tags))
    assert first.create_time == second.memory.create_time
    assert (DUPLICATE, 2) == (same.outcome, same.memory.revision)
    assert CREATED == elsewhere.outcome
    assert ["Porto"] == found(stubs, scope, "Lisbon Porto", mode=KEYWORD)


def test_a_write_under_the_key_of_a_deleted_memory_creates(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Deleting frees the key, and then the deleted memory cannot be restored under it."""
    first = create(stubs, scope, "One.", key="k")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=first.id), timeout=TIMEOUT)
    second = write(stubs, scope, types_pb.Memory(key="k", content="Two."))
    refusal = refused(stubs.memory.RestoreMemory, memory_pb.RestoreMemoryRequest(scope=scope, id=first.id))

    assert CREATED == second.outcome
    assert first.id != second.memory.id
    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS") == (refusal.code, refusal.reason)
    assert second.memory.id == refusal.metadata["memory_id"]


@pytest.mark.parametrize("policy", [types_pb.ON_DUPLICATE_UNSPECIFIED, types_pb.ON_DUPLICATE_RETURN_EXISTING])
def test_equal_content_returns_the_memory_that_is_there(
    stubs: Stubs, scope: types_pb.Scope, policy: types_pb.OnDuplicate
) -> None:
    """The default policy stores nothing, whatever else the newcomer says; in another kind or project it stores."""
    first = create(stubs, scope, "水在一百度沸腾。")
    again = write(stubs, scope, types_pb.Memory(content="水在一百度沸腾。", title="x"), on_duplicate=policy)
    kind = write(
        stubs, scope, types_pb.Memory(content="水在一百度沸腾。", kind=types_pb.MEMORY_KIND_NOTE), on_duplicate=policy
    )
    project = write(
        stubs, types_pb.Scope(user_id=scope.user_id, project_id="p"), "水在一百度沸腾。", on_duplicate=policy
    )

    assert (DUPLICATE, first.id, "") == (again.outcome, again.memory.id, again.memory.title)
    assert [CREATED] * 2 == [kind.outcome, project.outcome]


def test_a_key_names_the_memory_that_has_the_content(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It is written as if it had the key already, and found by the key, also in a filter."""
    first = create(stubs, scope, "Deploys happen at five.", title="Deploys", tags=["ops"], importance=5)
    named = types_pb.Memory(content="Deploys happen at five.", key="knowledge/world/deploys", tags=["time"])
    reply, again = write(stubs, scope, named), write(stubs, scope, named)
    read = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key=named.key), timeout=TIMEOUT).memory

    assert (UPDATED, first.id, 2, named.key) == (
        reply.outcome,
        reply.memory.id,
        reply.memory.revision,
        reply.memory.key,
    )
    assert (["time"], 5, "Deploys", "world") == (list(read.tags), read.importance, read.title, read.category)
    assert (read.id, "") == (first.id, reply.notice)
    assert (DUPLICATE, first.id, "") == (again.outcome, again.memory.id, again.notice)
    where = filters_pb.Filter(key_prefix="knowledge/world/")
    assert [named.content] == found(stubs, scope, "deploys", filter=where)


def test_a_key_that_a_duplicate_does_not_get_is_reported(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The memory that has the content keeps its own key; the reply says that the new key was not stored."""
    first = create(stubs, scope, "Deploys happen at five.", key="one")
    request = memory_pb.CreateMemoryRequest(
        scope=scope, memory=types_pb.Memory(content="Deploys happen at five.", key="two")
    )
    reply, call = stubs.memory.CreateMemory.with_call(request, timeout=TIMEOUT)
    batch = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=[memory_pb.BatchMemory(memory=request.memory)])
    _, batch_call = stubs.memory.BatchCreateMemories.with_call(batch, timeout=TIMEOUT)

    assert (DUPLICATE, first.id, "one") == (reply.outcome, reply.memory.id, reply.memory.key)
    assert "the key of the request was not stored" in reply.notice
    for each in (call, batch_call):
        assert ("x-memsvc-notice", reply.notice) in [(name, value) for name, value in each.trailing_metadata()]


def test_a_batch_reports_each_key_that_is_not_stored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The item whose key is not stored has the notice, also when a later item changes the memory with the content."""
    pairs = [("a", "one"), ("b", "one"), ("a", "two"), ("c", "two"), ("c", "three")]
    memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=text, key=key)) for key, text in pairs]
    batch = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=memories, request_id=f"{scope.user_id}-1")
    results = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results

    assert [CREATED, DUPLICATE, UPDATED, DUPLICATE, CREATED] == [one.outcome for one in results]
    assert [False, True, False, True, False] == ["was not stored" in one.notice for one in results]
    again = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results
    assert [one.notice for one in results] == [one.notice for one in again]
    stored = {memory.key: memory.content for memory in list_all(stubs, scope)}
    assert {"a": "two", "c": "three"} == stored


def test_an_import_reports_each_key_that_is_not_stored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By index, with the memory that has the content, next to what failed; and in the trailing metadata."""
    first = create(stubs, scope, "one", key="a")
    pairs = [("b", "one"), ("", "one"), ("a", "one"), ("c", ""), ("d", "four"), ("e", "four")]
    memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=text, key=key)) for key, text in pairs]
    parts = [
        memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope)),
        memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(memories=memories)),
    ]
    call = stubs.memory.ImportMemories(iter(parts), timeout=TIMEOUT)
    responses = list(call)

    fourth = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="d"), timeout=TIMEOUT).memory
    unstored = [(one.index, one.memory_id) for response in responses for one in response.unstored_keys]
    assert [(0, first.id), (5, fourth.id)] == unstored
    assert [3] == [one.index for response in responses for one in response.failures]
    assert (4, 1, 1) == tuple(getattr(responses[-1], f"{name}_count") for name in ("duplicate", "failed", "created"))
    [notice] = [value for name, value in call.trailing_metadata() if name == "x-memsvc-notice"]
    assert "was not stored" in notice


def test_a_key_makes_no_memory_private(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A memory outside of sessions that has the content of one of a session does not become that one."""
    first = create(stubs, scope, "Deploys happen at five.")
    session = types_pb.Scope(user_id=scope.user_id, session_id="s")
    private = types_pb.Memory(content="Deploys happen at five.", key="k", layer=types_pb.MEMORY_LAYER_SESSION)
    reply = write(stubs, session, private)

    assert (DUPLICATE, first.id, "") == (reply.outcome, reply.memory.id, reply.memory.key)
    assert "was not stored" in reply.notice


def test_equal_content_can_be_refused_or_kept_twice(stubs: Stubs, scope: types_pb.Scope) -> None:
    """REJECT fails and names the memory in the way; KEEP_BOTH stores a second one, found beside the first."""
    first = create(stubs, scope, "Zinc melts early.")
    request = memory_pb.CreateMemoryRequest(
        scope=scope, memory=types_pb.Memory(content="Zinc melts early."), on_duplicate=types_pb.ON_DUPLICATE_REJECT
    )
    refusal = refused(stubs.memory.CreateMemory, request)
    both = write(stubs, scope, "Zinc melts early.", on_duplicate=types_pb.ON_DUPLICATE_KEEP_BOTH)

    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS") == (refusal.code, refusal.reason)
    assert first.id == refusal.metadata["memory_id"]
    assert CREATED == both.outcome
    assert ["Zinc melts early."] * 2 == found(stubs, scope, "zinc", mode=KEYWORD)


def test_a_deleted_or_expired_memory_is_no_duplicate(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Only ACTIVE, unexpired memories stand in the way of equal content."""
    deleted = create(stubs, scope, "Gone.")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=deleted.id), timeout=TIMEOUT)
    create(stubs, scope, "Over.", expire_time=Timestamp(seconds=1))

    assert [CREATED] * 2 == [write(stubs, scope, content).outcome for content in ("Gone.", "Over.")]
    assert {"Gone.", "Over."} == {memory.content for memory in list_all(stubs, scope)}


def test_ttl_and_layer_set_the_expiry(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A ttl counts from the write; SHORT_TERM lasts 14 days unless it says otherwise; other layers never expire."""
    short = types_pb.MEMORY_LAYER_SHORT_TERM
    fixed = Timestamp(seconds=4_000_000_000)
    memories = [
        create(stubs, scope, "a", ttl=Duration(seconds=90)),
        create(stubs, scope, "b", layer=short),
        create(stubs, scope, "c", layer=short, ttl=Duration(seconds=3600)),
        create(stubs, scope, "d", layer=short, expire_time=fixed),
        create(stubs, scope, "e", layer=types_pb.MEMORY_LAYER_CORE),
    ]

    def life(memory: types_pb.Memory) -> timedelta:
        return memory.expire_time.ToDatetime() - memory.create_time.ToDatetime()

    assert [timedelta(seconds=90), timedelta(days=14), timedelta(hours=1)] == [life(one) for one in memories[:3]]
    assert fixed == memories[3].expire_time
    assert not memories[4].HasField("expire_time")
    assert not any(memory.HasField("ttl") for memory in memories)


def test_a_short_term_memory_does_not_end_before_it_begins(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The 14 days begin at valid_from if that is later, also when an update sets it; what is given stays."""
    short, month = types_pb.MEMORY_LAYER_SHORT_TERM, timedelta(days=30)
    begins, forever, fixed = Timestamp(), Timestamp(), Timestamp(seconds=4_000_000_000)
    begins.FromDatetime(datetime.now(UTC) + month)
    forever.FromJsonString("9999-12-30T00:00:00Z")
    made = create(stubs, scope, "The code is 1.", layer=short, valid_from=begins)
    late = create(stubs, scope, "The code is 2.", layer=short, valid_from=forever)
    plain = create(stubs, scope, "The code is 3.", layer=short)
    given = create(stubs, scope, "The code is 4.", layer=short, expire_time=fixed)
    early = create(stubs, scope, "The code is 5.", layer=short, valid_from=begins, ttl=Duration(seconds=60))

    def moved(memory: types_pb.Memory) -> types_pb.Memory:
        changed = types_pb.Memory(id=memory.id, valid_from=begins)
        mask = FieldMask(paths=["valid_from"])
        request = memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, update_mask=mask)
        return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory

    ends = begins.ToDatetime() + timedelta(days=14)
    assert [ends, ends] == [memory.expire_time.ToDatetime() for memory in (made, moved(plain))]
    assert not late.HasField("expire_time")
    assert fixed == moved(given).expire_time
    assert early.expire_time.ToDatetime() < begins.ToDatetime()


def test_a_memory_whose_time_is_over_is_found_only_on_request(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Lists and searches in every mode leave it out unless include_expired is set; a get by id still returns it."""
    memory = create(stubs, scope, "The meeting was about badgers.", expire_time=Timestamp(seconds=1_000))
    include = filters_pb.Filter(include_expired=True)

    assert [] == list_all(stubs, scope)
    assert [memory.id] == [one.id for one in list_all(stubs, scope, filter=include)]
    for mode in (KEYWORD, SEMANTIC):
        assert [] == found(stubs, scope, "badgers", mode=mode)
        assert [memory.content] == found(stubs, scope, "badgers", mode=mode, filter=include)
    assert memory.id == get(stubs, scope, memory.id).id


def test_an_expiry_that_passes_hides_the_memory_without_any_write(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The moment is compared at each read."""
    create(stubs, scope, "Blink and badgers are gone.", ttl=Duration(nanos=300_000_000))
    until(lambda: not found(stubs, scope, "badgers", mode=KEYWORD))

    assert [] == list_all(stubs, scope)


def mutations(scope: types_pb.Scope, memory: types_pb.Memory) -> Sequence[tuple[str, Any]]:
    """Return one request of each mutation with a request_id."""
    named = {"scope": scope, "id": memory.id, "request_id": "same"}
    changed = types_pb.Memory(id=memory.id, title="changed")
    return (
        (
            "CreateMemory",
            memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="n"), request_id="same"),
        ),
        (
            "BatchCreateMemories",
            memory_pb.BatchCreateMemoriesRequest(
                scope=scope,
                memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in ("b1", "", "b2")],
                request_id="same",
            ),
        ),
        ("UpdateMemory", memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, request_id="same")),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(**named)),
        ("RestoreMemory", memory_pb.RestoreMemoryRequest(**named)),
        ("DeleteMemory", memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, purge=True, request_id="for good")),
    )


def test_a_repeated_request_happens_once_and_gets_the_same_answer(stubs: Stubs, scope: types_pb.Scope) -> None:
    """For every mutation, also when what it changed has been changed again."""
    memory = create(stubs, scope, "Subject.", title="original")
    for method, request in mutations(scope, memory):
        call = getattr(stubs.memory, method)
        first = call(request, timeout=TIMEOUT)
        before = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
        assert first == call(request, timeout=TIMEOUT), method
        after = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
        assert before.count_by_status == after.count_by_status, method


def test_a_repeated_answer_is_the_first_one_after_later_changes_too(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The repetition shows the memory as it was then."""
    request = memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="v1"), request_id="r")
    first = stubs.memory.CreateMemory(request, timeout=TIMEOUT)
    change = types_pb.Memory(id=first.memory.id, content="v2")
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=change), timeout=TIMEOUT)

    assert first == stubs.memory.CreateMemory(request, timeout=TIMEOUT)
    assert "v2" == get(stubs, scope, first.memory.id).content


def test_a_request_id_used_for_another_request_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Nothing is changed; another user may use the same id."""
    memory = create(stubs, scope, "Subject.")
    for method, request in mutations(scope, memory):
        call = getattr(stubs.memory, method)
        call(request, timeout=TIMEOUT)
        other = type(request)()
        other.CopyFrom(request)
        other.scope.agent_id = "another"
        refusal = refused(call, other)
        assert (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == (refusal.code, refusal.reason), method
        assert {"request_id": request.request_id} == refusal.metadata

    stranger = types_pb.Scope(user_id=scope.user_id + "2")
    assert CREATED == write(stubs, stranger, "n", request_id="same").outcome


def test_a_given_vector_is_what_the_memory_is_found_by(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The words of the content do not count for SEMANTIC then; a new content without a vector is embedded."""
    axis = [0.0] * DIMENSION
    axis[7] = 3.0
    write(stubs, scope, "Entirely about walruses.", vector=axis)
    other = write(stubs, scope, "A second one, embedded by the service.").memory

    hits = search(stubs, scope, vector=axis, mode=SEMANTIC, explain=True).hits
    assert "Entirely about walruses." == hits[0].memory.content
    assert hits[0].explanation.retrievers[0].raw_score == pytest.approx(1.0, abs=1e-5)
    assert {other.id, hits[0].memory.id} == {hit.memory.id for hit in hits}

    change = types_pb.Memory(id=hits[0].memory.id, content="Entirely about walruses and seals.")
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=change), timeout=TIMEOUT)
    embedded = search(stubs, scope, "Entirely about walruses and seals.", mode=SEMANTIC, explain=True).hits[0]
    assert change.content == embedded.memory.content
    # Its passage has the day of the change, which the query has not.
    assert embedded.explanation.retrievers[0].raw_score > 0.7


@pytest.mark.parametrize("mode", [KEYWORD, SEMANTIC])
def test_indexed_means_found_and_stored_means_read(stubs: Stubs, scope: types_pb.Scope, mode: Any) -> None:
    """After INDEXED, the default, every search finds it at once; after STORED a get does, and soon a search too."""
    for number in range(5):
        content = f"Quokka number {number}."
        write(
            stubs, scope, content, wait_for=types_pb.WAIT_FOR_INDEXED if number % 2 else types_pb.WAIT_FOR_UNSPECIFIED
        )
        assert content in found(stubs, scope, content, mode=mode)

    stored = write(stubs, scope, "Quokka at last.", wait_for=types_pb.WAIT_FOR_STORED)
    assert "Quokka at last." == get(stubs, scope, stored.memory.id).content
    assert "Quokka at last." in found(
        stubs, scope, "Quokka at last.", mode=mode, consistency_token=stored.consistency_token
    )
