"""Every test of the write path runs over every store that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.memories.write_path import STORES, Desk, open_desk


@pytest.fixture(params=STORES)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with open_desk(request.param, tmp_path) as opened:
        yield opened
