"""A process that has as many threads as it may, as in a container with a limit of processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

REFUSAL = "can't start new thread"


@contextmanager
def no_new_threads(names: str) -> Iterator[None]:
    """Let no thread be started whose name begins with *names*."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(names):
            raise RuntimeError(REFUSAL)
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield
