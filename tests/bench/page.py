"""`python -m tests.bench.page [RESULTS.json ...]`: make the tables of docs/benchmarks.md and README.md from results.

The numbers are in data/measurements.json, to which the results of the named files are added. With `--check` nothing is
written, and the exit code is 1 if a page is not what the numbers give.

The file has two kinds of tables. A list has one measurement in each row: the worse one of its last two runs, beside a
target. A matrix has the rows of one part of the benchmark with all their measures, each row of its last run.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.bench.results import MATRICES, in_matrix
from tests.bench.server import ROOT

MEASUREMENTS = Path(__file__).parent / "data" / "measurements.json"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
RUNS = 2
_TABLE = re.compile(r"(<!-- table: ([^\n]+) -->\n).*?(<!-- /table -->)", re.DOTALL)
_README_ROW = re.compile(r"^\| ([^|\n]+) \| [^|\n]+ \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of the page.

    Attributes:
        measurement: Its name on the page.
        part: The part of the benchmark that measures it.
        runs: The last values by the moment or day of their runs, in the unit of the page; without one it is not shown.
        row: Part, name (a pattern) and unit of the rows of results that hold it, of which the worst counts; empty for a
            number that is entered by hand.
        quantity: What is taken of the row: "value", "p95", "ratio" (to the floor) or "excess" (over the floor).
        unit: The unit on the page.
        scale: The factor from the unit of the row to that of the page.
        target: The bound, in the unit of the page.
        more_is_better: Whether the target is a lower bound, and the worse of two runs the smaller one.
        decimals: The number of decimal places; None rounds to two digits, or three from 100 on.
    """

    measurement: str
    part: str
    runs: Mapping[str, float]
    row: tuple[str, ...] = ()
    quantity: str = "value"
    unit: str = ""
    scale: float = 1.0
    target: float | None = None
    more_is_better: bool = False
    decimals: int | None = None

    def worst(self, values: Sequence[float]) -> float:
        """Return the worst of some values."""
        return min(values) if self.more_is_better else max(values)

    def with_results(self, started: str, rows: Sequence[Mapping[str, Any]]) -> Measurement:
        """Return the measurement with the run added, if its rows are there; only the last runs are kept."""
        found = [value for one in rows if (value := self._value_of(one)) is not None]
        if not found:
            return self
        runs = {**self.runs, started: self.worst(found)}
        kept = {moment: runs[moment] for moment in sorted(runs)[-RUNS:]}
        return Measurement(**{**_flat(self), "runs": kept})

    def _value_of(self, row: Mapping[str, Any]) -> float | None:
        if not self.row:
            return None
        part, name, unit = self.row
        if row["part"] != part or row["unit"] != unit or not fnmatchcase(row["name"], name):
            return None
        value: float = {
            "value": lambda: row["value"],
            "p95": lambda: row["sample"]["p95"],
            "ratio": lambda: row["ratio"],
            "excess": lambda: row["value"] - row["floor"],
        }[self.quantity]()
        return round(value * self.scale, 6)

    def cells(self) -> list[str]:
        """Return the row of the page."""
        value = self.worst(list(self.runs.values()))
        day = max(moment for moment, one in self.runs.items() if one == value)[:10]
        result = f"{number(value, self.decimals)} {self.unit}".strip()
        return [self.measurement, result, self._target(value), day, f"`{self.part}`"]

    def _target(self, value: float) -> str:
        if self.target is None:
            return ""
        is_met = value >= self.target if self.more_is_better else value <= self.target
        bound = f"{self.target:,g}".replace(",", " ")
        return f"{bound} {self.unit}".strip() + ("" if is_met else " (missed)")


