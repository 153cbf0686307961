"""The Tantivy index keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing.lexical import LexicalIndexContract
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings


class TestTantivyLexical(LexicalIndexContract):
    """Real files in a fresh folder."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open index."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def index(self, stack: ExitStack, tmp_path: Path) -> LexicalIndex:
        """Open a fresh index."""
        return self._opened(stack, tmp_path)

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the index."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, tmp_path: Path) -> Callable[[], LexicalIndex]:
        """Close the index and open it again."""

        def again() -> LexicalIndex:
            stack.close()
            return self._opened(stack, tmp_path)

        return again

    def _opened(self, stack: ExitStack, folder: Path) -> LexicalIndex:
        context = BackendContext(directory=folder / "lexical", now=lambda: datetime.now(UTC))
        return stack.enter_context(TANTIVY.open(TantivySettings(), context))
