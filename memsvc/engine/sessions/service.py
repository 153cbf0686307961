"""Opening, closing, reopening and reading of sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memsvc.domain.errors import SessionExistsError, SessionNotFoundError
from memsvc.domain.memory import Json, uuid7
from memsvc.domain.scope import Reach, Scope
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
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, request_digest
from memsvc.engine.sessions.serialization import SessionResult, run_once, session_as_json, session_from_json
from memsvc.ports.features import SessionReads
from memsvc.ports.metadata import Transaction


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """Defaults of sessions."""

    token_limit: int = 64_000
    on_open: OnOpen = OnOpen.ARCHIVE_OTHERS
    auto_trim: AutoTrim = AutoTrim.AT_LIMIT


@dataclass(frozen=True, slots=True)
class NewSession:
    """The requested properties of a session; None means the default."""

    title: str = ""
    token_limit: int | None = None
    on_open: OnOpen | None = None
    auto_trim: AutoTrim | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


class SessionLifecycle:
    """Opens and ends sessions, each change in one transaction."""

    def __init__(self, committer: GroupCommitter, defaults: SessionDefaults, now: Callable[[], datetime]) -> None:
        """Write by *committer*; *now* is the clock."""
        self._committer = committer
        self._defaults = defaults
        self._now = now

    def create(self, scope: Scope, new: NewSession, request_id: str) -> SessionResult[CountedSession]:
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
            title=new.title,
            auto_trim=new.auto_trim or self._defaults.auto_trim,
            metadata=new.metadata,
        )

        def work(transaction: Transaction) -> CountedSession:
            if transaction.sessions.get(session.name) is not None:
                raise SessionExistsError(place.session_id)
            self._archive_others(transaction, session, new.on_open)
            opened = transaction.sessions.insert(session)
            return CountedSession(opened, transaction.sessions.counts(opened))

        return self._run_once("CreateSession", scope, (scope, new), request_id, work)

    def close(self, scope: Scope, request_id: str) -> SessionResult[CountedSession]:
        """Close the session; closing a closed one has no effect.

        Raises:
            SessionNotFoundError: There is no such session.
            RequestIdReusedError: The request_id was used for another request.
        """

        def work(transaction: Transaction) -> CountedSession:
            session = _require_session(transaction, scope)
            if session.state is not SessionState.CLOSED:
                session = _end(transaction, session, SessionState.CLOSED, self._now())
            return CountedSession(session, transaction.sessions.counts(session))

        return self._run_once("CloseSession", scope, (scope,), request_id, work)

    def reopen(self, scope: Scope, on_open: OnOpen | None, request_id: str) -> SessionResult[CountedSession]:
        """Make the session ACTIVE again, and treat others as in `create`; no effect on an active one.

        Raises:
            SessionNotFoundError: There is no such session.
            RequestIdReusedError: The request_id was used for another request.
        """

        def work(transaction: Transaction) -> CountedSession:
            session = _require_session(transaction, scope)
            if session.state is not SessionState.ACTIVE:
                self._archive_others(transaction, session, on_open)
                session = replace(session, state=SessionState.ACTIVE, end_time=None, update_time=self._now())
                transaction.sessions.update(session)
            return CountedSession(session, transaction.sessions.counts(session))

        return self._run_once("ReopenSession", scope, (scope, on_open), request_id, work)

    def _archive_others(self, transaction: Transaction, session: Session, on_open: OnOpen | None) -> None:
        if (on_open or self._defaults.on_open) is OnOpen.KEEP_OTHERS:
            return
        scope = session.scope
        for other in transaction.sessions.active(scope.owner, scope.project_id):
            _end(transaction, other, SessionState.ARCHIVED, self._now())

    def _run_once(
        self,
        method: str,
        scope: Scope,
        asked: tuple[object, ...],
        request_id: str,
        work: Callable[[Transaction], CountedSession],
    ) -> SessionResult[CountedSession]:
        request = session_request(method, scope, asked, request_id)
        return run_once(self._committer, request, work, to_json=session_as_json, from_json=session_from_json)


def session_request(method: str, scope: Scope, asked: tuple[object, ...], request_id: str) -> IdempotentRequest:
    """Return a change of a session as an idempotent request."""
    return IdempotentRequest(method, request_id, request_digest(*asked) if request_id else "", Reach.from_scope(scope))


def _require_session(transaction: Transaction, scope: Scope) -> Session:
    session = transaction.sessions.get(SessionName.from_scope(scope))
    if session is None:
        raise SessionNotFoundError(scope.session_id)
    return session


def _end(transaction: Transaction, session: Session, state: SessionState, now: datetime) -> Session:
    ended = replace(session, state=state, end_time=now, update_time=now)
    transaction.sessions.update(ended)
    return ended


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
