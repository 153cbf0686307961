"""Sessions over the wire: opened, appended to, read, trimmed, ended, and private."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import history_pb2 as history_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as pb
from memsvc.v1 import types_pb2 as types
from tests.e2e.calls import MODES, TIMEOUT, create, found, get, list_all, refused, search
from tests.e2e.running import FAST, ServerProcess, Stubs
from tests.e2e.sessions import (
    ACTIVE,
    ARCHIVED,
    ASSISTANT,
    CLOSED,
    SYSTEM,
    TOOL,
    append,
    listed,
    open_session,
    place,
    said,
    say,
    show,
    trim,
)

ALL = types.Filter(sessions=types.SESSION_VISIBILITY_ALL)


def struct(**members: object) -> Struct:
    """Return free JSON."""
    made = Struct()
    made.update(members)
    return made


def test_a_session_is_as_it_was_opened(stubs: Stubs, user: str) -> None:
    """Everything that was chosen is there, nothing is counted yet."""
    here = types.Scope(user_id=user, project_id="项目", agent_id="a", session_id="会话 1")
    opened = open_session(
        stubs, here, title="上线 plan", token_limit=1_000, auto_trim=2, on_open=2, metadata=struct(票="开", n=1.5)
    )

    assert (here, "上线 plan", ACTIVE, 1_000, 2) == (
        opened.scope, opened.title, opened.state, opened.token_limit, opened.auto_trim,
    )  # fmt: skip
    assert {"票": "开", "n": 1.5} == dict(opened.metadata)
    assert (0, 0, 0, 0.0) == (opened.message_count, opened.token_count, opened.trim_count, opened.usage_ratio)
    assert not opened.HasField("end_time")
    assert opened == show(stubs, here)


def test_a_session_without_an_id_gets_one(stubs: Stubs, scope: types.Scope) -> None:
    """A repeated request gets the same one."""
    opened = open_session(stubs, scope, request_id="r")

    assert len(opened.scope.session_id) == 36
    assert 64_000 == opened.token_limit
    assert opened == open_session(stubs, scope, request_id="r")
    assert opened.scope.session_id != open_session(stubs, scope).scope.session_id


def test_messages_come_back_as_they_were_said(stubs: Stubs, user: str) -> None:
    """In order, with everything that was given; a message of tool calls alone has no content."""
    here = place(user)
    open_session(stubs, here)
    given = [
        say("你是助手。\r\nBe brief 🦭", SYSTEM),
        say("What is the weather in Lisbon?", name="Anna", time=Timestamp(seconds=1_700_000_000), metadata=struct(x=1)),
        pb.NewMessage(
            role=ASSISTANT, tool_calls=[pb.ToolCall(id="c1", name="weather", arguments=struct(city="Lisbon", days=[1, 2]))]
        ),
        say('{"sky": "clear"}', TOOL, tool_call_id="c1", pinned=True),
        say("晴天。", ASSISTANT, token_count=77),
    ]  # fmt: skip
    reply = append(stubs, here, given)
    messages = said(stubs, here)

    assert [1, 2, 3, 4, 5] == [one.ordinal for one in reply.messages] == [one.ordinal for one in messages]
    assert [one.memory_id for one in reply.messages] == [one.memory_id for one in messages]
    for one, message in zip(given, messages, strict=True):
        back = pb.NewMessage(
            role=message.role, content=message.content, name=message.name, tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id, pinned=message.pinned,
        )  # fmt: skip
        if one.token_count:
            back.token_count = message.token_count
        if one.HasField("time"):
            back.time.CopyFrom(message.time)
        if one.HasField("metadata"):
            back.metadata.CopyFrom(message.metadata)
        assert one == back
    assert 77 == messages[-1].token_count
    assert all(message.token_count > 0 for message in messages)
    session = show(stubs, here)
    assert (5, reply.token_count) == (session.message_count, session.token_count)
    assert sum(message.token_count for message in messages) == session.token_count
    assert session.HasField("last_message_time")


def test_a_message_is_a_memory_too(stubs: Stubs, user: str) -> None:
    """Of kind MESSAGE and layer SESSION, in its session."""
    here = place(user)
    open_session(stubs, here)
    [one] = append(stubs, here, [say("Porto it is.", name="Anna")]).messages
    memory = get(stubs, here, one.memory_id)

    assert ("Porto it is.", "Anna", "user") == (memory.content, memory.speaker, memory.category)
    assert (types.MEMORY_KIND_MESSAGE, types.MEMORY_LAYER_SESSION) == (memory.kind, memory.layer)


def test_many_append_at_once_and_nothing_is_lost_or_mixed(stubs: Stubs, user: str) -> None:
    """Each append stays in one piece, and every place is taken once."""
    here = place(user)
    open_session(stubs, here)

    def talk(number: int) -> list[int]:
        texts = [f"speaker {number} line {line}" for line in range(5)]
        return [one.ordinal for one in append(stubs, here, texts).messages]

    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(talk, range(24)))

    assert list(range(1, 121)) == sorted(ordinal for ordinals in places for ordinal in ordinals)
    assert all(ordinals == list(range(ordinals[0], ordinals[0] + 5)) for ordinals in places)
    contents = {message.ordinal: message.content for message in said(stubs, here, page_size=7)}
    for number, ordinals in enumerate(places):
        assert [f"speaker {number} line {line}" for line in range(5)] == [contents[one] for one in ordinals]


def test_an_append_that_comes_again_happens_once(stubs: Stubs, user: str) -> None:
    """Same answer, one message; another request under the same id is refused."""
    here = place(user)
    open_session(stubs, here)
    first = append(stubs, here, ["again"], request_id="r")
    append(stubs, here, ["between"])

    assert first == append(stubs, here, ["again"], request_id="r")
    assert ["again", "between"] == [message.content for message in said(stubs, here)]
    request = pb.AppendMessagesRequest(scope=here, messages=[say("other")], request_id="r")
    refusal = refused(stubs.session.AppendMessages, request)
    assert (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == (refusal.code, refusal.reason)


def test_lists_go_page_by_page(stubs: Stubs, user: str) -> None:
    """Messages forwards and backwards, sessions newest first; a token of another list is refused."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, [f"m{number}" for number in range(25)])
    for number in range(7):
        open_session(stubs, place(user, f"other {number}"), on_open=2)

    forwards = [message.content for message in said(stubs, here, page_size=4)]
    assert [f"m{number}" for number in range(25)] == forwards
    assert forwards[::-1] == [message.content for message in said(stubs, here, page_size=4, newest_first=True)]
    names = [session.scope.session_id for session in listed(stubs, here, page_size=3)]
    assert [*(f"other {number}" for number in range(6, -1, -1)), "s"] == names
    token = stubs.session.ListMessages(pb.ListMessagesRequest(scope=here, page_size=2), timeout=TIMEOUT).next_page_token
    for request in (
        pb.ListMessagesRequest(scope=here, newest_first=True, page_token=token),
        pb.ListMessagesRequest(scope=place(user, "other 1"), page_token=token),
    ):
        assert ("page_token",) == refused(stubs.session.ListMessages, request).fields


