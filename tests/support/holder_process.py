"""A process that holds something in a database, for tests that stop it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def holding(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script that prints "holding" when it does, and reads a line before it goes on; kill it in the end."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()
