"""Opening, closing, reopening and reading of sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from memsvc.domain.capture import FlushResult
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError, SessionExistsError, SessionNotFoundError
from memsvc.domain.memory import Json, uuid7
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import (
    AutoTrim,
    CountedSession,
    Message,
    MessageState,
    OnOpen,
    Session,
    SessionName,
    SessionState,
)
from memsvc.domain.write_requests import RejectedItem, UpsertResult
from memsvc.engine.capture.flush import flush_result
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, IdempotentResult, request_digest
from memsvc.engine.sessions.flush import OutdatedFlushError, SessionFlush, SessionFlusher
from memsvc.engine.sessions.serialization import session_as_json, session_from_json
from memsvc.ports.features import SessionReads
from memsvc.ports.metadata import Transaction

log = logging.getLogger(__name__)
_NO_DEADLINE = Deadline()
_ATTEMPTS = 4
"""Attempts to end sessions to which messages are being appended."""
_PAGE = 200
"""Sessions read at a time."""
_FAILED = "No memories were extracted, because that failed: {}. CloseSession extracts them when it is repeated."
_OVERTAKEN = "Messages were appended while the session ended. CloseSession extracts the rest when it is repeated."


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """Defaults of sessions.

    Attributes:
        flush_on_end: Whether memories are extracted from a session that is closed or archived.
    """

    token_limit: int = 64_000
    on_open: OnOpen = OnOpen.KEEP_OTHERS
    auto_trim: AutoTrim = AutoTrim.AT_LIMIT
    flush_on_end: bool = True


@dataclass(frozen=True, slots=True)
class NewSession:
    """The requested properties of a session; None means the default.

    Attributes:
        flush: Whether memories are extracted from the sessions that are archived.
    """

    title: str = ""
    token_limit: int | None = None
    on_open: OnOpen | None = None
    auto_trim: AutoTrim | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    flush: bool | None = None


@dataclass(frozen=True, slots=True)
class EndedSession:
    """The memories that the end of a session extracted from it.

    Attributes:
        flushed: The extracted memories; None if nothing was to be extracted.
        is_incomplete: Whether messages remain from which nothing was extracted.
        notice: The reason why messages remain although they were to be processed; empty otherwise.
    """

    session_id: str
    flushed: FlushResult | None
    is_incomplete: bool
    notice: str = ""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session after a call that opened or ended it, and the sessions that the call ended, in the order of opening."""

    session: CountedSession
    ended: tuple[EndedSession, ...]
    position: int


