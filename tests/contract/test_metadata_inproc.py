"""The dict-based metadata store keeps the port's promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.metadata import MetadataStoreContract
from memsvc.testing.store_harness import Clock
from memsvc_backends.in_memory.store import METADATA


class TestInprocMetadata(MetadataStoreContract):
    """The reference."""

    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        """Hold the open store."""
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def store(self, stack: ExitStack, tmp_path: Path, clock: Clock) -> MetadataStore:
        """Open a fresh store."""
        return stack.enter_context(METADATA.open(BackendSettings(), BackendContext(tmp_path, clock)))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close
