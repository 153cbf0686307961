"""The part of the metadata store that keeps sessions and the order of their messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from memsvc.domain.sessions import (
    Message,
    MessageRecord,
    MessageState,
    Session,
    SessionCounts,
    SessionName,
    SessionState,
    Standing,
)


class SessionReads(Protocol):
    """Reading sessions. A session is found by its whole name alone, so nobody meets another's."""

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        ...

    def page(
        self, owner: str, project_id: str, *, states: Collection[SessionState], before: int | None, limit: int
    ) -> list[Session]:
        """Return at most *limit* sessions of exactly this project in one of the *states*, the newest first.

        *before* is the row of the last session of the page before; None asks for the first page.
        """
        ...

    def counts(self, sessions: Sequence[Session]) -> dict[int, SessionCounts]:
        """Return the counts of these sessions by row, deleted messages left out; none is missing."""
        ...

    def messages(
        self, session: Session, *, states: Collection[MessageState], after: int | None, limit: int, descending: bool
    ) -> list[Message]:
        """Return at most *limit* messages in one of the *states*, by ordinal, that come after the ordinal *after*."""
        ...


class SessionWrites(Protocol):
    """Sessions within a transaction; what is read here, no other transaction changes before this one ends."""

    def get(self, name: SessionName) -> Session | None:
        """Return the session of this name."""
        ...

    def standing(self, name: SessionName) -> Standing | None:
        """Return the session of this name with what an append needs to know of it."""
        ...

    def active(self, owner: str, project_id: str) -> list[Session]:
        """Return the ACTIVE sessions of exactly this project, the oldest first."""
        ...

    def insert(self, session: Session) -> Session:
        """Insert a new session; return it with its row.

        Raises:
            UniquenessRaceError: The name is taken.
        """
        ...

    def update(self, session: Session) -> None:
        """Replace the session with this row; its name and its create_time never change."""
        ...

    def append(self, session: Session, records: Sequence[MessageRecord]) -> None:
        """Add messages whose memories were inserted in this transaction; their ordinals are free."""
        ...

    def counts(self, session: Session) -> SessionCounts:
        """Return the counts of a session, deleted messages left out."""
        ...

    def has_droppable(self, session: Session, *, before: int) -> bool:
        """Return whether a live message with a smaller ordinal is neither pinned nor a system message."""
        ...

    def are_live(self, wanted: Sequence[Message]) -> bool:
        """Return whether all of these are still ACTIVE, and their memories at the revision they were read at."""
        ...

    def add_tokens(self, row: int, tokens: int) -> None:
        """Count so many tokens more, or with a negative number less, for the message with this row; never below 0."""
        ...

    def summarised(self, rows: Sequence[int], summary_id: str) -> None:
        """Note which memory sums these messages up."""
        ...
