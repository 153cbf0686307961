"""Statements that are stored already: what the user repeats of a tool gains the trust of the user."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, get, list_all, write
from tests.support.server_process import Stubs

USER, AGENT, TOOL = types_pb.MEMORY_ORIGIN_USER, types_pb.MEMORY_ORIGIN_AGENT, types_pb.MEMORY_ORIGIN_TOOL
CORE, LONG_TERM = types_pb.MEMORY_LAYER_CORE, types_pb.MEMORY_LAYER_LONG_TERM
SHORT_TERM = types_pb.MEMORY_LAYER_SHORT_TERM
CREATED, UPDATED = types_pb.WRITE_OUTCOME_CREATED, types_pb.WRITE_OUTCOME_UPDATED
DUPLICATE = types_pb.WRITE_OUTCOME_DUPLICATE
CONFLICTED = types_pb.MEMORY_STATUS_CONFLICTED
TEXTS = pytest.mark.parametrize("text", ["Deploys happen on Tuesdays only.", "只在周二部署。"])


def again(stubs: Stubs, scope: types_pb.Scope, text: str, **fields: Any) -> memory_pb.CreateMemoryResponse:
    """Write a content, and return the answer."""
    return write(stubs, scope, types_pb.Memory(content=text, **fields))


def captured(stubs: Stubs, scope: types_pb.Scope, text: str) -> memory_pb.CaptureDecision:
    """Capture one statement of the user, and return the decision."""
    message = types_pb.ChatMessage(content=text, role=types_pb.MESSAGE_ROLE_USER)
    request = memory_pb.CaptureMemoryRequest(scope=scope, message=message, wait_for=types_pb.WAIT_FOR_INDEXED)
    [decision] = stubs.memory.CaptureMemory(request, timeout=TIMEOUT).decisions
    return decision


@TEXTS
def test_the_user_repeats_what_a_tool_stored(stubs: Stubs, scope: types_pb.Scope, text: str) -> None:
    """The memory takes over origin, trust, layer and importance, and a further repetition changes nothing."""
    page = create(stubs, scope, "网页 page", origin=TOOL)
    tool = create(stubs, scope, text, origin=TOOL, source="https://example.com/", derived_from_ids=[page.id])
    said = {"origin": USER, "layer": CORE, "importance": 5, "tier": types_pb.MEMORY_TIER_CORE, "source": "chat"}
    user, same = (again(stubs, scope, text, **said) for _ in range(2))

    assert (user.outcome, user.memory.id, user.memory.revision) == (UPDATED, tool.id, 2)
    assert (user.memory.origin, user.memory.trust, list(user.memory.derived_from_ids)) == (USER, 1.0, [])
    assert (user.memory.layer, user.memory.importance, user.memory.source) == (CORE, 5, "chat")
    assert user.memory.tier == types_pb.MEMORY_TIER_CORE
    assert (same.outcome, same.memory.revision) == (DUPLICATE, 2)


@TEXTS
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": AGENT, "trust": 0.4},
        {"origin": TOOL, "layer": CORE, "importance": 5},
        {"origin": USER, "layer": SHORT_TERM, "importance": 1, "tier": types_pb.MEMORY_TIER_CONTEXTUAL},
        {"origin": USER, "title": "title", "tags": ["tag"]},
    ],
)
def test_what_is_no_stronger_is_a_duplicate(
    stubs: Stubs, scope: types_pb.Scope, text: str, fields: dict[str, Any]
) -> None:
    """Less trust, a shorter layer, a lower importance and other fields change nothing, nor does a tool."""
    user = create(stubs, scope, text, origin=USER)
    reply = again(stubs, scope, text, **fields)

    assert (reply.outcome, reply.memory) == (DUPLICATE, get(stubs, scope, user.id))
    assert reply.memory.revision == 1


@TEXTS
def test_an_agent_that_names_no_origin_does_not_vouch_for_a_tool(
    stubs: Stubs, scope: types_pb.Scope, text: str
) -> None:
    """As under a key: unchanged content keeps its provenance unless the write names another."""
    create(stubs, scope, text, origin=TOOL)
    silent, named = again(stubs, scope, text), again(stubs, scope, text, origin=AGENT)

    assert (silent.outcome, silent.memory.origin) == (DUPLICATE, TOOL)
    assert (named.outcome, named.memory.origin, named.memory.trust) == (UPDATED, AGENT, 0.8)


@pytest.mark.parametrize("text", ["The kitchen tap drips.", "厨房的水龙头漏水。"])
def test_a_longer_layer_keeps_no_expiry(stubs: Stubs, scope: types_pb.Scope, text: str) -> None:
    """A SHORT_TERM memory that is said again for long does not expire."""
    short = create(stubs, scope, text, layer=SHORT_TERM)
    reply = again(stubs, scope, text, layer=LONG_TERM)

    assert short.HasField("expire_time")
    assert (reply.outcome, reply.memory.layer, reply.memory.HasField("expire_time")) == (UPDATED, LONG_TERM, False)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ("The staging deadline is Monday.", "The staging deadline is Friday."),
        ("预发布环境的截止日期是周一。", "预发布环境的截止日期是周五。"),
    ],
)
def test_what_the_user_confirms_displaces_what_the_user_said_before(
    stubs: Stubs, scope: types_pb.Scope, mine: str, other: str
) -> None:
    """The statement of the tool is the user's now."""
    before = create(stubs, scope, mine, origin=USER)
    create(stubs, scope, other, origin=TOOL)
    confirmed = again(stubs, scope, other, origin=USER)

    assert confirmed.outcome == UPDATED
    assert [one.older_memory_id for one in confirmed.conflicts] == [before.id]
    assert get(stubs, scope, before.id).status == CONFLICTED