def test_opening_another_session_archives_the_one_before(stubs: Stubs, user: str) -> None:
    """Of the same project, whichever agent opened it; it stays readable, takes no messages, and can be reopened."""
    first, second = place(user, "1", "p"), place(user, "2", "p")
    elsewhere, of_agent = (
        place(user, "1", "q"),
        types.Scope(user_id=user, project_id="p", agent_id="a", session_id="a1"),
    )
    for one in (of_agent, elsewhere, first):
        open_session(stubs, one)
    append(stubs, first, ["kept"])
    open_session(stubs, second)

    states = {one.scope.session_id: one.state for one in listed(stubs, first)}
    assert {"1": ARCHIVED, "2": ACTIVE, "a1": ARCHIVED} == states
    assert ACTIVE == show(stubs, elsewhere).state
    assert show(stubs, first).HasField("end_time")
    assert ["kept"] == [message.content for message in said(stubs, first)]
    refusal = refused(stubs.session.AppendMessages, pb.AppendMessagesRequest(scope=first, messages=[say("x")]))
    assert (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_NOT_ACTIVE") == (refusal.code, refusal.reason)
    assert {"session_id": "1", "state": "ARCHIVED"} == refusal.metadata

    reopened = stubs.session.ReopenSession(pb.ReopenSessionRequest(scope=first), timeout=TIMEOUT).session
    assert (ACTIVE, False) == (reopened.state, reopened.HasField("end_time"))
    assert ARCHIVED == show(stubs, second).state
    assert 2 == append(stubs, first, ["goes on"]).messages[0].ordinal
    assert ["2", "a1"] == sorted(one.scope.session_id for one in listed(stubs, first, states=[ARCHIVED]))


def test_a_closed_session_stays_readable(stubs: Stubs, user: str) -> None:
    """It takes neither messages nor trims; closing it again changes nothing."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, ["bye"])
    close = pb.CloseSessionRequest(scope=here)
    closed = stubs.session.CloseSession(close, timeout=TIMEOUT).session

    assert CLOSED == closed.state
    assert closed == stubs.session.CloseSession(close, timeout=TIMEOUT).session == show(stubs, here)
    for call, request in (
        (stubs.session.AppendMessages, pb.AppendMessagesRequest(scope=here, messages=[say("x")])),
        (stubs.session.TrimSession, pb.TrimSessionRequest(scope=here)),
    ):
        assert "SESSION_NOT_ACTIVE" == refused(call, request).reason
    assert ["bye"] == [message.content for message in said(stubs, here)]


def test_what_is_not_there_is_not_found(stubs: Stubs, user: str) -> None:
    """Nothing springs into being; an id is taken once."""
    here = place(user)
    for call, request in (
        (stubs.session.AppendMessages, pb.AppendMessagesRequest(scope=here, messages=[say("x")])),
        (stubs.session.GetSession, pb.GetSessionRequest(scope=here)),
        (stubs.session.ListMessages, pb.ListMessagesRequest(scope=here)),
        (stubs.session.TrimSession, pb.TrimSessionRequest(scope=here)),
        (stubs.session.CloseSession, pb.CloseSessionRequest(scope=here)),
        (stubs.session.ReopenSession, pb.ReopenSessionRequest(scope=here)),
    ):
        refusal = refused(call, request)
        assert (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND") == (refusal.code, refusal.reason)
    assert [] == listed(stubs, here)
    open_session(stubs, here)
    refusal = refused(stubs.session.CreateSession, pb.CreateSessionRequest(scope=here))
    assert (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS") == (refusal.code, refusal.reason)


def test_messages_are_found_in_their_session_and_elsewhere_on_request(stubs: Stubs, user: str) -> None:
    """Not by another session, not by the user outside; by both when they ask for all sessions. Other users never."""
    here, there, outside = place(user, "1"), place(user, "2"), types.Scope(user_id=user)
    open_session(stubs, here)
    append(stubs, here, ["The wombat code is 4711.", "鸭嘴兽的密码是 4712。"], wait_for=types.WAIT_FOR_INDEXED)
    english, chinese = said(stubs, here)
    stranger = place(f"{user}-corp", "1")

    for query, content in (("wombat code", english.content), ("鸭嘴兽 密码", chinese.content)):
        for mode in MODES:
            assert content == found(stubs, here, query, mode=mode)[0]
            for elsewhere in (there, outside):
                assert [] == found(stubs, elsewhere, query, mode=mode)
                assert content == found(stubs, elsewhere, query, mode=mode, filter=ALL)[0]
                only = types.Filter(sessions=types.SESSION_VISIBILITY_ALL, session_ids=["2"])
                assert [] == found(stubs, elsewhere, query, mode=mode, filter=only)
            assert [] == found(stubs, stranger, query, mode=mode, filter=ALL)
    assert [] == list_all(stubs, outside)
    assert 2 == len(list_all(stubs, outside, filter=ALL))
    assert [] == found(stubs, types.Scope(user_id=user, project_id="p"), "x", filter=types.Filter(
        sessions=types.SESSION_VISIBILITY_ALL, visibility=types.PROJECT_VISIBILITY_PROJECT
    ))  # fmt: skip


def test_the_line_before_is_a_neighbour(stubs: Stubs, user: str) -> None:
    """A message is found by the words of the one before it, also by that of an earlier append."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, [say("Shall we eat asparagus?")])
    append(stubs, here, [say("Yes, with butter.", ASSISTANT)])
    append(stubs, here, [say("The car is broken.")], wait_for=types.WAIT_FOR_INDEXED)

    assert ["Shall we eat asparagus?", "Yes, with butter."] == found(stubs, here, "asparagus", mode=3)


def conversation(rounds: int) -> list[pb.NewMessage]:
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
    reply = trim(stubs, here, request_id="t", wait_for=types.WAIT_FOR_INDEXED)

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
    assert (types.MEMORY_LAYER_SHORT_TERM, types.MEMORY_KIND_SUMMARY) == (summary.layer, summary.kind)
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
    call = pb.NewMessage(role=ASSISTANT, tool_calls=[pb.ToolCall(name="look", id="c")], token_count=5)
    messages = [
        say("first", token_count=100), call, say("answer", TOOL, tool_call_id="c", token_count=100),
        say("pinned", pinned=True, token_count=100),
        *(say(f"round {number}", token_count=200) for number in range(3)),
    ]  # fmt: skip
    append(stubs, here, messages)
    reply = trim(stubs, here, target_tokens=0)

    assert (3, 205) == (reply.archived_message_count, reply.archived_token_count)
    assert ["pinned", "round 0", "round 1", "round 2"] == [message.content for message in said(stubs, here)]
    assert 1 == trim(stubs, here, target_tokens=0, keep_rounds=2).archived_message_count


def test_an_agent_at_work_never_fills_its_session(stubs: Stubs, user: str) -> None:
    """It is trimmed without a user's message or in one long round; `trimming` is said only when that is so."""
    agent, task, fixed = place(user), place(user, "task"), place(user, "fixed")
    for here in (agent, task, fixed):
        open_session(stubs, here, token_limit=200, on_open=2)
    append(stubs, task, [say("请修好构建。", token_count=10)])
    for number in range(30):
        for here in (agent, task):
            append(stubs, here, [say(f"Step {number} is done.", ASSISTANT, token_count=10)])
    append(stubs, fixed, [say("Be brief.", SYSTEM, token_count=150)])

    assert not append(stubs, fixed, [say("Hello there.", token_count=60)]).trimming
    for here in (agent, task):
        until_trimmed(stubs, here)
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
            memory=types.Memory(id=told.memory_id, content=text * 50),
            update_mask=FieldMask(paths=["content"]),
        ),
        timeout=TIMEOUT,
    )
    [longer] = said(stubs, here)

    assert longer.token_count >= 40 * told.token_count
    assert longer.token_count == show(stubs, here).token_count
    rolled = history_pb.RollbackMemoryRequest(scope=here, id=told.memory_id, revision=1)
    stubs.memory.RollbackMemory(rolled, timeout=TIMEOUT)
    assert told.token_count == show(stubs, here).token_count


