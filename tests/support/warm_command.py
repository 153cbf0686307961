"""A program `memsvc` for shells, whose commands run in processes forked from a warm interpreter.

The installed program imports for half a second before it does anything; this one starts in a fiftieth. Tests of the
installation run the installed one.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from tests.support.forked_process import run_main, warm_context
from tests.support.until import until

_PROGRAM = """#!{python} -ISB
import marshal, os, socket, sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    socket.send_fds(line, [b"x"], [0, 1, 2])
    line.sendall(marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd())))
    line.shutdown(socket.SHUT_WR)
    code = line.recv(1)
sys.exit(code[0] if code else "memsvc was killed")
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """Put the program into the folder, which may be named in PATH as long as the context is open."""
    address = str(folder / "socket")
    program = folder / "memsvc"
    program.write_text(_PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o755)
    process = warm_context().Process(target=_serve, args=(address,))
    process.start()
    until(Path(address).exists)
    try:
        yield folder
    finally:
        process.terminate()
        process.join()


def _serve(address: str) -> None:
    forks = get_context("fork")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{address}.new")
        listener.listen()
        Path(f"{address}.new").rename(address)
        while True:
            line, _ = listener.accept()
            with line:
                forks.Process(target=_answer, args=(line,)).start()


def _answer(line: socket.socket) -> None:
    """Run a command with the arguments, the environment, the directory and the streams of the caller."""
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    with line.makefile("rb") as sent:
        arguments, environment, directory = marshal.loads(sent.read())  # noqa: S302 - from our own program
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process lives
    code = 0
    try:
        run_main(arguments, environment, directory)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    sys.stdout.flush()
    sys.stderr.flush()
    line.sendall(bytes([code]))