class SessionLifecycle:
    """Opens and ends sessions, each change in one transaction.

    A session that ends is flushed: the memories extracted from its last messages, the progress and the new state are
    stored in one transaction, so that an interruption loses nothing and extracts nothing twice. A failed extraction
    does not prevent the end; the answer reports it, and closing the session again repeats it.
    """

    def __init__(
        self,
        requests: IdempotentExecutor,
        reads: SessionReads,
        flusher: SessionFlusher,
        defaults: SessionDefaults,
        now: Callable[[], datetime],
        redactor: Redactor,
    ) -> None:
        """Write by *requests*, and read the sessions to flush from *reads*; *now* is the clock.

        *redactor* replaces secrets in titles and metadata.
        """
        self._requests = requests
        self._reads = reads
        self._flusher = flusher
        self._defaults = defaults
        self._now = now
        self._redactor = redactor

    def asks_a_model(self, *, flush: bool | None, on_open: OnOpen | None = OnOpen.ARCHIVE_OTHERS) -> bool:
        """Return whether a call with these options may take as long as a language model."""
        is_ending = (on_open or self._defaults.on_open) is OnOpen.ARCHIVE_OTHERS
        return is_ending and self._flushes(flush) and self._flusher.asks_a_model

    def create(
        self, scope: Scope, new: NewSession, request_id: str, *, deadline: Deadline = _NO_DEADLINE
    ) -> SessionChange:
        """Open the session of *scope*, or one with a new id if *scope* names none.

        Depending on *new* or the defaults, other active sessions of the user and project become ARCHIVED, whichever
        agent opened them.

        Raises:
            SessionExistsError: A session with this id exists.
            RequestIdReusedError: The request_id was used for another request.
        """
        now = self._now()
        place = scope if scope.session_id else replace(scope, session_id=uuid7(now))
        session = Session(
            scope=place,
            create_time=now,
            update_time=now,
            token_limit=new.token_limit or self._defaults.token_limit,
            title=self._redactor.text(new.title)[0],
            auto_trim=new.auto_trim or self._defaults.auto_trim,
            metadata=self._redactor.json(dict(new.metadata)),
        )

        def work(transaction: Transaction, end: _SessionEnd) -> Session:
            if transaction.sessions.get(session.name) is not None:
                raise SessionExistsError(place.session_id)
            self._archive_others(transaction, session, new.on_open, end)
            return transaction.sessions.insert(session)

        def targets() -> list[Session]:
            # A refused call must not flush the first pages of a session.
            if self._reads.get(session.name) is not None:
                return []
            return self._others(session, new.on_open)

        request = session_request("CreateSession", scope, (scope, new), request_id)
        return self._run_once(request, work, targets, new.flush, deadline)

    def close(
        self, scope: Scope, request_id: str, *, flush: bool | None = None, deadline: Deadline = _NO_DEADLINE
    ) -> SessionChange:
        """Close the session and flush it. Closing a closed one only flushes what is left.

        Raises:
            SessionNotFoundError: There is no such session.
            RequestIdReusedError: The request_id was used for another request.
        """

        def work(transaction: Transaction, end: _SessionEnd) -> Session:
            return end.run(transaction, _require_session(transaction, scope), SessionState.CLOSED)

        def targets() -> list[Session]:
            session = self._reads.get(SessionName.from_scope(scope))
            return [] if session is None else [session]

        asked = (scope,) if flush is None else (scope, flush)
        request = session_request("CloseSession", scope, asked, request_id)
        return self._run_once(request, work, targets, flush, deadline)

    def reopen(
        self,
        scope: Scope,
        on_open: OnOpen | None,
        request_id: str,
        *,
        flush: bool | None = None,
        deadline: Deadline = _NO_DEADLINE,
    ) -> SessionChange:
        """Make the session ACTIVE again, and treat others as in `create`; no effect on an active one.

        Raises:
            SessionNotFoundError: There is no such session.
            RequestIdReusedError: The request_id was used for another request.
        """

        def work(transaction: Transaction, end: _SessionEnd) -> Session:
            session = _require_session(transaction, scope)
            if session.state is not SessionState.ACTIVE:
                self._archive_others(transaction, session, on_open, end)
                session = replace(session, state=SessionState.ACTIVE, end_time=None, update_time=self._now())
                transaction.sessions.update(session)
            return session

        def targets() -> list[Session]:
            session = self._reads.get(SessionName.from_scope(scope))
            if session is None or session.state is SessionState.ACTIVE:
                return []
            return self._others(session, on_open)

        asked = (scope, on_open) if flush is None else (scope, on_open, flush)
        request = session_request("ReopenSession", scope, asked, request_id)
        return self._run_once(request, work, targets, flush, deadline)

    def _flushes(self, asked: bool | None) -> bool:  # noqa: FBT001 - the option of a request
        return self._defaults.flush_on_end if asked is None else asked

    def _others(self, session: Session, on_open: OnOpen | None) -> list[Session]:
        """Return the sessions that opening *session* archives, as they are now."""
        if (on_open or self._defaults.on_open) is OnOpen.KEEP_OTHERS:
            return []
        found: list[Session] = []
        place = (session.scope.owner, session.scope.project_id)
        before: int | None = None
        while page := self._reads.page(*place, states={SessionState.ACTIVE}, before=before, limit=_PAGE):
            found += page
            before = page[-1].row
        return found

    def _archive_others(
        self, transaction: Transaction, session: Session, on_open: OnOpen | None, end: _SessionEnd
    ) -> None:
        if (on_open or self._defaults.on_open) is OnOpen.KEEP_OTHERS:
            return
        for other in transaction.sessions.active(session.scope.owner, session.scope.project_id):
            end.run(transaction, other, SessionState.ARCHIVED)

    def _run_once(
        self,
        request: IdempotentRequest,
        work: Callable[[Transaction, _SessionEnd], Session],
        targets: Callable[[], list[Session]],
        flush: bool | None,  # noqa: FBT001 - the option of a request
        deadline: Deadline,
    ) -> SessionChange:
        """Flush *targets* as far as needed, and run *work*, which ends them; a repeated request changes nothing."""
        answer = self._requests.find_answer(request)
        prepared: dict[int, SessionFlush | str] = {}
        attempt = 0
        while answer is None:
            attempt += 1
            if self._flushes(flush):
                prepared = self._prepare_flushes(targets(), prepared, deadline)
            end = _SessionEnd(
                self._flusher,
                prepared if self._flushes(flush) else None,
                self._now,
                is_strict=attempt < _ATTEMPTS,
            )
            with suppress(OutdatedFlushError):
                answer = self._requests.run_once_with_note(request, partial(_answer, work=work, end=end))
                self._flusher.note_duplicates(answer.results)
        return self._with_texts(_change(answer))

    def _with_texts(self, change: SessionChange) -> SessionChange:
        """Return a change with title and metadata of its session, which never change and are in no stored answer."""
        counted = change.session
        stored = self._reads.get(counted.session.name)
        if stored is None:
            return change
        session = replace(counted.session, title=stored.title, metadata=stored.metadata)
        return replace(change, session=replace(counted, session=session))

    def _prepare_flushes(
        self, sessions: Sequence[Session], earlier: Mapping[int, SessionFlush | str], deadline: Deadline
    ) -> dict[int, SessionFlush | str]:
        """Return the flush of each session by its row, or the reason why there is none; *earlier* ones may do."""
        return {session.row: self._prepare_flush(session, earlier.get(session.row), deadline) for session in sessions}

    def _prepare_flush(
        self, session: Session, earlier: SessionFlush | str | None, deadline: Deadline
    ) -> SessionFlush | str:
        if isinstance(earlier, SessionFlush) and earlier.is_current(session):
            return earlier
        try:
            flush = self._flusher.prepare_end(session, deadline)
        except MemsvcError as error:
            log.warning("a session ended without its memories, which its next closing extracts: %s", error)
            return _FAILED.format(error.message.rstrip("."))
        return flush if not isinstance(earlier, SessionFlush) else flush.after(earlier)


