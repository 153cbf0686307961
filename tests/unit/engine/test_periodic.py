"""What is done again and again survives its failures, and an outage does not fill the log."""

from __future__ import annotations

import logging
import threading

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.runtime.periodic_task import PeriodicTask


def test_an_outage_is_told_once_and_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is met; the next outage is told again."""
    outcomes = ["away", "away", "well", "away", "well"]
    done = threading.Event()

    def work() -> None:
        if not outcomes:
            done.set()
        elif outcomes.pop(0) == "away":
            raise BackendUnavailableError("sql")

    with caplog.at_level(logging.WARNING):
        repeating = PeriodicTask("tried", 0.0, work)
        assert done.wait(30)
        repeating.stop()

    told = [(record.getMessage(), record.exc_info) for record in caplog.records]
    assert told == [("a periodic task was postponed: The backend 'sql' cannot be reached.", None)] * 2