def until_trimmed(stubs: Stubs, here: types.Scope, times: int = 1) -> pb.Session:
    """Return the session once it was trimmed so often."""
    deadline = time.monotonic() + TIMEOUT
    while (session := show(stubs, here)).trim_count < times:
        assert time.monotonic() < deadline, session
        time.sleep(0.02)
    return session


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
    session = until_trimmed(stubs, here, 2)

    assert was_full
    assert contents == [message.content for message in said(stubs, here, include_archived=True, page_size=9)]
    assert 80 == session.message_count + session.archived_message_count
    assert (0, 40) == (show(stubs, manual).trim_count, show(stubs, manual).message_count)
    summaries = list_all(stubs, here, filter=types.Filter(kinds=[types.MEMORY_KIND_SUMMARY]))
    assert len(summaries) >= 2
    assert any("方案" in summary.content for summary in summaries)


def test_a_message_that_can_never_fit_is_refused(stubs: Stubs, user: str) -> None:
    """With the number of tokens, and nothing of the append is stored."""
    here = place(user)
    open_session(stubs, here, token_limit=100)
    request = pb.AppendMessagesRequest(scope=here, messages=[say("fine"), say("many words " * 100)])
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
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=here, id=two.memory_id, hard=True), timeout=TIMEOUT)
    assert (1, 10) == (show(stubs, here).message_count, show(stubs, here).token_count)
    assert 3 == append(stubs, here, ["three"]).messages[0].ordinal


