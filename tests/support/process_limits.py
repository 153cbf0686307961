"""Limits of this process for a moment, which its new child processes have too."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_file_grows() -> Iterator[None]:
    """Refuse every write that makes a file longer, as a full disk does. The error is EFBIG."""
    with _limited(resource.RLIMIT_FSIZE, 0):
        yield


@contextmanager
def no_more_files() -> Iterator[None]:
    """Refuse to open any file. The error is EMFILE."""
    with _limited(resource.RLIMIT_NOFILE, 3):
        yield


@contextmanager
def _limited(kind: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
