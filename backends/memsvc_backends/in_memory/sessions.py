"""Sessions in the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from memsvc.domain.sessions import (
    Message,
    MessageRecord,
    MessageState,
    Role,
    Session,
    SessionCounts,
    SessionName,
    SessionState,
    SessionStatus,
)
from memsvc_backends.in_memory.state import State


class InprocSessionReads:
    """`memsvc.ports.features.SessionReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        return _found(self._state(), name)

    def page(
        self, owner: str, project_id: str, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> list[Session]:
        """Return one page of a list."""
        rows = [
            session
            for session in self._state().sessions.values()
            if (session.scope.owner, session.scope.project_id) == (owner, project_id)
            and session.state in states
            and (before is None or session.row < before)
        ]
        return sorted(rows, key=lambda session: -session.row)[: max(0, limit)]

    def counts(self, sessions: Sequence[Session]) -> dict[int, SessionCounts]:
        """Return the counts by row."""
        state = self._state()
        return {session.row: _counts([one.record for one in _messages(state, session)]) for session in sessions}

    def messages(
        self, session: Session, *, states: Collection[MessageState], after: int | None, limit: int, descending: bool
    ) -> list[Message]:
        """Return one page of messages."""
        found = [message for message in _messages(self._state(), session) if message.record.state in states]
        if descending:
            found = [one for one in reversed(found) if after is None or one.record.ordinal < after]
        else:
            found = [one for one in found if after is None or one.record.ordinal > after]
        return found[: max(0, limit)]


class InprocSessionWrites:
    """`memsvc.ports.features.SessionWrites`, on the state of a transaction."""

    def __init__(
        self, state: State, race: Callable[[], NoReturn], refuse_erased: Callable[[Iterable[str]], None]
    ) -> None:
        """Work on *state*; *race* makes the transaction void, *refuse_erased* refuses owners that are being erased."""
        self._refuse_erased = refuse_erased
        self._state = state
        self._race = race

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        return _found(self._state, name)

    def standing(self, name: SessionName) -> SessionStatus | None:
        """Return a session as an append finds it."""
        session = self.get(name)
        if session is None:
            return None
        kept = [one for one in _messages(self._state, session) if one.record.state is not MessageState.DELETED]
        unflushed = [
            one.record.token_count
            for one in kept
            if one.record.state is MessageState.ACTIVE and one.record.ordinal > session.flushed_ordinal
        ]
        newest = kept[-1].record.row if kept else None
        return SessionStatus(session, newest, self.counts(session).live_tokens, sum(unflushed))

    def active(self, owner: str, project_id: str) -> list[Session]:
        """Return the active sessions, the oldest first."""
        place = (owner, project_id, SessionState.ACTIVE)
        return [
            session
            for _, session in sorted(self._state.sessions.items())
            if (session.scope.owner, session.scope.project_id, session.state) == place
        ]

    def insert(self, session: Session) -> Session:
        """Insert a new session."""
        self._refuse_erased([session.scope.owner])
        if self.get(session.name) is not None:
            self._race()
        self._state.last_row += 1
        inserted = replace(session, row=self._state.last_row)
        self._state.sessions[inserted.row] = inserted
        return inserted

    def update(self, session: Session) -> None:
        """Replace a session."""
        self._state.sessions[session.row] = session

    def append(self, session: Session, records: Sequence[MessageRecord]) -> None:
        """Add messages."""
        taken = {message.record.ordinal for message in _messages(self._state, session)}
        if any(record.ordinal in taken for record in records):
            self._race()
        self._state.messages.update({record.row: (session.row, record) for record in records})

    def counts(self, session: Session) -> SessionCounts:
        """Return the counts of one session."""
        return _counts([message.record for message in _messages(self._state, session)])

    def has_droppable(self, session: Session, *, before: int) -> bool:
        """Return whether there is something to trim."""
        records = (message.record for message in _messages(self._state, session))
        return any(
            one.ordinal < before
            and one.state is MessageState.ACTIVE
            and not one.is_pinned
            and one.role is not Role.SYSTEM
            for one in records
        )

    def are_live(self, wanted: Sequence[Message]) -> bool:
        """Return whether nothing happened to these."""
        for one in wanted:
            _, record = self._state.messages.get(one.record.row, (0, None))
            if record is None or record.state is not MessageState.ACTIVE:
                return False
            if self._state.records[record.row].memory.revision != one.memory.revision:
                return False
        return True

    def add_tokens(self, row: int, tokens: int) -> None:
        """Count more or fewer tokens for a message."""
        if row in self._state.messages:
            session, record = self._state.messages[row]
            counted = max(0, record.token_count + tokens)
            self._state.messages[row] = (session, replace(record, token_count=counted))

    def summarised(self, rows: Sequence[int], summary_id: str) -> None:
        """Note the summary of messages."""
        for row in set(rows) & self._state.messages.keys():
            session, record = self._state.messages[row]
            self._state.messages[row] = (session, replace(record, summary_id=summary_id))


def _found(state: State, name: SessionName) -> Session | None:
    return next((session for session in state.sessions.values() if session.name == name), None)


def _messages(state: State, session: Session) -> list[Message]:
    found = [record for owner, record in state.messages.values() if owner == session.row]
    found.sort(key=lambda record: record.ordinal)
    return [Message(record, state.records[record.row].memory) for record in found]


def _counts(records: Sequence[MessageRecord]) -> SessionCounts:
    live = [record.token_count for record in records if record.state is MessageState.ACTIVE]
    archived = [record.token_count for record in records if record.state is MessageState.ARCHIVED]
    return SessionCounts(len(live), sum(live), len(archived), sum(archived))
