"""Precision and recall of the rules on labelled sentences, by language.

    python -m tests.bench.agent_day.labelled [--verbose] FILE.jsonl ...

Reminders: one JSON object per line, {"language": "en", "said_at": "2026-02-04", "text": "...", "due_on": "2026-02-18",
"recurrence": null}. due_on is the first day on or after said_at, null when there is nothing to remind of; recurrence is
null, "YEARLY", "MONTHLY" or "WEEKLY". A found reminder of another day or recurrence counts against both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from rich.console import Console

from memsvc.domain.memory import Recurrence
from memsvc.domain.reminders import next_day
from memsvc.text.reminder_extraction import reminder_in

NOON = time(12)


@dataclass(slots=True)
class Tally:
    """Counts of one language.

    Attributes:
        expected: The number of sentences with something to find; likewise *found*; *right*: found as expected.
        wrong: A line for each sentence with another result than expected.
    """

    sentences: int = 0
    expected: int = 0
    found: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Return the share of what was found that is right; 1 of nothing."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Return the share of what is expected that was found; 1 of nothing."""
        return self.right / self.expected if self.expected else 1.0


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def found_reminder(text: str, said_on: date) -> tuple[str, str | None] | None:
    """Return the first day on or after *said_on* of the reminder in *text*, and its recurrence; None: no reminder."""
    reminder = reminder_in(text, datetime.combine(said_on, NOON, UTC))
    if reminder is None:
        return None
    day = next_day(reminder, said_on)
    recurrence = None if reminder.recurrence is Recurrence.NONE else reminder.recurrence.value
    return ("" if day is None else day.isoformat()), recurrence


def measure_reminders(lines: Sequence[dict[str, Any]]) -> dict[str, Tally]:
    """Return the counts of labelled sentences by language."""
    tallies: dict[str, Tally] = {}
    for line in lines:
        tally = tallies.setdefault(line["language"], Tally())
        expected = None if line["due_on"] is None else (line["due_on"], line["recurrence"])
        found = found_reminder(line["text"], date.fromisoformat(line["said_at"]))
        tally.sentences += 1
        tally.expected += expected is not None
        tally.found += found is not None
        tally.right += expected is not None and found == expected
        if found != expected:
            tally.wrong.append(f"{line['said_at']} {line['text']}: {found}, not {expected}")
    return tallies


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--verbose", action="store_true", help="list the sentences with a wrong result")
    options = parser.parse_args()
    console = Console(width=200, soft_wrap=True)
    console.print("| file | language | sentences | precision | recall |\n|---|---|---|---|---|")
    for path in options.files:
        tallies = measure_reminders(read_lines(path))
        for language, tally in sorted(tallies.items()):
            counts = f"{tally.right}/{tally.found}", f"{tally.right}/{tally.expected}"
            row = f"{tally.precision:.3f} ({counts[0]}) | {tally.recall:.3f} ({counts[1]})"
            console.print(f"| {path.stem} | {language} | {tally.sentences} | {row} |")
            if options.verbose:
                console.print("\n".join(f"  {line}" for line in tally.wrong))


if __name__ == "__main__":
    main()
