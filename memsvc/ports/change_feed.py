"""The ports to what the indexes are made from: the feed of changes, and the cache of embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memsvc.domain.index_entries import Change, Document, DocumentHistory, ExpectedEntries
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach


class IndexFeed(Protocol):
    """Feed of the indexer: documents of every owner, and the outbox.

    The indexes hold every memory but those of `memsvc.domain.memory.UNINDEXED`.
    """

    def documents(self, rows: Sequence[int]) -> list[Document]:
        """Return these memories for indexing, in any order; those not indexed, and unknown ones, are left out."""
        ...

    def scan(self, *, after_row: int, limit: int) -> list[Document]:
        """Return the next *limit* memories for indexing by ascending row, those not indexed left out."""
        ...

    def histories(self, *, after_row: int, limit: int) -> list[DocumentHistory]:
        """Return the next *limit* memories of any status by ascending row, with their earlier revisions."""
        ...

    def expected_entries(self, *, after_row: int, limit: int) -> list[ExpectedEntries]:
        """Return what the indexes should hold of the next *limit* memories by ascending row."""
        ...

    def indexable(self) -> int:
        """Return how many memories the indexes should hold."""
        ...

    def pending_changes(self, *, limit: int) -> list[Change]:
        """Return the oldest changes that the indexes have not yet applied, ascending by position."""
        ...

    def long_memories(self, rows: Sequence[int], *, chunks: int) -> dict[int, str]:
        """Return those of *rows* whose memories have more than *chunks* chunks, each with its owner."""
        ...

    def pending_of(self, owner: str, *, up_to: int, limit: int) -> list[int]:
        """Return the positions of the oldest pending changes of *owner*, at most *limit*, none after *up_to*."""
        ...

    def turns(self, *, newest: int, limit: int) -> list[int]:
        """Return positions of pending changes in turns: the oldest of each owner, then the second of each, and so on.

        Only the *newest* pending changes are looked at, so that the cost does not grow with the backlog of an import.
        """
        ...

    def claim(
        self, wanted: Sequence[int], *, limit: int, without: AbstractSet[int] = frozenset()
    ) -> AbstractContextManager[list[Change]]:
        """Claim pending changes for the time of the context; return them in ascending order of position.

        They are those at the *wanted* positions that can be claimed, or, without any, the oldest ones, at most *limit*,
        but for those at the positions *without*.
        All changes of a memory are claimed by one process at a time, so an older state that one process has read cannot
        replace a later state that another process has read. The claims of a process that dies, is stopped or loses its
        connection are released within a minute; see `confirm_claim`.
        """
        ...

    def pause(self) -> AbstractContextManager[None]:
        """Wait until no process of a shared store has claimed changes, and prevent claims for the time of the context.

        Shared indexes then change only by writes of this process, and contain only changes committed before. Returns at
        once if no other process can write to the store. Keep the context short.

        Raises:
            BackendUnavailableError: A process does not release its claims.
        """
        ...

    def require_claim(self) -> None:
        """Return if this thread still holds its claim or pause; to be called before writing to an index.

        A process that loses its connection to the store loses its claims without notice: another process may have
        claimed the same changes since and have written a later state.

        Raises:
            BackendUnavailableError: The claim is lost.
        """
        ...

    def confirm_claim(self, changes: Sequence[Change]) -> None:
        """Return if this thread still holds its claim; to be called after an attempt to write *changes* to an index.

        If the claim was lost during the write, another process may have written a later state before. The changes then
        become pending again, so that the present state is written once more: at once, or with a later `claim` of this
        process if the store is unreachable or another process has claimed the memories.

        Raises:
            BackendUnavailableError: The claim is lost.
        """
        ...

    def confirm_pause(self, position: int) -> None:
        """Return if this thread still holds its pause; to be called after a switch to a generation of *position*.

        Otherwise every change after *position* becomes pending again, as by `confirm_claim`: other processes may have
        applied some of them to the earlier generation.

        Raises:
            BackendUnavailableError: The pause is lost.
        """
        ...

    def has_purges(self, *, after: int, since: datetime) -> bool:
        """Return whether any kept change after the position *after*, made at *since* or later, purged a memory."""
        ...

    def applied_among(self, positions: Sequence[int]) -> set[int]:
        """Return those of *positions*, which are not beyond the head, that any process has applied."""
        ...

    def changes_after(self, position: int, *, limit: int, settled: bool = True) -> list[Change]:
        """Return the changes after *position*, applied or not, ascending.

        Args:
            position: Those after it are returned.
            limit: How many are returned at most.
            settled: Leave out changes beyond `settled_position`, so that a reader may go on after the last one. False:
                return all that are committed; others may be committed later before the last one.
        """
        ...

    def applied_changes(self, position: int, *, limit: int) -> list[Change]:
        """Return the changes after *position* that were marked as applied, ascending, at most *limit*."""
        ...

    def mark_applied(self, changes: Sequence[Change]) -> None:
        """Note that the indexes hold these changes; durable at the latest after the next `settle`.

        Marks lost in a crash make the changes pending again.
        """
        ...

    def settle(self) -> None:
        """Make durable what was noted; where nothing waits to be made durable, return at once."""
        ...

    def head_position(self) -> int:
        """Return a position that no committed change is beyond: that of the newest one; 0 when there never was one."""
        ...

    def settled_position(self) -> int:
        """Return a position up to which no further change will be committed.

        Transactions of different owners may commit in another order than that of their positions; those under way hold
        it back. It may be less than an earlier call returned.
        """
        ...

    def kept_after(self) -> int:
        """Return the position after which every change is kept; earlier ones may have been trimmed."""
        ...

    def applied_position(self) -> int:
        """Return a position up to which every change is applied; later commits come after it."""
        ...

    def pending_count(self) -> int:
        """Return how many changes wait to be applied."""
        ...

    def trim(self, *, before: datetime) -> int:
        """Remove changes older than *before*, from the oldest on up to the first that is not applied; return how many.

        Positions may have gaps that were never used: `kept_after` says whether changes are missing.
        """
        ...


class EmbeddingCache(Protocol):
    """Embeddings by (model, digest of the text), so that no text is embedded twice."""

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors (little-endian float32) by digest; those not there are left out."""
        ...

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors by digest; a digest that is there already stays as it is."""
        ...

    def count(self, model: str) -> int:
        """Return how many vectors of *model* are stored."""
        ...

    def models(self) -> list[str]:
        """Return the models of which any vector is stored."""
        ...

    def digests(self, model: str, *, after: bytes, limit: int) -> list[bytes]:
        """Return the next *limit* digests of *model* after *after*, ascending."""
        ...

    def remove(self, model: str, digests: Sequence[bytes]) -> int:
        """Remove vectors of *model* by digest; return how many were stored."""
        ...


# The port to token vectors of passages: data derived from memories, which is computed again if it is lost.


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """The token vectors of a passage.

    Attributes:
        entry: The entry of the passage: `entry_id(row, View.CHUNK, ordinal)`.
        digest: The first 16 bytes of the SHA-256 digest of the text that was embedded.
        tokens: The signs of each token, one after the other, in the packing of the model; may be empty.
    """

    entry: int
    digest: bytes
    tokens: bytes


class TokenStore(Protocol):
    """Token vectors by passage, removed in the transaction that erases or purges their memory."""

    def tokens(self, model: str, entries: Sequence[int]) -> dict[int, bytes]:
        """Return the tokens of these passages by entry; those without tokens of *model* are left out."""
        ...

    def digests(self, model: str, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the digests of all passages of these memories that have tokens of *model*, by entry."""
        ...

    def replace(self, model: str, rows: Sequence[int], passages: Sequence[PassageTokens]) -> None:
        """Make *passages*, with tokens of *model*, all that is stored of these memories, whatever the model was.

        Passages of memories that are not among *rows*, or not in the store, are left out.
        """
        ...

    def rows_without(self, model: str, *, given_model: str, after_row: int, limit: int) -> list[int]:
        """Return the next *limit* rows of indexed memories without a passage of *model*, ascending.

        Memories of one chunk with a given vector of *given_model* are left out: their texts are not embedded.
        """
        ...

    def count(self, model: str) -> int:
        """Return the number of passages with tokens of *model*."""
        ...


