"""A write path with everything that looks back, for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.history.history_fixture import Archive, open_archive


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """An archive over an empty store."""
    with open_archive(tmp_path) as opened:
        yield opened
