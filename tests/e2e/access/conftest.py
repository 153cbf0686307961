"""One service that asks for keys, for all tests of access."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.access.support import ASKING, Keyed, keyed


@pytest.fixture(scope="session")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the service notes what is changed."""
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory, audit_file: Path) -> Iterator[Keyed]:
    """Return the service and its keys."""
    environment = ASKING | {"MEMSVC_ACCESS__AUDIT_FILE": str(audit_file)}
    with keyed(tmp_path_factory.mktemp("keyed") / "data", environment) as asking:
        yield asking