@pytest.mark.parametrize("text", ["I prefer window seats.", "我喜欢靠窗的座位。"])
@pytest.mark.parametrize("kind", [types_pb.MEMORY_KIND_FACT, types_pb.MEMORY_KIND_PREFERENCE])
def test_a_capture_takes_over_what_a_tool_stored(
    stubs: Stubs, scope: types_pb.Scope, text: str, kind: types_pb.MemoryKind.ValueType
) -> None:
    """One memory, which is the user's then; the next capture knows it."""
    tool = create(stubs, scope, text, origin=TOOL, kind=kind)
    first, second = captured(stubs, scope, text), captured(stubs, scope, text)

    assert (first.remember, first.outcome, first.memory.id) == (True, UPDATED, tool.id)
    assert (first.memory.origin, first.memory.trust) == (USER, 1.0)
    assert (second.remember, second.reason) == (False, memory_pb.CAPTURE_REASON_KNOWN)
    assert len(list_all(stubs, scope)) == 1


@pytest.mark.parametrize(
    ("note", "text"),
    [
        ("The form lists two things. I prefer window seats. The rest is empty.", "I prefer window seats."),
        ("表格里有两项。我喜欢靠窗的座位。其余为空。", "我喜欢靠窗的座位。"),
    ],
)
@pytest.mark.parametrize("origin", [TOOL, AGENT])
def test_a_capture_of_a_part_of_what_a_tool_stored_is_a_memory_of_its_own(
    stubs: Stubs, scope: types_pb.Scope, note: str, text: str, origin: types_pb.MemoryOrigin.ValueType
) -> None:
    """The rest of what the tool stored is not the user's word; what an agent noted is known, as before."""
    before = create(stubs, scope, note, origin=origin)
    decision = captured(stubs, scope, text)

    assert decision.remember is (origin == TOOL)
    assert get(stubs, scope, before.id).origin == origin
    if origin == TOOL:
        assert (decision.outcome, decision.memory.content, decision.memory.origin) == (CREATED, text, USER)


@pytest.mark.parametrize(
    "text", ["Do I prefer window seats?", "我喜欢靠窗的座位吗？", "He said: “I prefer window seats.”"]
)
def test_a_question_confirms_no_statement(stubs: Stubs, scope: types_pb.Scope, text: str) -> None:
    """Nor does a quotation."""
    stored = [create(stubs, scope, one, origin=TOOL) for one in ("I prefer window seats.", "我喜欢靠窗的座位。")]
    captured(stubs, scope, text)

    assert [get(stubs, scope, one.id).origin for one in stored] == [TOOL, TOOL]
