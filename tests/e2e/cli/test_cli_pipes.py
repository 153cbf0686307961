"""Output that is not read to its end, as in `memsvc list | head -1`, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.forked_process import ROOT
from tests.support.rpc import TIMEOUT
from tests.support.until import until


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


def test_an_interrupted_import_says_how_to_go_on(run: Any, address: str) -> None:
    """With its request id, and the exit code that shells know for Ctrl-C."""
    lines = "".join(f'{{"content": "Line {number}."}}\n' for number in range(3000))
    command = [sys.executable, "-m", "memsvc", "import", "-", "--address", address, "--user", "interrupted"]
    # A shell has what it starts in the background ignore the signal, and so do all processes that follow.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with started as process:
        assert process.stdin is not None
        # The input stays open: the import does not end by itself.
        process.stdin.write(lines)
        process.stdin.flush()
        until(lambda: run("list", "--limit", "1", "--json", user="interrupted"), seconds=TIMEOUT)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)

    assert (130, True) == (process.returncode, "Go on with the same command and --request-id " in said)
