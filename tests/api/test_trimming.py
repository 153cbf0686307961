"""Trimming over the wire: what stays, what is summed up, and when it comes by itself."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, found, list_all, refused, search
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    append,
    open_session,
    place,
    said,
    say,
    show,
    trim,
)
from tests.support.until import until


def conversation(rounds: int) -> list[types_pb.ChatMessage]:
    """Return a conversation with a system message, whose rounds cost the same."""
    messages = [say("You are a helpful assistant.", SYSTEM, token_count=50)]
    for number in range(rounds):
        messages.append(say(f"We decided that step {number} uses tool {number}.", token_count=40))
        messages.append(say(f"第{number}步记下了。", ASSISTANT, token_count=10))
    return messages


def test_trimming_archives_the_oldest_and_keeps_what_is_protected(stubs: Stubs, user: str) -> None:
    """Down to the target, summed up; the originals stay readable, and a repetition changes nothing."""
    here = place(user)
    open_session(stubs, here, token_limit=1_000, title="Steps")
    append(stubs, here, conversation(12))
    before = said(stubs, here)
    reply = trim(stubs, here, request_id="t", wait_for=types_pb.WAIT_FOR_INDEXED)

    assert 650 == sum(message.token_count for message in before)
    assert (6, 150, 500) == (reply.archived_message_count, reply.archived_token_count, reply.token_count)
    live = said(stubs, here)
    assert SYSTEM == live[0].role
    assert [message.ordinal for message in before][-len(live) + 1 :] == [message.ordinal for message in live[1:]]
    everything = said(stubs, here, include_archived=True)
    assert [one.content for one in before] == [one.content for one in everything]
    dropped = [message for message in everything if message.archived]
    assert {reply.summary.id} == {message.summary_id for message in dropped}
    assert reply.archived_message_count == len(dropped) > 0
    session = show(stubs, here)
    assert (1, len(dropped), reply.token_count) == (
        session.trim_count, session.archived_message_count, session.token_count,
    )  # fmt: skip
    assert reply == trim(stubs, here, request_id="t")
    assert 0 == trim(stubs, here).archived_message_count

    summary = reply.summary
    assert (types_pb.MEMORY_LAYER_SHORT_TERM, types_pb.MEMORY_KIND_SUMMARY) == (summary.layer, summary.kind)
    assert [message.memory_id for message in dropped] == list(summary.related_ids)
    assert {"session_id": "s", "first_ordinal": 2.0, "message_count": float(len(dropped))}.items() <= dict(
        summary.metadata
    ).items()
    assert "step 0" in summary.content
    # The summary is found from other sessions, the originals no longer by a search that does not ask for them.
    assert summary.content in found(stubs, place(user, "another"), "step tool decided", limit=100)
    hits = search(stubs, here, before[1].content).hits
    assert before[1].memory_id not in [hit.memory.id for hit in hits]


def test_the_last_rounds_stay_whatever_they_cost(stubs: Stubs, user: str) -> None:
    """System messages, pinned ones and three rounds; what a tool answered goes with its call."""
    here = place(user)
    open_session(stubs, here, token_limit=1_000)
    call = types_pb.ChatMessage(role=ASSISTANT, tool_calls=[types_pb.ToolCall(name="look", id="c")], token_count=5)
    messages = [
        say("first", token_count=100), call, say("answer", TOOL, tool_call_id="c", token_count=100),
        say("pinned", pinned=True, token_count=100),
        *(say(f"round {number}", token_count=200) for number in range(3)),
    ]  # fmt: skip
    append(stubs, here, messages)
    reply = trim(stubs, here, target_tokens=0)

    assert (3, 205) == (reply.archived_message_count, reply.archived_token_count)
    assert (700, 0) == (reply.token_count, reply.target_tokens)
    assert "700 tokens remain, more than the target of 0" in reply.notice
    assert ["pinned", "round 0", "round 1", "round 2"] == [message.content for message in said(stubs, here)]
    assert 1 == trim(stubs, here, target_tokens=0, keep_rounds=2).archived_message_count


@pytest.mark.parametrize(
    "texts",
    [("The plan is to move the server {}.", "Noted {}."), ("计划是搬迁第{}台服务器。", "第{}台记下了。")],
    ids=("en", "zh"),
)
def test_the_last_three_rounds_are_never_trimmed_by_themselves(stubs: Stubs, user: str, texts: tuple[str, str]) -> None:
    """Not even when they alone exceed the limit; older ones go, and `trimming` is said only when some can."""
    here = place(user)
    open_session(stubs, here, token_limit=200)
    for number in range(5):
        turn = [say(texts[0].format(number), token_count=100), say(texts[1].format(number), ASSISTANT, token_count=50)]
        append(stubs, here, turn)
        if number == 2:
            assert not append(stubs, here, [say(".", ASSISTANT, token_count=1)]).trimming
            assert (7, 451) == (show(stubs, here).message_count, show(stubs, here).token_count)
    until(lambda: show(stubs, here).message_count == 7)

    kept = [text.format(number) for number in (2, 3, 4) for text in texts]
    assert kept == [message.content for message in said(stubs, here) if message.content != "."]
    reply = trim(stubs, here)
    assert (0, 451, 100) == (reply.archived_message_count, reply.token_count, reply.target_tokens)
    assert "more than the target of 100" in reply.notice
    assert kept[2:] == [message.content for message in (trim(stubs, here, keep_rounds=2), *said(stubs, here))[1:]]
    assert "" == trim(stubs, here, keep_rounds=0).notice


def test_the_number_of_rounds_is_a_setting(tmp_path: Path) -> None:
    """With one round, two of three go."""
    with served(tmp_path / "data", sessions={"keep_rounds": 1, "auto_trim": False}) as stubs:
        here = place("u")
        open_session(stubs, here, token_limit=100)
        append(stubs, here, [say(f"round {number}", token_count=60) for number in range(3)])
        reply = trim(stubs, here)

        assert (2, 60, 50) == (reply.archived_message_count, reply.token_count, reply.target_tokens)
        assert ["round 2"] == [message.content for message in said(stubs, here)]


def test_an_agent_at_work_never_fills_its_session(stubs: Stubs, user: str) -> None:
    """It is trimmed without a user's message; one long round is trimmed on request."""
    agent, task, fixed = place(user), place(user, "task"), place(user, "fixed")
    for here in (agent, task, fixed):
        open_session(stubs, here, token_limit=200, on_open=2)
    append(stubs, task, [say("请修好构建。", token_count=10)])
    for number in range(30):
        for here in (agent, task):
            append(stubs, here, [say(f"Step {number} is done.", ASSISTANT, token_count=10)])
    append(stubs, fixed, [say("Be brief.", SYSTEM, token_count=150)])

    assert not append(stubs, fixed, [say("Hello there.", token_count=60)]).trimming
    assert 310 == show(stubs, task).token_count
    until_trimmed(stubs, agent)
    for here in (agent, task):
        trim(stubs, here, keep_rounds=0)
        assert show(stubs, here).token_count <= 100
        assert "Step 29 is done." == said(stubs, here)[-1].content


