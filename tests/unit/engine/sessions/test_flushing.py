"""What is said in sessions is captured by itself: every so many tokens, and before it is trimmed away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Kind, Memory, Origin
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order, OrderField, Selection
from memsvc.domain.sessions import AutoTrim, NewMessage, OnOpen, Role, SessionState
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.services import Services
from memsvc.engine.sessions.flush import SessionFlusher
from memsvc.engine.sessions.service import NewSession
from memsvc.engine.sessions.trim import TrimRequest
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}
BACKENDS: dict[str, Any] = {"metadata": SQLITE, "vectors": IN_MEMORY, "lexical": IN_MEMORY, "embedder": IN_MEMORY}
TALK = Scope("ada", project_id="apollo", session_id="s")
KEY = "sk-a1B2c3D4e5F6g7H8i9J0"
FACTS = {"en": "I am allergic to peanuts.", "zh": "我对花生过敏。"}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Services]]:
    """Start an engine with settings of sessions; one test may start several, one after another."""
    entered: list[Any] = []

    def start(**sessions: Any) -> Services:
        while entered:
            entered.pop().__exit__(None, None, None)
        number = len(list(tmp_path.iterdir()))
        settings = load_settings(data_dir=tmp_path / f"{number}", sessions=sessions, **BACKENDS)
        entered.append(running(settings))
        application: Services = entered[0].__enter__()
        application.sessions.lifecycle.create(
            TALK, NewSession(on_open=OnOpen.KEEP_OTHERS, auto_trim=AutoTrim.NEVER), ""
        )
        return application

    yield start
    while entered:
        entered.pop().__exit__(None, None, None)


def say(application: Services, *texts: str, role: Role = Role.USER, name: str = "") -> None:
    messages = [NewMessage(role=role, content=text, speaker=name, token_count=10) for text in texts]
    application.sessions.appender.append(TALK, messages, "")


def kept(application: Services) -> list[Memory]:
    """Return what is remembered besides the messages themselves and their summaries."""
    order = Order(OrderField.CREATE_TIME, descending=False)
    found = application.memory_reader.page(TALK, Selection(), order=order, after=None, limit=100)[0]
    return [memory for memory in found if memory.kind not in {Kind.MESSAGE, Kind.SUMMARY}]


def flushed(application: Services) -> int:
    session = application.sessions.reader.get(TALK).session
    return session.flushed_ordinal


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_enough_said_is_flushed(started: Callable[..., Services], fact: str) -> None:
    """Beyond the threshold, and not before; once, and from there on anew."""
    application = started(flush_tokens=30)
    flushing = application.sessions.flusher
    say(application, fact, "hm", "ok")
    flushing.flush_when_due(TALK)
    assert (kept(application), flushed(application)) == ([], 0)

    say(application, "hm")
    flushing.flush_when_due(TALK)
    [memory] = kept(application)
    assert (memory.content, memory.scope.session_id, memory.origin) == (fact, "", Origin.USER)
    assert flushed(application) == 4

    say(application, "hm", fact, "We decided to use Redis.")
    flushing.flush_when_due(TALK)
    assert (len(kept(application)), flushed(application)) == (1, 4)


def test_an_append_has_the_session_flushed(started: Callable[..., Services]) -> None:
    """In the background, by the thread that trims: it has ended when the service has."""
    application = started(flush_tokens=5)

    say(application, FACTS["en"])
    sessions = application.sessions
    while not flushed(application):
        sessions.flusher.flush_when_due(TALK)

    assert [memory.content for memory in kept(application)] == [FACTS["en"]]


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_what_is_trimmed_is_flushed_before(started: Callable[..., Services], fact: str) -> None:
    """However little it is; a setting of 0 leaves it alone."""
    for flush_tokens, contents in ((8_000, [fact]), (0, [])):
        application = started(flush_tokens=flush_tokens)
        say(application, fact, "last")

        application.sessions.trimmer.trim(TALK, TrimRequest(target_tokens=0, keep_rounds=1))

        assert [memory.content for memory in kept(application)] == contents


def test_what_is_flushed_again_is_known(started: Callable[..., Services]) -> None:
    """Were the progress lost, nothing would be stored twice."""
    application = started(flush_tokens=1)
    say(application, FACTS["en"], "We decided to use Redis.")
    application.sessions.flusher.flush(TALK)
    before = kept(application)
    session = application.sessions.reader.get(TALK).session

    def forget(transaction: Any) -> None:
        transaction.sessions.update(replace(session, flushed_ordinal=0))

    application.sessions.flusher._committer.submit(forget)
    application.sessions.flusher.flush(TALK)

    assert len(before) == 2
    assert [memory.id for memory in kept(application)] == [memory.id for memory in before]
    assert flushed(application) == 2


def test_who_said_it_counts_and_secrets_are_replaced(started: Callable[..., Services]) -> None:
    """The agent's deeds are of the agent, tools are not heard, and no key leaves the session."""
    application = started(flush_tokens=1)
    say(application, f"We decided to use the key {KEY} for billing.", name="Ada")
    say(application, "I fixed the failing test by resetting the clock.", role=Role.ASSISTANT)
    say(application, "I prefer tabs.", role=Role.TOOL)

    application.sessions.flusher.flush(TALK)

    told = [(memory.origin, memory.speaker) for memory in kept(application)]
    assert told == [(Origin.USER, "Ada"), (Origin.AGENT, "")]
    assert KEY not in repr(kept(application))


