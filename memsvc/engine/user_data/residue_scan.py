"""Scan of files for residue of erased users, in a process of its own.

Usage: `python -m memsvc.engine.user_data.residue_scan`.

It cannot run in the service: a process that closes a file loses all its locks on the file, including those of its open
database, and the next process that opens the database takes it for abandoned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ResidueScan:
    """The number of files read, and the names of those that contain a needle."""

    files: int
    holding: tuple[str, ...]


def search_files(directory: Path, needles: Collection[str], *, without: Sequence[Path] = ()) -> ResidueScan:
    """Search every file below *directory*, except those below *without*, for any of *needles* as UTF-8.

    Raises:
        OSError: The files cannot be read.
    """
    if not needles:
        return ResidueScan(0, ())
    asked = json.dumps([str(directory), list(needles), [str(place) for place in without]])
    # No shell, and nothing in the command comes from outside. -P: the working directory is not on the import path.
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", __name__],
        input=asked.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if done.returncode:
        message = "The files could not be scanned."
        raise OSError(message)
    files, holding = json.loads(done.stdout)
    return ResidueScan(files, tuple(holding))


def main() -> None:
    """Run the scan that is requested on stdin."""
    directory, needles, without = json.loads(sys.stdin.buffer.read())
    wanted = [needle.encode() for needle in needles]
    read, holding = 0, []
    for path in _files(Path(directory), {Path(place).resolve() for place in without}):
        # A file that vanishes during the scan holds nothing.
        with suppress(FileNotFoundError):
            read += 1
            if _holds(path, wanted):
                holding.append(path.name)
    sys.stdout.write(json.dumps([read, holding]))


def _files(directory: Path, without: Collection[Path]) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory.resolve()):
        folders[:] = [name for name in folders if Path(folder, name) not in without]
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _holds(path: Path, needles: Collection[bytes]) -> bool:
    overlap = max(map(len, needles)) - 1
    with path.open("rb") as file:
        before = b""
        while block := file.read(BLOCK):
            window = before + block
            if any(needle in window for needle in needles):
                return True
            before = window[-overlap:] if overlap else b""
    return False


if __name__ == "__main__":
    main()
