"""The threads that merge segments step back for the rest of the service: nobody waits for a merge."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
_TASKS = Path("/proc/self/task")
_MERGE = "merge_thread"
"""How Tantivy names these threads."""


def step_back() -> None:
    """Give the merge threads of this process a low priority, on Linux, where each thread has its own."""
    with suppress(OSError):
        for task in _TASKS.iterdir():
            # A thread may end meanwhile.
            with suppress(OSError):
                if (task / "comm").read_text(encoding="utf-8").startswith(_MERGE):
                    os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)
