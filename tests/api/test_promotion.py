"""Keeping short-term memories for good."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import download
from tests.support.rpc import TIMEOUT, create, found, get, list_all, refused
from tests.support.server_process import Stubs

SHORT, LONG = types_pb.MEMORY_LAYER_SHORT_TERM, types_pb.MEMORY_LAYER_LONG_TERM
ARCHIVED = types_pb.MEMORY_STATUS_ARCHIVED


def promote(
    stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, **request: Any
) -> lifecycle_pb.PromoteMemoryResponse:
    """Promote a memory."""
    asked = lifecycle_pb.PromoteMemoryRequest(scope=scope, id=memory.id, **request)
    return stubs.lifecycle.PromoteMemory(asked, timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("said", "edited", "query"),
    [
        ("今天和客户确认了：发布日期是三月五日。", "发布日期是三月五日。", "什么时候发布？"),
        ("Today the customer said: the release is on March 5.", "The release is on March 5.", "when is the release?"),
    ],
)
def test_what_is_promoted_lasts(stubs: Stubs, user: str, said: str, edited: str, query: str) -> None:
    """In better words, with the key and the rest of the source, which is archived; both name each other."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    fields: dict[str, Any] = {
        "key": "release",
        "tags": ["date"],
        "importance": 4,
        "kind": types_pb.MEMORY_KIND_DECISION,
    }
    source = create(stubs, scope, said, layer=SHORT, **fields)
    reply = promote(stubs, scope, source, content=edited, title="Release")

    new = reply.memory
    assert (edited, "Release", "release", LONG) == (new.content, new.title, new.key, new.layer)
    assert (["date"], 4, types_pb.MEMORY_KIND_DECISION) == (list(new.tags), new.importance, new.kind)
    assert ([source.id], False) == (list(new.derived_from_ids), new.HasField("expire_time"))
    assert (ARCHIVED, [new.id], "") == (reply.source.status, list(reply.source.related_ids), reply.source.key)
    assert get(stubs, scope, source.id) == reply.source
    assert [new.id] == [memory.id for memory in list_all(stubs, scope)]
    assert [edited] == found(stubs, scope, query)


def test_a_promotion_is_done_once(stubs: Stubs, user: str) -> None:
    """As it stands; a repetition gets the same answer, another request is told that it is archived."""
    scope = types_pb.Scope(user_id=user)
    source = create(stubs, scope, "The kettle is blue.", layer=SHORT)
    request = {"request_id": str(uuid.uuid4())}
    first = promote(stubs, scope, source, **request)

    assert "The kettle is blue." == first.memory.content
    assert first.memory.id == promote(stubs, scope, source, **request).memory.id
    for memory in (first.source, first.memory):
        refusal = refused(stubs.lifecycle.PromoteMemory, lifecycle_pb.PromoteMemoryRequest(scope=scope, id=memory.id))
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("id",)) == (refusal.code, refusal.fields)


def test_an_error_is_of_the_field_that_names_the_memory(stubs: Stubs, user: str) -> None:
    """The key, where the request names the memory by its key."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    lasting = create(stubs, scope, "The kettle is blue.", key="kettle")
    day = types_pb.CalendarDate(year=2026, month=3, day=5)
    calls: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        (stubs.lifecycle.PromoteMemory, lifecycle_pb.PromoteMemoryRequest, {}),
        (stubs.lifecycle.UndoConsolidation, lifecycle_pb.UndoConsolidationRequest, {}),
        (stubs.lifecycle.AcknowledgeReminder, lifecycle_pb.AcknowledgeReminderRequest, {"date": day}),
    )
    for call, request, fields in calls:
        by_key = refused(call, request(scope=scope, key=lasting.key, **fields))
        by_id = refused(call, request(scope=scope, id=lasting.id, **fields))
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("key",), ("id",)) == (by_key.code, by_key.fields, by_id.fields)
        assert by_key.message.replace("key: ", "id: ") == by_id.message


@pytest.mark.parametrize(
    ("older", "said", "edited", "value"),
    [
        ("小王住在北京。", "小王搬到了上海。", "小王搬到了深圳。", "深圳"),
        ("Anna lives in Lisbon.", "Anna has moved to Porto.", "Anna has moved to Faro.", "faro"),
    ],
)
def test_a_conflict_goes_on_with_what_is_promoted(
    stubs: Stubs, user: str, older: str, said: str, edited: str, value: str
) -> None:
    """The question stays open, by the new memory's words, and can be settled."""
    scope = types_pb.Scope(user_id=user)
    old, source = create(stubs, scope, older), create(stubs, scope, said, layer=SHORT)
    new = promote(stubs, scope, source, content=edited).memory

    asked = memory_pb.ListConflictsRequest(scope=scope)
    [conflict] = stubs.memory.ListConflicts(asked, timeout=TIMEOUT).conflicts
    assert (old.id, new.id, value) == (conflict.older_memory_id, conflict.newer_memory_id, conflict.newer_value)
    settling = memory_pb.ResolveConflictRequest(
        scope=scope, id=conflict.id, resolution=memory_pb.CONFLICT_RESOLUTION_CONFIRM
    )
    stubs.memory.ResolveConflict(settling, timeout=TIMEOUT)
    assert new.id == get(stubs, scope, old.id).superseded_by_id


