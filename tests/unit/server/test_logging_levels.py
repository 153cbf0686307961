"""Levels of loggers: the settings are about the service, libraries log content at their lower levels."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import logging
from memsvc.logging_config import configure
from memsvc.settings import LogSettings
configure(LogSettings(level=%r))
for name in ("memsvc.engine.vault", "memsvc_backends.sql", "watchfiles.main", "botocore.endpoint", "mcp"):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger(name).log(level, "%%s by %%s", logging.getLevelName(level), name)
"""


def logged(level: str) -> set[str]:
    """Return the lines that a process with that level logs."""
    done = subprocess.run([sys.executable, "-c", SCRIPT % level], capture_output=True, text=True, check=True)
    names = ("memsvc.engine.vault", "memsvc_backends.sql", "watchfiles.main", "botocore.endpoint", "mcp")
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    lines = (f"{level} by {name}" for name in names for level in levels)
    return {line for line in lines if line in done.stderr}


@pytest.mark.parametrize(
    ("level", "own", "others"),
    [
        ("DEBUG", {"DEBUG", "INFO", "WARNING", "ERROR"}, {"WARNING", "ERROR"}),
        ("INFO", {"INFO", "WARNING", "ERROR"}, {"WARNING", "ERROR"}),
        ("ERROR", {"ERROR"}, {"ERROR"}),
    ],
)
def test_libraries_log_warnings_at_most(level: str, own: set[str], others: set[str]) -> None:
    """A folder's observer logs the path of every file at DEBUG, and a client of S3 whole requests."""
    expected = {f"{one} by {name}" for one in own for name in ("memsvc.engine.vault", "memsvc_backends.sql")}
    expected |= {f"{one} by {name}" for one in others for name in ("watchfiles.main", "botocore.endpoint", "mcp")}
    assert logged(level) == expected
