"""A whole engine over the reference backends, as the composition root wires it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.bootstrap.app import running
from memsvc.engine.services import Services
from memsvc.settings import load_settings

INPROC = {"backend": "inproc"}


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Services]:
    """An engine that runs on the reference backends."""
    settings = load_settings(
        data_dir=tmp_path / "data",
        metadata=INPROC,
        vectors=INPROC,
        lexical=INPROC,
        embedder=INPROC,
        indexing={"upkeep_seconds": 3600},
    )
    with running(settings) as application:
        yield application
