"""Output that nobody reads to its end, as in `memsvc list | head -1`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.forked_process import ROOT


@pytest.mark.parametrize(
    "command",
    [["backends"], ["list"], ["list", "--json"], ["watch", "--oldest"], ["--version"], ["--help"]],
    ids=" ".join,
)
def test_a_closed_pipe_ends_a_command_in_silence(run: Any, address: str, command: list[str]) -> None:
    """With the exit code that shells know for it, whenever the output goes out."""
    run("add", "Something to write.", user="u")
    options = ["--address", address, "--user", "u"] if command[0] in {"list", "watch"} else []
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "memsvc", *command, *options], cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (141, "")
