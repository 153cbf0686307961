"""Reading sessions and their messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from memsvc.domain.errors import SessionNotFoundError
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import CountedSession, Message, MessageState, Session, SessionName, SessionState
from memsvc.ports.features import SessionReads


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Which messages of a session to read, and from where on.

    Attributes:
        after: The ordinal of the last message of the page before.
    """

    states: frozenset[MessageState]
    after: int | None
    limit: int
    descending: bool = False


class ReadingSessions:
    """Reads straight from the store, so every change that was acknowledged is seen."""

    def __init__(self, reads: SessionReads) -> None:
        """Read by *reads*."""
        self._reads = reads

    def get(self, scope: Scope) -> CountedSession:
        """Return the session that *scope* names, whatever its state.

        Raises:
            SessionNotFoundError: There is none.
        """
        return self._counted([self._session(scope)])[0]

    def page(
        self, scope: Scope, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> tuple[list[CountedSession], int | None]:
        """Return the next *limit* sessions of exactly the scope's project, newest first, and where to go on."""
        found = self._reads.page(scope.owner, scope.project_id, states=states, before=before, limit=limit + 1)
        following = found[limit - 1].row if len(found) > limit else None
        return self._counted(found[:limit]), following

    def messages(self, scope: Scope, page: MessagePage) -> tuple[list[Message], int | None]:
        """Return the next messages of the session that *scope* names, by ordinal, and where to go on.

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

    def _counted(self, sessions: list[Session]) -> list[CountedSession]:
        counts = self._reads.counts(sessions)
        return [CountedSession(session, counts[session.row]) for session in sessions]
