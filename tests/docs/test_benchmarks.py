"""The tables of docs/benchmarks.md and README.md are made from tests/bench/data/measurements.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench.page import MEASUREMENTS, PAGE, README, Measurements, main, number
from tests.bench.settings import ASKED_FOR, PARTS

STORED = {
    "lists": {
        "latency": [
            {
                "measurement": "get by id, p50",
                "part": "latency",
                "runs": {"2026-11-20": 1.1, "2026-11-21": 0.9},
                "row": ["Latency", "100 000: Get*", "ms"],
                "unit": "ms",
                "target": 1.0,
            },
            {
                "measurement": "a saved file is found, p95",
                "part": "editing",
                "runs": {"2026-11-20": 1.2},
                "row": ["Editing", "save, * files", "ms"],
                "quantity": "p95",
                "unit": "s",
                "scale": 0.001,
            },
        ],
        "throughput": [
            {
                "measurement": "import",
                "part": "ingest",
                "runs": {"2026-11-20": 2812.0},
                "row": ["Import", "until stored", "1/s"],
                "unit": "1/s",
                "target": 2500,
                "more_is_better": True,
            },
            {"measurement": "by hand", "part": "start", "runs": {"2026-11-20": 0.75}, "decimals": 3},
        ],
    },
    "matrices": {"Quality": {"some-dev, all": {"date": "2026-11-20", "values": {"questions": 1200, "R@5": 0.5}}}},
    "sets": {"some-dev": "Some"},
}
TABLES = """\
# Page

<!-- table: latency -->

| measurement | result | target | date | part |
| --- | --- | --- | --- | --- |
| get by id, p50 | 1.1 ms | 1 ms (missed) | 2026-11-20 | `latency` |
| a saved file is found, p95 | 1.2 s | | 2026-11-20 | `editing` |

<!-- /table -->

Prose stays.

<!-- table: throughput -->

| measurement | result | target | date | part |
| --- | --- | --- | --- | --- |
| import | 2 810 1/s | 2 500 1/s | 2026-11-20 | `ingest` |
| by hand | 0.750 | | 2026-11-20 | `start` |

<!-- /table -->
<!-- table: Quality -->

| | questions | R@5 | date |
| --- | --- | --- | --- |
| Some, all | 1 200 | 0.500 | 2026-11-20 |