def test_plain_memories_of_a_session_are_no_messages(stubs: Stubs, user: str) -> None:
    """A memory that was written in the session stands beside its messages."""
    here = place(user)
    open_session(stubs, here)
    create(stubs, here, "a note", layer=types.MEMORY_LAYER_SESSION)
    append(stubs, here, ["a message"])

    assert ["a message"] == [message.content for message in said(stubs, here)]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """Every message, in order, with its session."""
    with ServerProcess(tmp_path / "data", FAST) as server:
        here = place("u")
        with server.stubs() as stubs:
            open_session(stubs, here, title="kept")
            for number in range(20):
                append(stubs, here, [f"line {number}"], request_id=f"r{number}")
        server.kill()
        server.start()
        with server.stubs() as stubs:
            assert [f"line {number}" for number in range(20)] == [one.content for one in said(stubs, here)]
            assert ("kept", 20) == (show(stubs, here).title, show(stubs, here).message_count)
            assert 20 == append(stubs, here, ["line 19"], request_id="r19").messages[0].ordinal


@pytest.mark.parametrize("archives", ["true", "false"])
def test_the_settings_hold_where_a_request_says_nothing(tmp_path: Path, archives: str) -> None:
    """The limit, and whether opening archives."""
    environment = FAST | {
        "MEMSVC_SESSIONS__ARCHIVE_OTHERS": archives, "MEMSVC_SESSIONS__TOKEN_LIMIT": "321",
        "MEMSVC_SESSIONS__AUTO_TRIM": "false", "MEMSVC_TOKENIZER__BACKEND": "estimate",
    }  # fmt: skip
    with ServerProcess(tmp_path / "data", environment) as server, server.stubs() as stubs:
        first = open_session(stubs, place("u", "1"))
        open_session(stubs, place("u", "2"))
        append(stubs, place("u", "2"), ["four"])

        assert (321, 2) == (first.token_limit, first.auto_trim)
        assert (ARCHIVED if archives == "true" else ACTIVE) == show(stubs, place("u", "1")).state
        assert 1 == show(stubs, place("u", "2")).token_count
