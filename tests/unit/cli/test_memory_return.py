"""Return of free memory by a running service."""

from __future__ import annotations

import gc

import pytest

from memsvc.cli import serve
from memsvc.cli.serve import GROWN_BYTES, REST_SHARE, MemoryReturn


class Library:
    """The C library; counts the returns."""

    def __init__(self) -> None:
        self.returns = 0

    def malloc_trim(self, pad: int) -> None:
        """Return what is free."""
        self.returns += 1


def test_garbage_is_looked_for_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only when the process has grown, and the later again the longer it took, as no call goes on meanwhile."""
    now, resident = [100.0], [GROWN_BYTES]
    monkeypatch.setattr(serve, "_resident_bytes", lambda: resident[0])
    memory = MemoryReturn(lambda: now[0])
    library = Library()
    monkeypatch.setattr(memory, "_library", library)

    def collect() -> None:
        now[0] += 0.5

    monkeypatch.setattr(gc, "collect", collect)

    def after(seconds: float, grown: int = GROWN_BYTES) -> int:
        now[0] += seconds
        resident[0] += grown
        memory.run()
        return library.returns

    assert after(0) == 1
    assert after(1) == 1
    assert after(0.5 * REST_SHARE - 2) == 1
    assert after(2) == 2
    assert after(REST_SHARE, grown=0) == 2