class _SessionEnd:
    """The end of sessions in one transaction, with their flushes."""

    def __init__(
        self,
        flusher: SessionFlusher,
        prepared: Mapping[int, SessionFlush | str] | None,
        now: Callable[[], datetime],
        *,
        is_strict: bool,
    ) -> None:
        """End sessions at *now*; without *prepared* flushes, nothing is extracted.

        An outdated flush is an error if *is_strict*; otherwise the session ends without it.
        """
        self._flusher = flusher
        self._prepared = prepared
        self._now = now
        self._is_strict = is_strict
        self.results: list[UpsertResult | RejectedItem] = []
        self.notes: list[dict[str, Any]] = []

    def reset(self) -> None:
        """Forget what an earlier run of the transaction did."""
        self.results, self.notes = [], []

    def run(self, transaction: Transaction, session: Session, state: SessionState) -> Session:
        """Flush *session* and set its *state*; return it as stored."""
        before, flush_note, notice = session, None, ""
        results: list[UpsertResult | RejectedItem] = []
        if self._prepared is not None:
            session, results, flush_note, notice = self._write(transaction, session, self._prepared.get(session.row))
        if session.state is not state:
            now = self._now()
            session = replace(session, state=state, end_time=now, update_time=now)
        if session is not before:
            transaction.sessions.update(session)
        self.results += results
        self.notes.append(
            {
                "session_id": session.scope.session_id,
                "results": len(results),
                "flush": flush_note,
                "is_incomplete": session.flushed_ordinal < session.last_ordinal,
                "notice": notice,
            }
        )
        return session

    def _write(
        self, transaction: Transaction, session: Session, flush: SessionFlush | str | None
    ) -> tuple[Session, list[UpsertResult | RejectedItem], Json | None, str]:
        if isinstance(flush, str):
            return session, [], None, flush if session.flushed_ordinal < session.last_ordinal else ""
        try:
            session, results = self._flusher.write_end(transaction, session, flush)
        except OutdatedFlushError:
            if self._is_strict:
                raise
            return session, [], None, _OVERTAKEN
        return session, results, None if flush is None else flush.note, ""


def _answer(
    transaction: Transaction, *, work: Callable[[Transaction, _SessionEnd], Session], end: _SessionEnd
) -> tuple[Sequence[UpsertResult | RejectedItem], Json]:
    end.reset()
    session = work(transaction, end)
    counted = CountedSession(session, transaction.sessions.counts(session))
    return end.results, session_as_json(counted) | {"ended": end.notes}


def _change(answer: IdempotentResult) -> SessionChange:
    note: Any = answer.note
    results = iter(answer.results)
    ended = []
    for one in note.get("ended", ()):
        own = list(islice(results, one["results"]))
        flushed = None if one["flush"] is None else flush_result(own, one["flush"], answer.position)
        ended.append(EndedSession(one["session_id"], flushed, one["is_incomplete"], one["notice"]))
    return SessionChange(session_from_json(note), tuple(ended), answer.position)


def session_request(method: str, scope: Scope, asked: tuple[object, ...], request_id: str) -> IdempotentRequest:
    """Return a change of a session as an idempotent request."""
    return IdempotentRequest(method, request_id, request_digest(*asked) if request_id else "", Reach.from_scope(scope))


def _require_session(transaction: Transaction, scope: Scope) -> Session:
    session = transaction.sessions.get(SessionName.from_scope(scope))
    if session is None:
        raise SessionNotFoundError(scope.session_id)
    return session


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of messages of a session.

    Attributes:
        after: The ordinal of the last message of the previous page.
    """

    states: frozenset[MessageState]
    after: int | None
    limit: int
    descending: bool = False


class SessionReader:
    """Reads from the store, so that every acknowledged change is visible."""

    def __init__(self, reads: SessionReads) -> None:
        """Read from *reads*."""
        self._reads = reads

    def get(self, scope: Scope) -> CountedSession:
        """Return the session of *scope*, whatever its state.

        Raises:
            SessionNotFoundError: There is none.
        """
        return self._count_messages([self._session(scope)])[0]

    def page(
        self, scope: Scope, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> tuple[list[CountedSession], int | None]:
        """Return the next *limit* sessions of exactly the scope's project, newest first.

        The second value is *before* of the next page, None at the end.
        """
        found = self._reads.page(scope.owner, scope.project_id, states=states, before=before, limit=limit + 1)
        following = found[limit - 1].row if len(found) > limit else None
        return self._count_messages(found[:limit]), following

    def messages(self, scope: Scope, page: MessagePage) -> tuple[list[Message], int | None]:
        """Return the next messages of the session of *scope*, by ordinal, and the ordinal to continue from.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        found = self._reads.messages(
            self._session(scope),
            states=page.states,
            after=page.after,
            limit=page.limit + 1,
            descending=page.descending,
        )
        following = found[page.limit - 1].record.ordinal if len(found) > page.limit else None
        return found[: page.limit], following

    def _session(self, scope: Scope) -> Session:
        session = self._reads.get(SessionName.from_scope(scope))
        if session is None:
            raise SessionNotFoundError(scope.session_id)
        return session

    def _count_messages(self, sessions: list[Session]) -> list[CountedSession]:
        counts = self._reads.counts(sessions)
        return [CountedSession(session, counts[session.row]) for session in sessions]