def test_a_session_that_is_not_there_is_left_alone(started: Callable[..., Services]) -> None:
    """It may have been erased since it was to be flushed."""
    application = started(flush_tokens=1)

    application.sessions.flusher.flush_when_due(replace(TALK, session_id="none"))

    assert kept(application) == []


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_a_failed_flush_does_not_keep_a_session_open(
    started: Callable[..., Services], monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    """It closes, the answer says why nothing is remembered, and the next closing does it; the first answer stays."""
    application = started()
    say(application, fact)
    sessions = application.sessions

    def fail(*_: Any) -> NoReturn:
        backend = "metadata"
        raise BackendUnavailableError(backend)

    with monkeypatch.context() as patch:
        patch.setattr(ConversationFlusher, "prepare", fail)
        closed = sessions.lifecycle.close(TALK, "r")
    [ended] = closed.ended
    assert (closed.session.session.state, closed.session.session.flushed_ordinal) == (SessionState.CLOSED, 0)
    assert (ended.flushed, ended.is_incomplete) == (None, True)
    assert "failed" in ended.notice
    assert kept(application) == []

    assert sessions.lifecycle.close(TALK, "r") == closed
    [later] = sessions.lifecycle.close(TALK, "").ended
    assert later.flushed is not None
    assert ([memory.content for memory in later.flushed.memories], later.is_incomplete) == ([fact], False)


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_a_crash_leaves_all_of_an_end_or_nothing(
    started: Callable[..., Services], monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    """Memories, progress and state are one transaction: what fails after the memories were written takes them along."""
    application = started()
    say(application, fact)
    lifecycle = application.sessions.lifecycle

    def crash(*_: Any) -> NoReturn:
        message = "crash"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr("memsvc.engine.sessions.service.session_as_json", crash)
        with pytest.raises(RuntimeError, match="crash"):
            lifecycle.close(TALK, "r")
    session = application.sessions.reader.get(TALK).session
    assert (session.state, session.flushed_ordinal, kept(application)) == (SessionState.ACTIVE, 0, [])

    [ended] = lifecycle.close(TALK, "r").ended
    assert ended.flushed is not None
    assert [memory.content for memory in ended.flushed.memories] == [fact] == [one.content for one in kept(application)]


def test_an_end_that_is_always_overtaken_still_ends(
    started: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With messages appended before each attempt, the session closes, and the rest is left to the next closing."""
    application = started()
    say(application, FACTS["en"])
    prepare = SessionFlusher.prepare_end

    def overtaken(self: SessionFlusher, *args: Any) -> Any:
        flush = prepare(self, *args)
        say(application, "hm")
        return flush

    with monkeypatch.context() as patch:
        patch.setattr(SessionFlusher, "prepare_end", overtaken)
        [ended] = application.sessions.lifecycle.close(TALK, "").ended
    assert (ended.flushed, ended.is_incomplete) == (None, True)
    assert "appended" in ended.notice
    [later] = application.sessions.lifecycle.close(TALK, "").ended
    assert later.flushed is not None
    assert ([memory.content for memory in later.flushed.memories], later.is_incomplete) == ([FACTS["en"]], False)
