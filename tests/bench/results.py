"""What was measured: rows of a table, kept as JSON too."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

MATRICES = frozenset({"Quality", "Relevance", "Ablations", "Concurrency"})
"""Parts whose rows are shown side by side, by their units."""
QUESTIONS = "questions"
COUNTS = frozenset({QUESTIONS, "right first", "foreign", "refused"})
"""Units of whole numbers in matrices."""
CHANGE = "Δ "
"""The beginning of the unit of a value that is a change: it is shown with its sign."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What many durations come to, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float
    longest: float
    mean: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        """Return the summary of durations in seconds; percentiles lie between neighbours, linearly."""
        if not seconds:
            message = "There is nothing to summarise."
            raise ValueError(message)
        values = np.asarray(seconds) * 1000.0
        p50, p95, p99 = (float(value) for value in np.percentile(values, [50, 95, 99]))
        return cls(len(seconds), p50, p95, p99, float(values.max()), float(values.mean()))


@dataclass(frozen=True, slots=True)
class Target:
    """What must be reached, in words, and whether it was."""

    text: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Attributes:
        value: The number that the targets speak of: the median where there is a sample.
        floor: What cannot be gone below (for a duration) or above (for a rate), measured in the same run.
    """

    part: str
    name: str
    value: float
    unit: str
    sample: Sample | None = None
    floor: float | None = None
    targets: tuple[Target, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return how many times the floor the value is."""
        return self.value / self.floor if self.floor else None

    @property
    def is_met(self) -> bool | None:
        """Return whether every target was reached, or None where there is none."""
        return all(target.is_met for target in self.targets) if self.targets else None


def at_most(value: float, bound: float, text: str) -> Target:
    """Return the target that *value* be no larger than *bound*."""
    return Target(f"≤ {text}", value <= bound)


def at_least(value: float, bound: float, text: str) -> Target:
    """Return the target that *value* be no smaller than *bound*."""
    return Target(f"≥ {text}", value >= bound)


def timed(part: str, name: str, sample: Sample, *, floor: float | None = None, targets: Sequence[Target] = ()) -> Row:
    """Return the row of a sample of durations, whose value is the median."""
    return Row(part, name, sample.p50, "ms", sample, floor, tuple(targets))


@dataclass(slots=True)
class Report:
    """All rows of a run, and what the run was."""

    settings: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def add(self, *rows: Row) -> None:
        """Keep the rows."""
        self.rows.extend(rows)

    def missed(self) -> list[Row]:
        """Return the rows that have a target and did not reach it."""
        return [row for row in self.rows if row.is_met is False]

    def write(self, path: Path) -> list[Path]:
        """Write the JSON file, and beside it one line for each question that was searched; return what was written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if not self.questions:
            return [path]
        beside = path.with_suffix(".questions.jsonl")
        with beside.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(question, ensure_ascii=False) + "\n" for question in self.questions)
        return [path, beside]

    def print(self, console: Console) -> None:
        """Print one table for each part, and the notes."""
        for part in dict.fromkeys(row.part for row in self.rows):
            rows = [row for row in self.rows if row.part == part]
            console.print(_matrix(part, rows) if part in MATRICES else _table(part, rows))
        for note in self.notes:
            console.print(f"[dim]{note}[/dim]")

    def _as_json(self) -> dict[str, Any]:
        return {
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - self.started).total_seconds(), 1),
            "machine": machine(),
            "settings": dict(self.settings),
            "rows": [{**asdict(row), "ratio": row.ratio, "met": row.is_met} for row in self.rows],
            "notes": self.notes,
        }


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_bytes": pages,
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _table(part: str, rows: Sequence[Row]) -> Table:
    table = Table(title=part, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("measurement", overflow="fold")
    for name in ("value", "p95", "p99", "longest", "floor", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("target", overflow="fold")
    table.add_column("met?", no_wrap=True)
    for row in rows:
        sample = row.sample
        spread = [_number(value) for value in (sample.p95, sample.p99, sample.longest)] if sample else ["", "", ""]
        table.add_row(
            row.name,
            f"{_number(row.value)} {row.unit}".strip(),
            *spread,
            "" if row.floor is None else _number(row.floor),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "; ".join(target.text for target in row.targets),
            {True: "[green]yes[/green]", False: "[red]NO[/red]", None: ""}[row.is_met],
        )
    return table


def _matrix(part: str, rows: Sequence[Row]) -> Table:
    """Show rows of the same name side by side, under their units; what has a target says whether it was met."""
    table = Table(title=part, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("measurement", overflow="fold")
    units = list(dict.fromkeys(row.unit for row in rows))
    for unit in units:
        table.add_column(unit, justify="right")
    for name in dict.fromkeys(row.name for row in rows):
        cells = {row.unit: _judged(row) for row in rows if row.name == name}
        table.add_row(name, *(cells.get(unit, "") for unit in units))
    return table


def _judged(row: Row) -> str:
    text = in_matrix(row.value, row.unit)
    if not row.targets:
        return text
    colour, word = ("green", "yes") if row.is_met else ("red", "NO")
    return f"{text} [{colour}]{'; '.join(target.text for target in row.targets)}: {word}[/{colour}]"


def in_matrix(value: float, unit: str) -> str:
    """Return a value as a cell below its unit."""
    if unit in COUNTS:
        return f"{value:,.0f}".replace(",", " ")
    if unit.startswith(CHANGE):
        # Adding zero takes the sign from what rounds to it.
        return f"{round(value, 3) + 0.0:+.3f}"
    return f"{value:.3f}" if abs(value) <= 1 else _number(value)


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 1_000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