def test_a_summary_is_much_shorter_than_what_it_stands_for(stubs: Stubs, user: str) -> None:
    """At most a quarter of it, but always a sentence, in both languages."""
    english = [f"Team {number} meets on floor {number} to plan release {number} of the billing service."
               for number in range(40)]  # fmt: skip
    chinese = [f"第{number}组决定在三楼会议室评审计费服务的第{number}次发布计划。" for number in range(40)]
    for name, texts in (("en", english), ("zh", chinese)):
        here = place(user, name)
        open_session(stubs, here, token_limit=10_000, on_open=2)
        append(stubs, here, texts[:20])
        append(stubs, here, texts[20:])
        reply = trim(stubs, here, target_tokens=0, keep_rounds=0)
        append(stubs, here, [texts[0]])
        short = trim(stubs, here, target_tokens=0, keep_rounds=0)

        lines = reply.summary.content.splitlines()
        assert 0 < len(lines) <= len(texts) // 4
        assert texts[0] in short.summary.content


@pytest.mark.parametrize("text", ["one two three", "我们决定用 Redis"])
def test_a_message_that_is_changed_is_counted_anew(stubs: Stubs, user: str, text: str) -> None:
    """So is one that is rolled back to what it said."""
    here = place(user)
    open_session(stubs, here)
    [told] = append(stubs, here, [text]).messages
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(
            scope=here,
            memory=types_pb.Memory(id=told.memory_id, content=text * 50),
            update_mask=FieldMask(paths=["content"]),
        ),
        timeout=TIMEOUT,
    )
    [longer] = said(stubs, here)

    assert longer.token_count >= 40 * told.token_count
    assert longer.token_count == show(stubs, here).token_count
    rolled = memory_pb.RollbackMemoryRequest(scope=here, id=told.memory_id, revision=1)
    stubs.memory.RollbackMemory(rolled, timeout=TIMEOUT)
    assert told.token_count == show(stubs, here).token_count


