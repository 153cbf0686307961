"""How many processors this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_processors() -> int:
    """Return the number of processors, by affinity and by the container's quota, at least 1.

    More threads than the quota allows would be stopped in the middle of a call, all at once.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _quota(count)))


def _quota(unlimited: int) -> int:
    """Return the quota of the control group (version 2), rounded up, or *unlimited*."""
    try:
        allowed, period = _QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return unlimited
    return unlimited if allowed == "max" else -(-int(allowed) // int(period))