<!-- /table -->
"""


def stored() -> Measurements:
    """Return the numbers of the example."""
    return Measurements.read(json.dumps(STORED))


def results(started: str, rows: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """Return the content of a file of results."""
    return {"started": started, "settings": {"quick": False, "server": {}, **settings}, "rows": rows}


def row(part: str, name: str, value: float, unit: str, p95: float = 0.0) -> dict[str, Any]:
    """Return a row of results."""
    return {"part": part, "name": name, "value": value, "unit": unit, "sample": {"p95": p95}, "floor": 1, "ratio": 2}


def test_pages_are_what_the_numbers_give(capsys: pytest.CaptureFixture[str]) -> None:
    """Every table of the page and every row of the README; `python -m tests.bench.page` writes them."""
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_every_table_is_on_the_page_and_of_a_part() -> None:
    """No number is kept for nothing."""
    measurements = Measurements.read(MEASUREMENTS.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    parts = {one.part for several in measurements.lists.values() for one in several}

    assert [
        name for name in (*measurements.lists, *measurements.matrices) if f"<!-- table: {name} -->" not in page
    ] == []
    assert parts <= {*PARTS, *ASKED_FOR}
    assert "<!-- table:" not in README.read_text(encoding="utf-8")


def test_tables_are_rendered_between_their_markers() -> None:
    """The worse of two runs, units, missed targets and dates; a second rendering changes nothing."""
    empty = TABLES.splitlines(keepends=True)
    without = "".join(line for line in empty if not line.startswith("|"))

    assert stored().page(without) == TABLES
    assert stored().page(TABLES) == TABLES


def test_unknown_tables_of_the_page_fail() -> None:
    """A marker without numbers is a mistake."""
    with pytest.raises(ValueError, match="no numbers of the table 'nothing'"):
        stored().page("<!-- table: nothing -->\n<!-- /table -->\n")


def test_rows_of_the_readme_are_those_of_the_page() -> None:
    """A row that names a measurement has its result; others stay."""
    text = "| measurement | result |\n| --- | --- |\n| import | 1 |\n| other | 2 |\n"

    assert stored().readme(text) == text.replace("| import | 1 |", "| import | 2 810 1/s |")


def test_results_replace_the_older_of_two_runs() -> None:
    """Rows are found by part, pattern and unit; of several that match the worst counts, in the unit of the page."""
    measurements = stored()

    measurements.add(
        results(
            "2026-11-22T10:00:00+00:00",
            [
                row("Latency", "100 000: GetMemory", 0.7, "ms"),
                row("Latency", "100 000: GetOther", 0.8, "ms"),
                row("Latency", "10 000: GetMemory", 5.0, "ms"),
                row("Other", "100 000: GetMemory", 5.0, "ms"),
                row("Editing", "save, 60 files", 900.0, "ms", p95=1300.0),
            ],
        )
    )

    get, saved = measurements.lists["latency"]
    assert get.runs == {"2026-11-21": 0.9, "2026-11-22T10:00:00+00:00": 0.8}
    assert get.cells() == ["get by id, p50", "0.9 ms", "1 ms", "2026-11-21", "`latency`"]
    assert saved.cells()[1:4] == ["1.3 s", "", "2026-11-22"]


def test_results_replace_rows_of_matrices() -> None:
    """A row is that of the last run; rows that a run does not have stay, below its own."""
    measurements = stored()

    measurements.add(
        results("2026-11-22T10:00:00+00:00", [row("Quality", "other, all", 1.0, "R@5"), row("Start", "x", 1.0, "s")])
    )

    quality = measurements.matrices["Quality"]
    assert set(measurements.matrices) == {"Quality"}
    assert list(quality) == ["other, all", "some-dev, all"]
    assert quality["other, all"] == {"date": "2026-11-22", "values": {"R@5": 1.0}}
    assert quality["some-dev, all"] == stored().matrices["Quality"]["some-dev, all"]


def test_results_of_chosen_parts_are_added() -> None:
    """A run of few data sets may have the newest ablations, but not the newest quality."""
    measurements = stored()
    rows = [row("Ablations", "x: some-dev", 0.1, "Δ R@5"), row("Quality", "some-dev, all", 0.0, "R@5")]

    measurements.add(results("2026-11-22T10:00:00+00:00", rows), ["Ablations"])

    assert list(measurements.matrices["Ablations"]) == ["x: some-dev"]
    assert measurements.matrices["Quality"] == stored().matrices["Quality"]


@pytest.mark.parametrize("settings", [{"quick": True}, {"server": {"ranking.tier": "E"}}])
def test_results_of_other_settings_are_refused(settings: dict[str, Any]) -> None:
    """The page has numbers of complete runs with the defaults."""
    with pytest.raises(ValueError, match="without --quick and --set"):
        stored().add(results("2026-11-22T10:00:00+00:00", [], **settings))


def test_numbers_survive_the_file() -> None:
    """What is written is read again, in lines that can be compared."""
    text = stored().text()

    assert Measurements.read(text) == stored()
    assert Measurements.read(text).text() == text
    assert '"runs": {"2026-11-20": 0.75}' in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.2, "0.2"), (0.054, "0.054"), (3.0, "3"), (3.74, "3.7"), (16.4, "16"), (99.7, "100"), (118.2, "118")],
)
def test_numbers_have_two_or_three_digits(value: float, shown: str) -> None:
    """Three from 100 on."""
    assert number(value) == shown


def test_large_numbers_are_grouped() -> None:
    """By a space."""
    assert [number(12_912), number(2_812.4)] == ["12 900", "2 810"]
