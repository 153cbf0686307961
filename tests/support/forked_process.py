"""Processes of the `memsvc` command, forked from a warm interpreter.

A new interpreter imports for two seconds of processor time before `memsvc serve` opens anything; a forked one starts
serving in a quarter of a second. Tests of the start itself run `python -m memsvc`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 180.0


@cache
def warm_context() -> ForkServerContext:
    """Return the context whose processes are forked from the warm interpreter."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.warm_modules"])
    return context


class ForkedProcess:
    """A running `memsvc` command with the methods of a `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        *,
        directory: Path = ROOT,
    ) -> None:
        command = (tuple(arguments), dict(environment), str(stdout), str(stderr), str(directory))
        self._process = warm_context().Process(target=_run, args=command)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code after the end of the process."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("memsvc", timeout)
        return self._process.exitcode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def run_memsvc(
    *arguments: str, environment: Mapping[str, str], directory: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with this environment and no other, and return its exit code and output."""
    with TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        process = ForkedProcess(arguments, environment, stdout, stderr, directory=directory)
        code = process.wait(RUN_SECONDS)
        return subprocess.CompletedProcess(arguments, code, stdout.read_text("utf-8"), stderr.read_text("utf-8"))


def _run(arguments: tuple[str, ...], environment: dict[str, str], stdout: str, stderr: str, directory: str) -> None:
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        _redirect(stream, path)
    run_main(arguments, environment, directory)


def run_main(arguments: Sequence[str], environment: Mapping[str, str], directory: str) -> None:
    """Run a command in this process, a fork of the warm one; the end of a command is a SystemExit."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["memsvc", *arguments]
    from memsvc.cli.app import main  # noqa: PLC0415 - in the warm process, which has imported it

    main()


def _redirect(stream: Any, path: str) -> None:
    stream.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, stream.fileno())
    os.close(file)
