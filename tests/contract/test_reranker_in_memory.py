"""The reference reranker keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsvc.ports.models import Reranker
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.factories import NOW
from memsvc.testing.models import RerankerContract
from memsvc_backends.in_memory import RERANKER


class TestInMemoryReranker(RerankerContract):
    """The one that compares words."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold what is open."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def reranker(self, stack: ExitStack) -> Reranker:
        """Open it."""
        return stack.enter_context(RERANKER.open(BackendSettings(), BackendContext(Path("unused"), lambda: NOW)))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Leave its context."""
        return stack.close