# The port to the log of changes, as those who watch memories read it.


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change, and who may know of it when the memory itself can no longer say.

    Attributes:
        private_session: The session that alone may know of the change, because the memory was of layer SESSION before
            and after it; empty when all callers within reach may.
    """

    change: Change
    private_session: str = ""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes that follow a position, ascending, and what is known around them, all as of one moment.

    Attributes:
        position: Every change of the reach up to it is in this page, or before it; none is committed later.
        is_all: Whether there are no more.
        kept_after: Every change after this position is still kept; earlier ones may be gone.
        head: A position that none of the store's changes is beyond, whether committed or under way.
    """

    changes: tuple[LoggedChange, ...]
    position: int
    is_all: bool
    kept_after: int
    head: int


class ChangeFeed(Protocol):
    """The changes of memories within a reach. A change is here as soon as it is committed, and never before.

    Those of one owner are committed in the order of their positions.
    """

    @property
    def identity(self) -> str:
        """Return a name of the store's data that no other store has; it stays when the store is opened again."""
        ...

    def after(self, position: int, *, reach: Reach, limit: int) -> ChangePage:
        """Return the next *limit* (at least 1) changes of memories in *reach* after *position*.

        A memory's project and owner never change, so neither does the reach of its changes.
        """
        ...

    def end(self, *, reach: Reach) -> int:
        """Return the position that all committed changes of memories in *reach* are at or before, and no later ones."""
        ...

    def count(self, position: int, *, reach: Reach) -> int:
        """Return how many changes of memories in *reach* come after *position*."""
        ...

    def states(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Memory]:
        """Return memories as they were by (row, revision), of any owner; those removed for good are left out."""
        ...
