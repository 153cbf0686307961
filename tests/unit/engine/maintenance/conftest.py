"""A house of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.maintenance.engine_fixture import House, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """An engine on SQLite and the reference indexes."""
    with open_house(tmp_path) as house:
        yield house
