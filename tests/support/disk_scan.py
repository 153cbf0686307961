"""Looking through the files of a server that runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def contents(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every file below a directory with what it holds; what is merged or removed meanwhile is left out."""
    for folder, _, names in os.walk(directory):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                yield path, path.read_bytes() if path.is_file() else b""