def until_trimmed(stubs: Stubs, here: types_pb.Scope, times: int = 1) -> session_pb.Session:
    """Return the session once it was trimmed so often."""
    return until(lambda: session if (session := show(stubs, here)).trim_count >= times else None)


def test_a_full_session_is_trimmed_by_itself(stubs: Stubs, user: str) -> None:
    """No acknowledged message is ever lost, however often that happens; one that must not be trimmed is left alone."""
    here, manual = place(user), place(user, "manual")
    open_session(stubs, here, token_limit=500, on_open=2)
    open_session(stubs, manual, token_limit=500, auto_trim=2, on_open=2)
    contents: list[str] = []
    was_full = False
    for number in range(40):
        texts = [f"我们决定用第 {number} 号方案。", f"Noted, number {number}."]
        reply = append(stubs, here, [say(texts[0], token_count=20), say(texts[1], ASSISTANT, token_count=10)])
        was_full = was_full or reply.trimming
        assert not append(stubs, manual, [say(texts[0], token_count=30)]).trimming
        contents += texts
        if number == 20:
            # Full once; else a trim that comes late could take all that comes in one.
            until_trimmed(stubs, here)
    session = until_trimmed(stubs, here, 2)

    assert was_full
    assert contents == [message.content for message in said(stubs, here, include_archived=True, page_size=9)]
    assert 80 == session.message_count + session.archived_message_count
    assert (0, 40) == (show(stubs, manual).trim_count, show(stubs, manual).message_count)
    summaries = list_all(stubs, here, filter=filters_pb.Filter(kinds=[types_pb.MEMORY_KIND_SUMMARY]))
    assert len(summaries) >= 2
    assert any("方案" in summary.content for summary in summaries)


def test_a_message_that_can_never_fit_is_refused(stubs: Stubs, user: str) -> None:
    """With the number of tokens, and nothing of the append is stored."""
    here = place(user)
    open_session(stubs, here, token_limit=100)
    request = session_pb.AppendMessagesRequest(scope=here, messages=[say("fine"), say("many words " * 100)])
    refusal = refused(stubs.session.AppendMessages, request)

    assert (grpc.StatusCode.INVALID_ARGUMENT, ("messages[1].content",)) == (refusal.code, refusal.fields)
    assert [] == said(stubs, here)


def test_deleting_a_message_takes_it_out_of_the_count(stubs: Stubs, user: str) -> None:
    """Softly, for good, and back again."""
    here = place(user)
    open_session(stubs, here)
    one, two = append(stubs, here, [say("one", token_count=10), say("two", token_count=20)]).messages
    delete = memory_pb.DeleteMemoryRequest(scope=here, id=one.memory_id)
    stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)
    assert (1, 20) == (show(stubs, here).message_count, show(stubs, here).token_count)
    assert ["two"] == [message.content for message in said(stubs, here, include_archived=True)]
    stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=here, id=one.memory_id), timeout=TIMEOUT)
    assert ["one", "two"] == [message.content for message in said(stubs, here)]
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=here, id=two.memory_id, purge=True), timeout=TIMEOUT)
    assert (1, 10) == (show(stubs, here).message_count, show(stubs, here).token_count)
    assert 3 == append(stubs, here, ["three"]).messages[0].ordinal
