"""Sessions over the wire: opened, appended to, read, trimmed, ended, and private."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import MODES, TIMEOUT, create, found, get, list_all, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import (
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

ALL = filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL)


def struct(**members: object) -> Struct:
    """Return free JSON."""
    made = Struct()
    made.update(members)
    return made


def test_a_session_is_as_it_was_opened(stubs: Stubs, user: str) -> None:
    """Everything that was chosen is there, nothing is counted yet."""
    here = types_pb.Scope(user_id=user, project_id="项目", agent_id="a", session_id="会话 1")
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


def test_a_session_without_an_id_gets_one(stubs: Stubs, scope: types_pb.Scope) -> None:
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
        say("What is the weather in Lisbon?", speaker="Anna", event_time=Timestamp(seconds=1_700_000_000), metadata=struct(x=1)),
        types_pb.ChatMessage(
            role=ASSISTANT, tool_calls=[types_pb.ToolCall(id="c1", name="weather", arguments=struct(city="Lisbon", days=[1, 2]))]
        ),
        say('{"sky": "clear"}', TOOL, tool_call_id="c1", pinned=True),
        say("晴天。", ASSISTANT, token_count=77),
    ]  # fmt: skip
    reply = append(stubs, here, given)
    messages = said(stubs, here)

    assert [1, 2, 3, 4, 5] == [one.ordinal for one in reply.messages] == [one.ordinal for one in messages]
    assert [one.memory_id for one in reply.messages] == [one.memory_id for one in messages]
    for one, message in zip(given, messages, strict=True):
        back = types_pb.ChatMessage(
            role=message.role, content=message.content, speaker=message.speaker, tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id, pinned=message.pinned,
        )  # fmt: skip
        if one.token_count:
            back.token_count = message.token_count
        if one.HasField("event_time"):
            back.event_time.CopyFrom(message.event_time)
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
    [one] = append(stubs, here, [say("Porto it is.", speaker="Anna")]).messages
    memory = get(stubs, here, one.memory_id)

    assert ("Porto it is.", "Anna", "user") == (memory.content, memory.speaker, memory.category)
    assert (types_pb.MEMORY_KIND_MESSAGE, types_pb.MEMORY_LAYER_SESSION) == (memory.kind, memory.layer)


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
    request = session_pb.AppendMessagesRequest(scope=here, messages=[say("other")], request_id="r")
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
    token = stubs.session.ListMessages(
        session_pb.ListMessagesRequest(scope=here, page_size=2), timeout=TIMEOUT
    ).next_page_token
    for request in (
        session_pb.ListMessagesRequest(scope=here, newest_first=True, page_token=token),
        session_pb.ListMessagesRequest(scope=place(user, "other 1"), page_token=token),
    ):
        assert ("page_token",) == refused(stubs.session.ListMessages, request).fields


def test_opening_another_session_leaves_the_others_alone(stubs: Stubs, user: str) -> None:
    """By default two conversations of one user and project go on side by side; so does reopening."""
    first, second = place(user, "1", "p"), place(user, "2", "p")
    open_session(stubs, first)
    reply = stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=second), timeout=TIMEOUT)

    assert (ACTIVE, []) == (show(stubs, first).state, list(reply.archived))
    assert 1 == append(stubs, first, ["goes on"]).messages[0].ordinal
    stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=first), timeout=TIMEOUT)
    reopened = stubs.session.ReopenSession(session_pb.ReopenSessionRequest(scope=first), timeout=TIMEOUT)
    assert (ACTIVE, []) == (show(stubs, second).state, list(reopened.archived))


def test_opening_another_session_archives_the_one_before_on_request(stubs: Stubs, user: str) -> None:
    """Of the same project, whichever agent opened it; it stays readable, takes no messages, and can be reopened."""
    first, second = place(user, "1", "p"), place(user, "2", "p")
    elsewhere, of_agent = (
        place(user, "1", "q"),
        types_pb.Scope(user_id=user, project_id="p", agent_id="a", session_id="a1"),
    )
    for one in (of_agent, elsewhere, first):
        open_session(stubs, one)
    append(stubs, first, ["kept"])
    open_session(stubs, second, on_open=session_pb.SESSION_ON_OPEN_ARCHIVE_OTHERS)

    states = {one.scope.session_id: one.state for one in listed(stubs, first)}
    assert {"1": ARCHIVED, "2": ACTIVE, "a1": ARCHIVED} == states
    assert ACTIVE == show(stubs, elsewhere).state
    assert show(stubs, first).HasField("end_time")
    assert ["kept"] == [message.content for message in said(stubs, first)]
    refusal = refused(stubs.session.AppendMessages, session_pb.AppendMessagesRequest(scope=first, messages=[say("x")]))
    assert (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_NOT_ACTIVE") == (refusal.code, refusal.reason)
    assert {"session_id": "1", "state": "ARCHIVED"} == refusal.metadata

    reopening = session_pb.ReopenSessionRequest(scope=first, on_open=session_pb.SESSION_ON_OPEN_ARCHIVE_OTHERS)
    reopened = stubs.session.ReopenSession(reopening, timeout=TIMEOUT).session
    assert (ACTIVE, False) == (reopened.state, reopened.HasField("end_time"))
    assert ARCHIVED == show(stubs, second).state
    assert 2 == append(stubs, first, ["goes on"]).messages[0].ordinal
    assert ["2", "a1"] == sorted(one.scope.session_id for one in listed(stubs, first, states=[ARCHIVED]))


def test_a_closed_session_stays_readable(stubs: Stubs, user: str) -> None:
    """It takes neither messages nor trims; closing it again changes nothing."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, ["bye"])
    close = session_pb.CloseSessionRequest(scope=here)
    closed = stubs.session.CloseSession(close, timeout=TIMEOUT).session

    assert CLOSED == closed.state
    assert closed == stubs.session.CloseSession(close, timeout=TIMEOUT).session == show(stubs, here)
    for call, request in (
        (stubs.session.AppendMessages, session_pb.AppendMessagesRequest(scope=here, messages=[say("x")])),
        (stubs.session.TrimSession, session_pb.TrimSessionRequest(scope=here)),
    ):
        assert "SESSION_NOT_ACTIVE" == refused(call, request).reason
    assert ["bye"] == [message.content for message in said(stubs, here)]


