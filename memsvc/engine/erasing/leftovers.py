"""Looking through files for what should be gone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Search:
    """How many files were read, and the names of those that hold something."""

    files: int
    holding: tuple[str, ...]


def search_files(directory: Path, needles: Collection[bytes], *, without: Sequence[Path] = ()) -> Search:
    """Read every file below *directory*, but those below *without*, and look for any of *needles*.

    A file that goes away meanwhile holds nothing.
    """
    read, holding = 0, []
    for path in _files(directory, {place.resolve() for place in without}) if needles else ():
        with suppress(FileNotFoundError):
            read += 1
            if _holds(path, needles):
                holding.append(path.name)
    return Search(read, tuple(holding))


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
