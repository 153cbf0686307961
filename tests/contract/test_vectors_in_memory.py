"""The plain vector index keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.ports.indexes import VectorIndex
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.vectors import VectorIndexContract
from memsvc_backends.in_memory.indexes import VECTORS


class TestInMemoryVectors(VectorIndexContract):
    """The reference."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open index."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def index(self, stack: ExitStack, tmp_path: Path) -> VectorIndex:
        """Open a fresh index."""
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return stack.enter_context(VECTORS.open(BackendSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the index."""
        return stack.close
