"""A generation that is being made in tables of its own, whatever its entries are."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

from memsvc_backends.postgres_index.connections import Connection
from memsvc_backends.postgres_index.errors import translate
from memsvc_backends.postgres_index.generations import M, Making

E = TypeVar("E")
_SLICE = 256
"""Memories of one transaction while a generation is made."""


class TableGeneration(ABC, Generic[E, M]):
    """`memsvc.ports.derived_index.Generation`. One thread at a time uses its connection; others wait."""

    def __init__(self, making: Making[M]) -> None:
        """Make the tables.

        Raises:
            BackendUnavailableError: The database cannot be reached; the generation is given up.
        """
        self.making = making
        self._lock = threading.Lock()
        try:
            with translate(making.name):
                self._create(making.connection, making.made.base)
        except BaseException:
            making.discard()
            raise

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Make the entries of each memory exactly those given."""
        coming = iter(changes.items())
        with self._lock, translate(self.making.name):
            while part := dict(islice(coming, _SLICE)):
                self._put(self.making.connection, self.making.made.base, part)

    def seal(self) -> None:
        """Build what the manifest asks for, and bring the planner's knowledge up to date."""
        with self._lock, translate(self.making.name):
            self._settle(self.making.connection, self.making.made.base)

    def discard(self) -> None:
        """Remove the generation, unless it went live."""
        self.making.discard()

    @abstractmethod
    def _create(self, connection: Connection, base: str) -> None:
        """Make the tables."""

    @abstractmethod
    def _put(self, connection: Connection, base: str, changes: Mapping[int, Sequence[E]]) -> None:
        """Make the entries of each memory exactly those given, in one transaction."""

    @abstractmethod
    def _settle(self, connection: Connection, base: str) -> None:
        """Finish the bulk."""
