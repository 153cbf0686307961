"""Indexes on a Qdrant server, as contracts are bound to them: in every place there is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from typing import Any, ClassVar

import pytest

from memsvc.testing.derived_index import E, FullIndex, M
from memsvc_backends.qdrant_server.connection import ServerConnection
from memsvc_backends.qdrant_server.settings import QdrantServerSettings
from tests.support.qdrant_targets import PLACES, context, place, skip_most_filters
from tests.support.shared_index import SharedIndex

Connect = Callable[[QdrantServerSettings, str], ServerConnection]


class QdrantIndex(SharedIndex[E, M]):
    """Each test has collections of its own.

    Attributes:
        kind: The class of the index.
        name: What its connection is called.
    """

    kind: ClassVar[type[Any]]
    name: ClassVar[str]
    # The local mode goes through all that an index ever held, whenever it is asked: thousands stay out of the shared one.
    alone: ClassVar[tuple[str, ...]] = (*SharedIndex.alone, "many")

    @staticmethod
    @abstractmethod
    def settings() -> QdrantServerSettings:
        """Return settings that nobody else has."""

    @pytest.fixture(scope="class", params=PLACES)
    @classmethod
    def connect(cls, request: pytest.FixtureRequest) -> Iterator[Connect]:
        """What connects to each place in turn."""
        with place(request.param) as connecting:
            yield connecting

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, connect: Connect) -> Iterator[FullIndex[E, M]]:
        """An index for all tests that leave its generations alone: making one takes fifty calls."""
        with cls._opened(connect, cls.settings()) as index:
            yield index

    @pytest.fixture
    def open_index(self, connect: Connect, stack: ExitStack) -> Callable[[], FullIndex[E, M]]:
        """Return what opens the index of this test."""
        settings = self.settings()
        return lambda: stack.enter_context(self._opened(connect, settings))

    @pytest.fixture
    def live(self, request: pytest.FixtureRequest, connect: Connect) -> FullIndex[E, M]:
        """Give an index as `SharedIndex.live` does, in each place; most tests of filters are skipped over gRPC."""
        skip_most_filters(request)
        return self.shared_or_own(request)

    @classmethod
    def _opened(cls, connect: Connect, settings: QdrantServerSettings) -> AbstractContextManager[FullIndex[E, M]]:
        return closing(cls.kind(connect(settings, cls.name), settings, context()))
