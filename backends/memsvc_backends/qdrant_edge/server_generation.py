"""A generation that is being made on a Qdrant server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from memsvc_backends.qdrant_server.generations import Generations, Live, Manifest

E = TypeVar("E")
_TOUCH_SECONDS = 30.0


class ServerGeneration(Generic[E, Manifest]):
    """A collection that no alias names yet. From one thread at a time."""

    def __init__(
        self,
        generations: Generations[Manifest],
        made: Live[Manifest],
        write: Callable[[Live[Manifest], Mapping[int, Sequence[E]]], None],
        remove: Callable[[str], None],
    ) -> None:
        self.made = made
        self._generations = generations
        self._write = write
        self._remove = remove
        self._is_sealed = False
        self._is_over = False
        self._touched = time.monotonic()

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Make the entries of each memory exactly those given."""
        self._write(self.made, changes)
        if time.monotonic() > self._touched + _TOUCH_SECONDS:
            self._touched = time.monotonic()
            self._generations.touch(self.made.collection)

    def seal(self) -> None:
        """Note that the bulk is done: the server packs it, and builds its graphs, by itself and beside searches."""
        self._generations.touch(self.made.collection)
        self._is_sealed = True

    def require_sealed(self) -> None:
        """Raise ValueError unless the generation can go live."""
        if not self._is_sealed or self._is_over:
            message = f"The generation {self.made.manifest.generation} is not one that was sealed and can go live."
            raise ValueError(message)

    def went_live(self) -> None:
        """Note that the generation is the index's now, so that discarding it does nothing."""
        self._is_over = True

    def discard(self) -> None:
        """Remove the generation, unless it is live or gone."""
        if not self._is_over:
            self._is_over = True
            self._remove(self.made.collection)
