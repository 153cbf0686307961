"""A write path with everything that looks back, over every store that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.history.history_fixture import Archive, open_archive
from tests.unit.engine.memories.write_path import STORES


@pytest.fixture(params=STORES)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    """An archive over one of the stores."""
    with open_archive(request.param, tmp_path) as opened:
        yield opened