@pytest.mark.parametrize(
    ("older", "said", "edited"),
    [
        ("小王住在北京。", "和小王吃了饭。", "小王搬到了深圳。"),
        ("Anna lives in Lisbon.", "Lunch with Anna.", "Anna has moved to Faro."),
    ],
)
def test_better_words_are_compared_with_other_memories(
    stubs: Stubs, user: str, older: str, said: str, edited: str
) -> None:
    """What only they state contradicts older memories as any new content does."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    old, source = create(stubs, scope, older), create(stubs, scope, said, layer=SHORT)
    reply = promote(stubs, scope, source, content=edited, request_id="once")

    [conflict] = reply.conflicts
    assert (old.id, reply.memory.id) == (conflict.older_memory_id, conflict.newer_memory_id)
    assert types_pb.MEMORY_STATUS_CONFLICTED == get(stubs, scope, old.id).status
    asked = memory_pb.ListConflictsRequest(scope=scope)
    assert [conflict] == list(stubs.memory.ListConflicts(asked, timeout=TIMEOUT).conflicts)
    again = promote(stubs, scope, source, content=edited, request_id="once")
    assert [conflict.id] == [one.id for one in again.conflicts]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("小王住在北京。小王有一只狗。", "小王搬到了上海。"),
        ("Anna lives in Lisbon. Anna has a dog.", "Anna has moved to Porto."),
        ("Anna lives in Lisbon.", "Anna has moved to Porto."),
    ],
)
def test_no_conflict_stays_with_what_is_put_away(stubs: Stubs, user: str, older: str, newer: str) -> None:
    """One over the source, and one that the better words do not speak of, are closed."""
    scope = types_pb.Scope(user_id=user)
    says_more = older.count(".") + older.count("。") > 1
    layers = (SHORT, LONG) if says_more else (LONG, SHORT)
    old, new = (create(stubs, scope, said, layer=layer) for said, layer in zip((older, newer), layers, strict=True))
    promote(stubs, scope, old if says_more else new, content="" if says_more else "The kettle is blue.")

    asked = memory_pb.ListConflictsRequest(scope=scope, states=[types_pb.CONFLICT_STATE_CLOSED])
    assert len(stubs.memory.ListConflicts(asked, timeout=TIMEOUT).conflicts) == 1
    assert not stubs.memory.ListConflicts(memory_pb.ListConflictsRequest(scope=scope), timeout=TIMEOUT).conflicts
    assert get(stubs, scope, new.id if says_more else old.id).status == types_pb.MEMORY_STATUS_ACTIVE


def test_a_source_whose_content_was_promoted_is_restored_only_in_its_place(stubs: Stubs, user: str) -> None:
    """Beside the promoted memory it would be a second one with the same content; without it, it is in use again."""
    scope = types_pb.Scope(user_id=user)
    source = create(stubs, scope, "登录时有一个错误。", layer=SHORT)
    new = promote(stubs, scope, source).memory
    restore = memory_pb.RestoreMemoryRequest(scope=scope, id=source.id)

    refusal = refused(stubs.memory.RestoreMemory, restore)
    assert ("MEMORY_EXISTS", {"memory_id": new.id}) == (refusal.reason, dict(refusal.metadata))
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=new.id), timeout=TIMEOUT)
    assert types_pb.MEMORY_STATUS_ACTIVE == stubs.memory.RestoreMemory(restore, timeout=TIMEOUT).memory.status
    assert [source.id] == [memory.id for memory in list_all(stubs, scope)]


def test_nothing_changes_when_a_promotion_is_refused(stubs: Stubs, user: str) -> None:
    """Because of the revision, or since another memory says the same already."""
    scope = types_pb.Scope(user_id=user)
    source = create(stubs, scope, "The kettle is blue.", layer=SHORT)
    create(stubs, scope, "The walrus sings.")
    late = lifecycle_pb.PromoteMemoryRequest(scope=scope, id=source.id, expected_revision=7)
    taken = lifecycle_pb.PromoteMemoryRequest(scope=scope, id=source.id, content="The walrus sings.")
    assert grpc.StatusCode.ABORTED == refused(stubs.lifecycle.PromoteMemory, late).code
    assert grpc.StatusCode.ALREADY_EXISTS == refused(stubs.lifecycle.PromoteMemory, taken).code

    request = memory_pb.GetMemoryRequest(scope=scope, id=source.id)
    assert source == stubs.memory.GetMemory(request, timeout=TIMEOUT).memory


def test_an_image_in_the_edited_text_becomes_a_file(stubs: Stubs, user: str) -> None:
    """As in any other write: no base64 is left in the content or the keywords."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    source = create(stubs, scope, "The trend goes up.", layer=SHORT)
    new = promote(stubs, scope, source, content="The trend goes up: ![t](data:image/png;base64,iVBORw0KGgo=)").memory

    [ref] = new.file_refs
    assert new.content == f"The trend goes up: ![t](memory:{ref.id})"
    assert download(stubs, scope, ref.id) == b"\x89PNG\r\n\x1a\n"
