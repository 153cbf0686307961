"""What is found in a text to be reminded of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from memsvc.domain.reminder import Recurrence, Reminder
from memsvc.text.reminding import reminder_in
from tests.unit.text.reminder_sentences import HELD_OUT, TUNED, Expected

SAID = datetime(2026, 2, 4, 10, tzinfo=UTC)


def day_of(reminder: Reminder | None) -> Expected:
    """Return the day of a reminder as the sentences name it."""
    if reminder is None:
        return None
    if reminder.recurrence is Recurrence.YEARLY:
        return reminder.month, reminder.day
    return reminder.year, reminder.month, reminder.day


def measured(cases: Sequence[tuple[str, Expected]]) -> tuple[float, float, list[str]]:
    """Return precision and recall, a wrong day counting against both, and what went wrong."""
    found = [(text, expected, day_of(reminder_in(text, SAID))) for text, expected in cases]
    right = sum(expected is not None and expected == given for _, expected, given in found)
    wrong = [f"{text}: {given}, not {expected}" for text, expected, given in found if given != expected]
    precision = right / max(1, sum(given is not None for *_, given in found))
    return precision, right / sum(expected is not None for _, expected, _ in found), wrong


@pytest.mark.parametrize(
    ("cases", "precision", "recall"), [(TUNED, 1.0, 1.0), (HELD_OUT, 1.0, 1.0)], ids=["tuned", "held out"]
)
def test_reminders_are_found(
    cases: Sequence[tuple[str, Expected]], precision: float, recall: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as were measured, and no more false alarms."""
    found = measured(cases)
    with capsys.disabled():
        print(f"\nreminders in {len(cases)} sentences: precision {found[0]:.3f}, recall {found[1]:.3f}")  # noqa: T201

    assert found[0] >= precision, found[2]
    assert found[1] >= recall, found[2]
