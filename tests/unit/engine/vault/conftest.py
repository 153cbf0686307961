"""A vault of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.vault.vault_fixture import Bench, open_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A vault."""
    with open_bench(tmp_path) as bench:
        yield bench
