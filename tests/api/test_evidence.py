"""What was said in earlier sessions, in contexts: found, dated, attributed, and kept from everyone else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_contexts import render
from tests.support.rpc import TIMEOUT, at_rest, create, refused
from tests.support.server_process import FAST, ServerProcess, Stubs

SAID_AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
EVIDENCE = search_pb.CONTEXT_SECTION_EVIDENCE


def scope_of(user: str, session: str = "", *, project: str = "web", agent: str = "") -> types_pb.Scope:
    """Return a scope of the user."""
    return types_pb.Scope(user_id=user, project_id=project, session_id=session, agent_id=agent)


def say(stubs: Stubs, scope: types_pb.Scope, *texts: str, role: str = "USER", speaker: str = "") -> None:
    """Say something in a session, which is opened before and closed after it; nothing is extracted from it."""
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
    moment = Timestamp()
    moment.FromDatetime(SAID_AT)
    messages = [
        types_pb.ChatMessage(
            role=types_pb.MessageRole.Value(f"MESSAGE_ROLE_{role}"), content=text, event_time=moment, speaker=speaker
        )
        for text in texts
    ]
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=scope, messages=messages), timeout=TIMEOUT)
    stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=scope, flush=False), timeout=TIMEOUT)
    at_rest(stubs)


def evidence(reply: search_pb.RenderContextResponse) -> list[str]:
    """Return the lines of the section."""
    cited = [one for one in reply.citations if one.section == EVIDENCE]
    return [reply.markdown[one.start : one.end].strip() for one in cited]


@pytest.mark.parametrize(
    ("said", "query", "heading", "locale"),
    [
        ("the walrus enclosure smells of kelp again", "walrus kelp", "## Said in earlier conversations", "en"),
        ("海象馆里又是一股海带味", "海象 海带", "## 以前的对话原话", "zh"),
    ],
)
def test_the_next_session_knows_what_was_said(
    stubs: Stubs, user: str, said: str, query: str, heading: str, locale: str
) -> None:
    """With the day and who said it, after the memories; a search from elsewhere still finds no messages."""
    say(stubs, scope_of(user, "monday"), said, speaker="Ann")
    say(stubs, scope_of(user, "tuesday"), f"{said}, indeed", role="ASSISTANT")

    options = search_pb.ContextOptions(locale=locale)
    reply = render(stubs, scope_of(user, "friday"), query=query, options=options)

    assert heading in reply.markdown
    lines = [line.partition("] ")[2] for line in evidence(reply)]
    assert lines == [f"2026-03-02 Ann: {said}", f"2026-03-02 assistant: {said}, indeed"]
    found = stubs.search.Search(search_pb.SearchRequest(scope=scope_of(user), query=query), timeout=TIMEOUT)
    assert not found.hits


def test_what_a_memory_repeats_is_not_said_again(stubs: Stubs, user: str) -> None:
    """The memory is shown alone."""
    say(stubs, scope_of(user, "monday"), "The walrus is called Ole.")
    create(stubs, scope_of(user), "The walrus is called Ole.")

    reply = render(stubs, scope_of(user), query="walrus Ole")

    assert reply.markdown.count("called Ole") == 1
    assert not evidence(reply)


@pytest.mark.parametrize(
    ("facts", "query"),
    [
        (
            ("The walrus is called Ole.", "The seal sleeps until noon.", "Ten gulls steal the fish."),
            "walrus seal gulls",
        ),
        (("海象叫做奥莱。", "海豹一直睡到中午。", "十只海鸥偷走了鱼。"), "海象 海豹 海鸥"),
    ],
)
def test_what_several_memories_repeat_is_not_said_again(
    stubs: Stubs, user: str, facts: tuple[str, ...], query: str
) -> None:
    """As the end of a session leaves them; a message that says much more is shown."""
    say(stubs, scope_of(user, "monday"), " ".join(facts))
    for fact in facts:
        create(stubs, scope_of(user), fact)

    reply = render(stubs, scope_of(user), query=query)
    assert [1, 1, 1] == [reply.markdown.count(fact) for fact in facts]
    assert not evidence(reply)

    say(stubs, scope_of(user, "tuesday"), f"{query}: {facts[0]} " + "otters " * 20)
    assert len(evidence(render(stubs, scope_of(user), query=query))) == 1


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Denise is allergic to latex. Which gloves shall I order?", "Who is allergic to latex?"),
        ("我对花生过敏。晚饭吃什么好？", "我对什么过敏？"),
    ],
)
def test_what_was_deleted_does_not_return_from_the_transcript(stubs: Stubs, user: str, said: str, query: str) -> None:
    """The end of a session leaves a memory; once it is deleted, contexts do not show the message either.

    Another user's message stays, the transcript keeps it, and a restored memory or a later message counts again.
    """

    def shown(name: str) -> bool:
        return said[:8] in render(stubs, scope_of(name), query=query).markdown

    kept = {}
    for name in (user, f"{user}-2"):
        scope = scope_of(name, "monday")
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=said)
        stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=scope, messages=[message]), timeout=TIMEOUT)
        request = session_pb.CloseSessionRequest(scope=scope, wait_for=types_pb.WAIT_FOR_INDEXED)
        [result] = stubs.session.CloseSession(request, timeout=TIMEOUT).flush.results
        kept[name] = result.memory.id
    assert shown(user)

    delete = memory_pb.DeleteMemoryRequest(scope=scope_of(user), id=kept[user], wait_for=types_pb.WAIT_FOR_INDEXED)
    stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)

    assert not shown(user)
    assert shown(f"{user}-2")
    listed = session_pb.ListMessagesRequest(scope=scope_of(user, "monday"))
    assert [one.content for one in stubs.session.ListMessages(listed, timeout=TIMEOUT).messages] == [said]
    restore = memory_pb.RestoreMemoryRequest(scope=scope_of(user), id=kept[user], wait_for=types_pb.WAIT_FOR_INDEXED)
    stubs.memory.RestoreMemory(restore, timeout=TIMEOUT)
    assert shown(user)
    stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)
    assert not shown(user)
    say(stubs, scope_of(user, "tuesday"), said)
    assert shown(user)


@pytest.mark.parametrize(
    ("courtesies", "answer", "query"),
    [
        (
            ("Noted, thanks for telling me!", "Sure thing.", "How exciting!", "I'll keep that in mind.", "Good luck!"),
            "Noted: the walrus eats clams.",
            "the walrus",
        ),
        (("好的，记下了。", "恭喜！", "注意休息。", "辛苦了。", "我会记住的。"), "好的，海象吃蛤蜊。", "海象"),
        (("Lovely.", "Ha!", "Haha that's great", "Amazing", "😂"), "Lovely walrus you saw in Leeds!", "the walrus"),
        (("哈哈", "好呀", "哈哈哈，太好了", "真的吗？", "👍"), "哈哈，海象吃蛤蜊。", "海象"),
    ],
)
def test_courtesies_are_no_evidence(
    stubs: Stubs, user: str, courtesies: tuple[str, ...], answer: str, query: str
) -> None:
    """Nor are other replies without content words; one that says something is evidence, be it ever so short."""
    say(stubs, scope_of(user, "monday"), *courtesies, answer, role="ASSISTANT")

    lines = evidence(render(stubs, scope_of(user), query=f"{query} {' '.join(courtesies)}"))

    assert [line.partition("assistant: ")[2] for line in lines] == [answer]


def test_evidence_is_only_what_the_caller_may_know(stubs: Stubs, user: str) -> None:
    """Not another user's, not another project's, not that of a session of another agent, nor the own session twice."""
    text = "the walrus eats {} clams at noon"
    say(stubs, scope_of(f"{user}-other", "s"), text.format(1))
    say(stubs, scope_of(user, "s", project="shop"), text.format(2))
    say(stubs, scope_of(user, "s", project=""), text.format(3))
    say(stubs, scope_of(user, "private", agent="butler"), text.format(4))
    say(stubs, scope_of(user, "own"), text.format(5))

    def known(scope: types_pb.Scope) -> list[int]:
        lines = evidence(render(stubs, scope, query="walrus clams at noon"))
        return sorted(int(line.split("eats ")[1].split()[0]) for line in lines)

    assert known(scope_of(user, "own")) == []
    assert known(scope_of(user, "own", agent="butler")) == [4]
    assert known(scope_of(user)) == [5]
    assert known(scope_of(user, agent="cook")) == [5]
    assert known(scope_of(user, project="other")) == []
    assert known(scope_of(user, project="shop")) == [2]


def test_a_session_belongs_to_the_agent_that_opened_it(stubs: Stubs, user: str) -> None:
    """Whichever agent appends to it; what an agent appended is not for others either."""
    opener = scope_of(user, "private", agent="butler")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=opener), timeout=TIMEOUT)
    for number, agent in enumerate(("", "butler", "cook"), start=1):
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=f"the walrus eats {number} clams")
        request = session_pb.AppendMessagesRequest(
            scope=scope_of(user, "private", agent=agent), messages=[message], wait_for=types_pb.WAIT_FOR_INDEXED
        )
        stubs.session.AppendMessages(request, timeout=TIMEOUT)

    def known(agent: str) -> list[str]:
        return sorted(
            line.split("eats ")[1]
            for line in evidence(render(stubs, scope_of(user, agent=agent), query="walrus clams"))
        )

    assert (["1 clams", "2 clams"], [], []) == (known("butler"), known("cook"), known(""))


def test_evidence_can_be_left_out(stubs: Stubs, user: str, tmp_path: Path) -> None:
    """By the sections of a request, and by the setting, which a request overrides."""
    say(stubs, scope_of(user, "monday"), "the walrus sleeps")
    related = search_pb.ContextOptions(sections=[search_pb.CONTEXT_SECTION_LONG_TERM])
    assert not evidence(render(stubs, scope_of(user), query="walrus", options=related))

    settings = {**FAST, "MEMSVC_CONTEXT__EVIDENCE": "false"}
    with ServerProcess(tmp_path / "data", settings) as server, server.stubs() as quiet:
        say(quiet, scope_of(user, "monday"), "the walrus sleeps")
        asked = search_pb.ContextOptions(sections=[EVIDENCE])
        assert not evidence(render(quiet, scope_of(user), query="walrus"))
        assert len(evidence(render(quiet, scope_of(user), query="walrus", options=asked))) == 1


# Handles.


def resolve(stubs: Stubs, scope: types_pb.Scope, cursor: str, *citations: str) -> search_pb.ResolveCitationsResponse:
    """Resolve citations."""
    request = search_pb.ResolveCitationsRequest(scope=scope, context_cursor=cursor, citations=citations)
    return stubs.search.ResolveCitations(request, timeout=TIMEOUT)


def test_handles_lead_to_memories(stubs: Stubs, user: str) -> None:
    """With brackets or without, evidence too; a deleted memory is named without its text."""
    say(stubs, scope_of(user, "monday"), "the walrus sleeps on the rock")
    kept = create(stubs, scope_of(user), "The walrus is called Ole.")
    reply = render(stubs, scope_of(user), query="walrus")
    by_section = {one.section: one for one in reply.citations}
    fact, message = by_section[search_pb.CONTEXT_SECTION_LONG_TERM], by_section[EVIDENCE]

    found = resolve(stubs, scope_of(user), reply.summary.context_cursor, fact.citation, message.citation.strip("[]"))

    assert [one.memory_id for one in found.citations] == [kept.id, message.memory_id]
    assert found.citations[0].memory.content == "The walrus is called Ole."
    assert found.citations[1].memory.content == "the walrus sleeps on the rock"


@pytest.mark.parametrize("wrong", ["[m99]", "m0", "", "[mem:x]"])
def test_a_wrong_handle_is_named(stubs: Stubs, user: str, wrong: str) -> None:
    """And so is a context of another scope, or none."""
    create(stubs, scope_of(user), "The walrus is called Ole.")
    reply = render(stubs, scope_of(user), query="walrus")
    cursor, scope = reply.summary.context_cursor, scope_of(user)

    def fields(**change: object) -> tuple[str, ...]:
        given = {"scope": scope, "context_cursor": cursor, "citations": ["[m1]"], **change}
        return refused(stubs.search.ResolveCitations, search_pb.ResolveCitationsRequest(**given)).fields

    assert fields(citations=["[m1]", wrong]) == ("citations[1]",)
    assert fields(citations=[]) == ("citations",)
    assert fields(context_cursor="") == ("context_cursor",)
    assert fields(context_cursor="nonsense") == ("context_cursor",)
    assert fields(scope=scope_of(f"{user}-other")) == ("context_cursor",)
    with pytest.raises(grpc.RpcError, match="first_handle"):
        render(stubs, scope, query="walrus", options=search_pb.ContextOptions(first_handle=-1))
