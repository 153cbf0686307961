"""The embedder of wordllama keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.models import EmbedderContract
from memsvc_backends.wordllama import WORDLLAMA, WordllamaSettings

pytestmark = pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra wordllama is not installed")


class TestWordllama(EmbedderContract):
    """The fast one."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open embedder."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def embedder(self, stack: ExitStack, tmp_path: Path) -> Embedder:
        """Open one."""
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return stack.enter_context(WORDLLAMA.open(WordllamaSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close it."""
        return stack.close
