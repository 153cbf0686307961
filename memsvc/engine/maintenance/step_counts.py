"""What maintenance has done since the process started, by step: whoever runs a step notes it here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class StepCount:
    """How often a step ran, how often it failed, how many memories it changed, and how long it took in all."""

    step: str
    runs: int = 0
    failures: int = 0
    changed: int = 0
    seconds: float = 0.0


class StepCounts:
    """Counts steps. Their names must come from a fixed list: they become labels of metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, StepCount] = {}

    def note(self, step: str, *, changed: int, seconds: float, failed: bool = False) -> None:
        """Count one run of a step."""
        with self._lock:
            before = self._steps.get(step) or StepCount(step)
            self._steps[step] = replace(
                before,
                runs=before.runs + 1,
                failures=before.failures + failed,
                changed=before.changed + changed,
                seconds=before.seconds + seconds,
            )

    def report(self) -> list[StepCount]:
        """Return the counts by step."""
        with self._lock:
            return [self._steps[step] for step in sorted(self._steps)]