@dataclass(slots=True)
class Measurements:
    """The content of the file: lists and matrices by their names, and names of data sets by those of their files."""

    lists: dict[str, list[Measurement]] = field(default_factory=dict)
    matrices: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Measurements:
        """Return the numbers of a file."""
        content = json.loads(text)
        lists = {
            name: [Measurement(**{**one, "row": tuple(one.get("row", ()))}) for one in several]
            for name, several in content["lists"].items()
        }
        return cls(lists, content["matrices"], content["sets"])

    def text(self) -> str:
        """Return the file, with a line for each row of a table."""
        lists = {name: [_lean(one) for one in several] for name, several in self.lists.items()}
        return (
            f'{{\n"lists": {_lines(lists)},\n"matrices": {_lines(self.matrices)},\n'
            f'"sets": {json.dumps(self.sets, ensure_ascii=False)}\n}}\n'
        )

    def add(self, results: Mapping[str, Any], parts: Sequence[str] = ()) -> None:
        """Add the results of a run with the default settings, or only those of *parts* of its tables.

        Raises:
            ValueError: The run was a quick one, or its servers had other settings.
        """
        settings = results["settings"]
        if settings["quick"] or settings["server"]:
            message = "Only a run without --quick and --set can be added to the page."
            raise ValueError(message)
        rows = [row for row in results["rows"] if not parts or row["part"] in parts]
        for name, several in self.lists.items():
            self.lists[name] = [one.with_results(results["started"], rows) for one in several]
        fresh: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            if row["part"] in MATRICES:
                matrix = fresh.setdefault(row["part"], {})
                found = matrix.setdefault(row["name"], {"date": results["started"][:10], "values": {}})
                found["values"][row["unit"]] = round(row["value"], 6)
        for part, matrix in fresh.items():
            self.matrices[part] = matrix | {
                name: row for name, row in self.matrices.get(part, {}).items() if name not in matrix
            }

    def page(self, text: str) -> str:
        """Return the page with its tables.

        Raises:
            ValueError: A table of the page is not in the file.
        """
        return _TABLE.sub(lambda found: f"{found[1]}\n{self._table(found[2])}\n\n{found[3]}", text)

    def readme(self, text: str) -> str:
        """Return the text with the present results in those rows of two cells that name a measurement.

        Of measurements with the same name in two lists that of the first is taken.
        """
        results: dict[str, str] = {}
        for one in (one for several in self.lists.values() for one in several if one.runs):
            results.setdefault(one.measurement, one.cells()[1])
        return _README_ROW.sub(
            lambda found: f"| {found[1]} | {results[found[1]]} |" if found[1] in results else found[0], text
        )

    def _table(self, name: str) -> str:
        if name in self.lists:
            header = ["measurement", "result", "target", "date", "part"]
            return _markdown(header, [one.cells() for one in self.lists[name] if one.runs])
        if name not in self.matrices:
            message = f"There are no numbers of the table {name!r}; add results of this part."
            raise ValueError(message)
        rows = self.matrices[name]
        units = list(dict.fromkeys(unit for row in rows.values() for unit in row["values"]))
        return _markdown(
            ["", *units, "date"],
            [
                [
                    self._named(label),
                    *(in_matrix(row["values"][unit], unit) if unit in row["values"] else "" for unit in units),
                    row["date"],
                ]
                for label, row in rows.items()
            ],
        )

    def _named(self, label: str) -> str:
        for file, name in self.sets.items():
            label = re.sub(rf"(?<![\w-]){re.escape(file)}(?![\w-])", name, label)
        return label


def number(value: float, decimals: int | None = None) -> str:
    """Return a number with so many decimal places; without, with two digits, or three from 100 on, and no last zeros."""
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if not value:
        return "0"
    places = (3 if abs(value) >= 100 else 2) - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):,.{max(places, 0)}f}".replace(",", " ")
    return text.rstrip("0").rstrip(".") if places > 0 else text


def _flat(measurement: Measurement) -> dict[str, Any]:
    return {one.name: getattr(measurement, one.name) for one in fields(measurement)}


def _lean(measurement: Measurement) -> dict[str, Any]:
    """Return the attributes that are not the defaults."""
    defaults = {one.name: one.default for one in fields(measurement)}
    return {name: value for name, value in asdict(measurement).items() if value != defaults[name]}


def _lines(tables: Mapping[str, Sequence[Any] | Mapping[str, Any]]) -> str:
    written = []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            rows = [f"{json.dumps(key, ensure_ascii=False)}: {_dumped(row)}" for key, row in table.items()]
            opening, closing = "{}"
        else:
            rows = [_dumped(row) for row in table]
            opening, closing = "[]"
        written.append(f"{json.dumps(name)}: {opening}\n" + ",\n".join(rows) + f"\n{closing}")
    return "{\n" + ",\n".join(written) + "\n}"


def _dumped(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(re.sub(r" +", " ", f"| {' | '.join(cells)} |") for cells in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Add results and write the pages; with --check return 1 if a page is stale, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.page", description=__doc__)
    parser.add_argument("results", type=Path, nargs="*", help="files of `python -m tests.bench`, the oldest first")
    parser.add_argument("--only", nargs="+", default=[], help="titles of tables whose results are added (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    given = parser.parse_args(arguments)
    measurements = Measurements.read(MEASUREMENTS.read_text(encoding="utf-8"))
    for path in given.results:
        measurements.add(json.loads(path.read_text(encoding="utf-8")), given.only)
    fresh = {
        MEASUREMENTS: measurements.text(),
        PAGE: measurements.page(PAGE.read_text(encoding="utf-8")),
        README: measurements.readme(README.read_text(encoding="utf-8")),
    }
    stale = [path for path, text in fresh.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stdout.write(f"{'stale' if given.check else 'written'}: {path.relative_to(ROOT)}\n")
        if not given.check:
            path.write_text(fresh[path], encoding="utf-8")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
