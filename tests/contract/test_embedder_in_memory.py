"""The in-memory embedder keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.models import EmbedderContract
from memsvc_backends.in_memory.models import EMBEDDER, InMemoryEmbedderSettings


class TestInMemory(EmbedderContract):
    """The reference."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open embedder."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def embedder(self, stack: ExitStack, tmp_path: Path) -> Embedder:
        """Open one."""
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return stack.enter_context(EMBEDDER.open(InMemoryEmbedderSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close it."""
        return stack.close