def test_what_is_not_there_is_not_found(stubs: Stubs, user: str) -> None:
    """Nothing springs into being; an id is taken once."""
    here = place(user)
    for call, request in (
        (stubs.session.AppendMessages, session_pb.AppendMessagesRequest(scope=here, messages=[say("x")])),
        (stubs.session.GetSession, session_pb.GetSessionRequest(scope=here)),
        (stubs.session.ListMessages, session_pb.ListMessagesRequest(scope=here)),
        (stubs.session.TrimSession, session_pb.TrimSessionRequest(scope=here)),
        (stubs.session.CloseSession, session_pb.CloseSessionRequest(scope=here)),
        (stubs.session.ReopenSession, session_pb.ReopenSessionRequest(scope=here)),
    ):
        refusal = refused(call, request)
        assert (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND") == (refusal.code, refusal.reason)
    assert [] == listed(stubs, here)
    open_session(stubs, here)
    refusal = refused(stubs.session.CreateSession, session_pb.CreateSessionRequest(scope=here))
    assert (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS") == (refusal.code, refusal.reason)


def test_messages_are_found_in_their_session_and_elsewhere_on_request(stubs: Stubs, user: str) -> None:
    """Not by another session, not by the user outside; by both when they ask for all sessions. Other users never."""
    here, there, outside = place(user, "1"), place(user, "2"), types_pb.Scope(user_id=user)
    open_session(stubs, here)
    append(stubs, here, ["The wombat code is 4711.", "鸭嘴兽的密码是 4712。"], wait_for=types_pb.WAIT_FOR_INDEXED)
    english, chinese = said(stubs, here)
    stranger = place(f"{user}-corp", "1")

    for query, content in (("wombat code", english.content), ("鸭嘴兽 密码", chinese.content)):
        for mode in MODES:
            assert content == found(stubs, here, query, mode=mode)[0]
            for elsewhere in (there, outside):
                assert [] == found(stubs, elsewhere, query, mode=mode)
                assert content == found(stubs, elsewhere, query, mode=mode, filter=ALL)[0]
                only = filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL, session_ids=["2"])
                assert [] == found(stubs, elsewhere, query, mode=mode, filter=only)
            assert [] == found(stubs, stranger, query, mode=mode, filter=ALL)
    assert [] == list_all(stubs, outside)
    assert 2 == len(list_all(stubs, outside, filter=ALL))
    assert [] == found(stubs, types_pb.Scope(user_id=user, project_id="p"), "x", filter=filters_pb.Filter(
        session_visibility=filters_pb.SESSION_VISIBILITY_ALL, project_visibility=filters_pb.PROJECT_VISIBILITY_PROJECT
    ))  # fmt: skip


def test_the_line_before_is_a_neighbour(stubs: Stubs, user: str) -> None:
    """A message is found by the words of the one before it, also by that of an earlier append."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, [say("Shall we eat asparagus?")])
    append(stubs, here, [say("Yes, with butter.", ASSISTANT)])
    append(stubs, here, [say("The car is broken.")], wait_for=types_pb.WAIT_FOR_INDEXED)

    assert ["Shall we eat asparagus?", "Yes, with butter."] == found(stubs, here, "asparagus", mode=3)


def test_plain_memories_of_a_session_are_no_messages(stubs: Stubs, user: str) -> None:
    """A memory that was written in the session stands beside its messages."""
    here = place(user)
    open_session(stubs, here)
    create(stubs, here, "a note", layer=types_pb.MEMORY_LAYER_SESSION)
    append(stubs, here, ["a message"])

    assert ["a message"] == [message.content for message in said(stubs, here)]


@pytest.mark.parametrize("archives", [True, False])
def test_the_settings_hold_where_a_request_says_nothing(tmp_path: Path, *, archives: bool) -> None:
    """The limit, and whether opening archives."""
    sessions = {"archive_others": archives, "token_limit": 321, "auto_trim": False}
    with served(tmp_path / "data", sessions=sessions, tokenizer={"backend": "estimate"}) as stubs:
        first = open_session(stubs, place("u", "1"))
        open_session(stubs, place("u", "2"))
        append(stubs, place("u", "2"), ["four"])

        assert (321, 2) == (first.token_limit, first.auto_trim)
        assert (ARCHIVED if archives else ACTIVE) == show(stubs, place("u", "1")).state
        assert 1 == show(stubs, place("u", "2")).token_count


def pop(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> session_pb.PopMessagesResponse:
    """Remove the last messages."""
    return stubs.session.PopMessages(session_pb.PopMessagesRequest(scope=scope, **fields), timeout=TIMEOUT)


def test_the_last_messages_are_taken_back(stubs: Stubs, user: str) -> None:
    """The newest first, one unless more are asked for; the session goes on with the ordinals, and no search finds them."""
    scope = place(user)
    open_session(stubs, scope)
    append(
        stubs, scope, ["My kite is red.", say("好的。", ASSISTANT), "再来一次。", say("A blue kite, then.", ASSISTANT)]
    )
    count = show(stubs, scope).token_count

    one = pop(stubs, scope)
    assert [message.content for message in one.messages] == ["A blue kite, then."]
    two = pop(stubs, scope, count=2)
    assert [message.content for message in two.messages] == ["好的。", "再来一次。"]
    assert [message.ordinal for message in two.messages] == [2, 3]
    assert [message.content for message in said(stubs, scope)] == ["My kite is red."]
    assert count > one.token_count > two.token_count == show(stubs, scope).token_count
    hits = found(stubs, scope, "blue kite 再来", filter=ALL, consistency_token=two.consistency_token)
    assert hits == ["My kite is red."]
    appended = append(stubs, scope, ["又一次。"])
    assert [message.ordinal for message in appended.messages] == [5]

    rest = pop(stubs, scope, count=100)
    assert [message.content for message in rest.messages] == ["My kite is red.", "又一次。"]
    assert (rest.token_count, pop(stubs, scope).messages, said(stubs, scope)) == (0, [], [])


def test_taking_back_comes_again_with_the_same_answer(stubs: Stubs, user: str) -> None:
    """A repeated request removes nothing more; each message can be restored."""
    scope = place(user)
    open_session(stubs, scope)
    append(stubs, scope, ["One.", "二。", "Three."])

    first = pop(stubs, scope, count=2, request_id="r")
    again = pop(stubs, scope, count=2, request_id="r")

    assert [message.content for message in first.messages] == ["二。", "Three."]
    assert [message.memory_id for message in again.messages] == [message.memory_id for message in first.messages]
    assert [message.content for message in said(stubs, scope)] == ["One."]
    reused = session_pb.PopMessagesRequest(scope=scope, count=1, request_id="r")
    assert refused(stubs.session.PopMessages, reused).reason == "REQUEST_ID_REUSED"
    restore = memory_pb.RestoreMemoryRequest(scope=scope, id=first.messages[0].memory_id)
    stubs.memory.RestoreMemory(restore, timeout=TIMEOUT)
    assert [message.content for message in said(stubs, scope)] == ["One.", "二。"]


def update(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> None:
    """Change fields of a memory."""
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(**fields))
    stubs.memory.UpdateMemory(request, timeout=TIMEOUT)


def test_tokens_follow_a_content_that_is_written_under_a_key(stubs: Stubs, user: str) -> None:
    """A message can have a key: writes under it, appends and rollbacks count, each exactly."""
    here = place(user)
    open_session(stubs, here)
    (message,) = append(stubs, here, ["See you at the harbour."]).messages
    sizes = [message.token_count]
    update(stubs, here, id=message.memory_id, key="meeting")
    longer = "See you at the harbour, next to the old crane, when the ferry from the island has arrived."
    create(stubs, here, longer, key="meeting")
    sizes.append(show(stubs, here).token_count)
    stubs.memory.AppendMemory(
        memory_pb.AppendMemoryRequest(scope=here, key="meeting", content="Bring the ropes."), timeout=TIMEOUT
    )
    sizes.append(show(stubs, here).token_count)
    stubs.memory.RollbackMemory(
        memory_pb.RollbackMemoryRequest(scope=here, id=message.memory_id, revision=1), timeout=TIMEOUT
    )

    assert sizes == sorted(set(sizes))
    assert [sizes[0]] == [one.token_count for one in said(stubs, here)] == [show(stubs, here).token_count]


def test_a_message_stays_one_when_its_kind_changes(stubs: Stubs, user: str) -> None:
    """It counts the tokens of its content, is archived with its memory, and can be taken back."""
    here = place(user)
    open_session(stubs, here)
    first, second = append(stubs, here, ["The pilot boards at dawn.", "The tide turns at noon."]).messages
    for memory_id in (first.memory_id, second.memory_id):
        update(stubs, here, id=memory_id, kind=types_pb.MEMORY_KIND_FACT)
    update(
        stubs, here, id=first.memory_id, content="The pilot boards at dawn, from the small boat at the northern pier."
    )
    grown = said(stubs, here)[0].token_count
    update(stubs, here, id=first.memory_id, status=types_pb.MEMORY_STATUS_ARCHIVED)
    shown = show(stubs, here)

    assert grown > first.token_count
    assert (1, second.token_count, 1, grown) == (
        shown.message_count, shown.token_count, shown.archived_message_count, shown.archived_token_count,
    )  # fmt: skip
    assert [second.memory_id] == [one.memory_id for one in pop(stubs, here, count=1).messages]
    assert [first.memory_id] == [one.memory_id for one in said(stubs, here, include_archived=True)]
    assert 0 == show(stubs, here).message_count


def test_clearing_removes_all_messages_and_no_more(stubs: Stubs, user: str) -> None:
    """The archived ones too, over several transactions; the session, its summary and other sessions stay."""
    scope, other = place(user), place(user, "other")
    for each in (scope, other):
        open_session(stubs, each)
        append(stubs, each, [f"Line {number}, 第{number}行。" for number in range(100)])
    append(stubs, scope, [f"More of line {number}." for number in range(30)])
    trim(stubs, scope, target_tokens=200)
    assert show(stubs, scope).archived_message_count
    clear = session_pb.ClearMessagesRequest(scope=scope, wait_for=types_pb.WAIT_FOR_INDEXED)

    assert stubs.session.ClearMessages(clear, timeout=TIMEOUT).removed_message_count == 130

    left = show(stubs, scope)
    assert (left.message_count, left.archived_message_count, left.token_count) == (0, 0, 0)
    assert said(stubs, scope, include_archived=True) == []
    assert [one.kind for one in list_all(stubs, scope)] == [types_pb.MEMORY_KIND_SUMMARY]
    assert len(said(stubs, other)) == 100
    assert stubs.session.ClearMessages(clear, timeout=TIMEOUT).removed_message_count == 0
    assert append(stubs, scope, ["Anew."]).messages[0].ordinal == 131


def test_messages_are_removed_from_active_sessions_alone(stubs: Stubs, user: str) -> None:
    """Wrong input is named, an unknown session is not found, a closed one is refused."""
    scope = place(user)
    open_session(stubs, scope)
    append(stubs, scope, ["Hello."])
    stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=scope, flush=False), timeout=TIMEOUT)
    for call, kind in (
        (stubs.session.PopMessages, session_pb.PopMessagesRequest),
        (stubs.session.ClearMessages, session_pb.ClearMessagesRequest),
    ):
        assert refused(call, kind(scope=scope)).reason == "SESSION_NOT_ACTIVE"
        assert refused(call, kind(scope=place(user, "unknown"))).reason == "SESSION_NOT_FOUND"
        assert refused(call, kind(scope=place(f"{user}-2"))).reason == "SESSION_NOT_FOUND"
        assert refused(call, kind(scope=types_pb.Scope(user_id=user))).fields == ("scope.session_id",)
    for count in (-1, 101):
        assert refused(stubs.session.PopMessages, session_pb.PopMessagesRequest(scope=scope, count=count)).fields == (
            "count",
        )
    assert [message.content for message in said(stubs, scope)] == ["Hello."]


def test_many_take_back_at_once_and_each_message_goes_once(stubs: Stubs, user: str) -> None:
    """While others append: no message is returned twice, and none is lost."""
    scope = place(user)
    open_session(stubs, scope)
    append(stubs, scope, [f"Message {number}." for number in range(40)])
    with ThreadPoolExecutor(8) as pool:
        popped = [pool.submit(_pop_or_nothing, stubs, scope) for _ in range(24)]
        appended = [pool.submit(append, stubs, scope, [f"Late {number}."]) for number in range(6)]
    gone = [message.memory_id for one in popped for message in one.result()]
    new = [message.memory_id for one in appended for message in one.result().messages]

    assert len(new) == 6
    assert len(gone) == len(set(gone))
    assert len(said(stubs, scope)) == 46 - len(gone)


def _pop_or_nothing(stubs: Stubs, scope: types_pb.Scope) -> list[types_pb.ChatMessage]:
    try:
        return list(pop(stubs, scope).messages)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        return []


def test_tokens_beyond_the_field_are_counted_as_the_most(stubs: Stubs, user: str) -> None:
    """Clients say what messages take: the session stays readable."""
    scope = place(user)
    open_session(stubs, scope, token_limit=10_000_000, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    for number in range(3):
        texts = [say(f"{number} {one}", token_count=10_000_000) for one in range(100)]
        appended = append(stubs, scope, texts)

    assert appended.token_count == show(stubs, scope).token_count == (1 << 31) - 1
