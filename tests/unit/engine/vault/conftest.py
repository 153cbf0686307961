"""A vault over each of the stores that are always there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engine.vault.vault_fixture import Bench, open_bench


@pytest.fixture(params=["inproc", "sql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A vault."""
    with open_bench(tmp_path, request.param) as bench:
        yield bench
