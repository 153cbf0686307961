"""The part of the metadata store that keeps what the vault knows of its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Entry


@dataclass(frozen=True, slots=True)
class VaultState:
    """Which vault the entries are of, and up to which position of the outbox its files follow the store."""

    vault_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session in which something was said.

    Attributes:
        first_time: When its first message was written.
        stamp: Microseconds; it grows whenever one of its messages changes.
        row: Of its first message.
    """

    scope: Scope
    first_time: datetime
    stamp: int
    row: int


class VaultManifest(Protocol):
    """Entries by path, and what is behind them. Paths that differ in case or composition only are one.

    A memory has at most one entry, and so has the transcript of a session.
    """

    def state(self) -> VaultState | None:
        """Return the state; None: there is no vault yet."""
        ...

    def begin(self, vault_id: str) -> None:
        """Forget every entry, and begin with a vault of this id at position 0."""
        ...

    def at(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Return the entries of these paths by `memsvc.domain.vault_layout.path_key`; unknown ones are left out."""
        ...

    def of(self, memory_ids: Iterable[str]) -> dict[str, Entry]:
        """Return the entries of these memories by memory id; those without are left out."""
        ...

    def of_session(self, scope: Scope) -> Entry | None:
        """Return the entry of the transcript of the session of *scope*."""
        ...

    def alike(self, owner: str, digest: str, *, limit: int) -> list[Entry]:
        """Return at most *limit* entries of an owner's files of this digest, by path."""
        ...

    def page(self, *, owner: str | None, after: str, limit: int) -> list[Entry]:
        """Return at most *limit* entries of an owner, or with None of everybody, by path key, after a path key."""
        ...

    def count(self, *, owner: str | None) -> int:
        """Return how many entries there are."""
        ...

    def record(
        self, entries: Sequence[Entry] = (), *, removed: Iterable[str] = (), position: int | None = None
    ) -> None:
        """Remove the entries of the paths *removed*, set *entries*, and note the position, all of it or nothing.

        An entry takes the place of the one of its path, and of the one of its memory or session.
        """
        ...

    def present(self, rows: Sequence[int]) -> list[Memory]:
        """Return memories as they are, of any owner and status, in any order; unknown ones are left out."""
        ...

    def behind(self, *, owner: str | None, after_row: int, limit: int, every: bool = False) -> list[Memory]:
        """Return the next *limit* memories, by ascending row, whose entry does not say what they are.

        Those are: that should have a file and have no entry, or one of another revision, and that should have none and
        have an entry. With *every* all that should have a file are among them; messages of sessions never are.
        """
        ...

    def lost(self, *, owner: str | None, after: str, limit: int) -> list[Entry]:
        """Return at most *limit* entries whose memory is not there any more, by path key, after a path key."""
        ...

    def purged(self, memory_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return the owners and projects of those of these memories that were removed for good, but not erased."""
        ...

    def said(self, *, owner: str | None, after_row: int, limit: int) -> list[Transcript]:
        """Return the next *limit* sessions in which something was said, by the row of their first message."""
        ...
