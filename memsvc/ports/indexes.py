"""What the ports to both derived indexes share: entries by memory, inventory, and generations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from memsvc.domain.scope import Reach

E_contra = TypeVar("E_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry as an inventory lists it."""

    entry_id: int
    fingerprint: int


class Generation(Protocol[E_contra]):
    """A new generation of an index, being made beside the live one, seen by no search.

    Use: `replace` many times, `seal` once, `replace` for what changed meanwhile, then the index's `switch`; or
    `discard`. What a process that died left behind is removed when the index is next opened.
    """

    def replace(self, changes: Mapping[int, Sequence[E_contra]]) -> None:
        """Make the entries of each memory (by row) exactly those given; none removes the memory."""
        ...

    def seal(self) -> None:
        """Finish the bulk: flush, and build what the manifest asks for. May take minutes; searches go on."""
        ...

    def discard(self) -> None:
        """Remove the generation. Harmless when it was switched to or discarded already."""
        ...


class DerivedIndex(Protocol[E_contra]):
    """An index over memories: derived data. Losing it loses nothing that a rebuild from the store cannot bring.

    Safe to call from several threads; `replace`, `begin` and `switch` come from one thread at a time.
    An index that was never switched to a generation has no manifest; searches then find nothing, and
    `replace` must not be called.

    Several processes may share an index. Then `replace` is called by all, never for the same memory at a time, and not
    while one of them switches (`IndexFeed.claim` and `standing_still` see to it); one at a time makes a generation;
    after a switch by one, every search of the others that starts is answered by the new generation, and `manifest`
    follows within a second, or with the next search or change.
    """

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same entries: then one of them builds for all."""
        ...

    def replace(self, changes: Mapping[int, Sequence[E_contra]]) -> None:
        """Make the entries of each memory (by row) exactly those given; none removes the memory.

        Idempotent. When this returns, the change survives kill -9 of any process, and every search that starts
        afterwards sees it. A memory that the index does not know is no error.

        Raises:
            DimensionMismatchError: A vector's length is not the index's; nothing was changed.
            BackendUnavailableError: The index cannot be reached; part of *changes* may be applied: repeat it all.
            BackendClosedError: The index was closed.
        """
        ...

    def inventory(self) -> Iterator[Listed]:
        """List every entry of every owner, in any order, as of some moment during the iteration."""
        ...

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        ...

    def storage_bytes(self) -> int:
        """Return the bytes on disk, or 0 when the index keeps none."""
        ...

    def ping(self) -> None:
        """Return when the index can be searched, or raise BackendUnavailableError."""
        ...
