"""Runs the example of an adapter as a reader does."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.forked_process import ROOT
from tests.support.server_process import ServerProcess

SECONDS = 120


def run_example(name: str, server: ServerProcess) -> str:
    """Return the output of integrations/NAME/example.py against a server."""
    folder = ROOT / "integrations" / name
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(folder / "example.py"), server.bound],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        timeout=SECONDS, check=False, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
