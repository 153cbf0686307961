"""What holds for every test: logging is as it was before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what a test that configures logging did: the process is shared."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    config = structlog.get_config()
    yield
    structlog.configure(**config)
    root.setLevel(level)
    root.handlers[:] = handlers
