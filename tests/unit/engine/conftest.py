"""A whole engine over SQLite and the reference indexes, as the composition root wires it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.bootstrap.app import running
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Services]:
    """An engine on SQLite and the reference indexes."""
    settings = load_settings(
        data_dir=tmp_path / "data",
        metadata=SQLITE,
        vectors=IN_MEMORY,
        lexical=IN_MEMORY,
        embedder=IN_MEMORY,
        indexing={"upkeep_seconds": 3600},
        # A busy machine must not make a retriever late: results are compared.
        ranking={"retriever_seconds": 30},
    )
    with running(settings) as application:
        yield application
