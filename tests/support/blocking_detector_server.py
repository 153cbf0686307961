"""A server whose event loop is watched: `python -m tests.support.blocking_detector_server REPORT serve …`.

Two things must not happen in the loop's thread: a call that blocks (blockbuster raises where one is made), and a
callback that computes for long. The latter is measured in the thread's own processor time, which does not grow while
others have the processor or the interpreter, and is compared with a known amount of work done in the same process:
so neither a busy machine nor a slow one changes anything. A garbage collection falls on whichever thread allocates
next; its time is left out.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from blockbuster import BlockBuster

from memsvc.cli.app import main

WATCHED = ["memsvc", "memsvc_backends"]
CONTENDED = ("threading.Lock.acquire", "threading.Lock.acquire_lock")
"""Locks held for microseconds are met now and then; that is no blocking to speak of."""
LOGS = ("io.TextIOWrapper.write", "io.BufferedWriter.write")
"""Log lines go to stderr from wherever they are made."""


class Watch:
    """The longest callbacks of an event loop, by processor time."""

    def __init__(self) -> None:
        self.longest: list[tuple[float, str]] = []
        self.callbacks = 0
        self._collecting = threading.local()
        gc.callbacks.append(self._collect)

    def _collect(self, phase: str, _info: dict[str, int]) -> None:
        own = self._collecting
        if phase == "start":
            own.since = time.thread_time()
        else:
            own.seconds = self._collected() + time.thread_time() - own.since

    def _collected(self) -> float:
        """Return the time that garbage collections have taken of this thread."""
        return getattr(self._collecting, "seconds", 0.0)

    def install(self) -> None:
        """Measure every callback that any loop runs from now on."""
        original: Any = asyncio.Handle._run

        def measured(handle: Any) -> Any:
            started = time.thread_time() - self._collected()
            try:
                return original(handle)
            finally:
                self.callbacks += 1
                taken = time.thread_time() - self._collected() - started
                if taken > 0.01:
                    self.longest = sorted([*self.longest, (taken, repr(handle)[:300])], reverse=True)[:10]

        asyncio.Handle._run = measured  # type: ignore[method-assign] # there is no other way to see every callback


def floor() -> float:
    """Return the processor time of a known amount of work: a million additions."""
    started = time.thread_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.thread_time() - started


def run(report: Path, arguments: list[str]) -> None:
    """Serve until told to stop, then write down what was seen."""
    watch = Watch()
    watch.install()
    buster = BlockBuster(scanned_modules=WATCHED)
    buster.activate()
    for name in (*CONTENDED, *LOGS):
        if name in buster.functions:
            buster.functions[name].deactivate()
    for function in buster.functions.values():
        # Before the first call is answered.
        function.can_block_in("memsvc/cli/serve.py", "_write_whole")
    sys.argv = ["memsvc", *arguments]
    try:
        main()
    finally:
        buster.deactivate()
        seen = {"callbacks": watch.callbacks, "longest": watch.longest, "floor": floor()}
        report.write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
