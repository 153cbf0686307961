"""`python -m tests.bench`: measure, print a table, keep JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.bench.quality import RANKINGS
from tests.bench.results import Report, machine
from tests.bench.run import ORDER, run
from tests.bench.settings import ASKED_FOR, PARTS, RANKING, Plan, parse_ablations


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 when every target was reached, else 1."""
    given = _parser().parse_args(arguments)
    plan = _plan(given)
    console = Console(width=None if sys.stdout.isatty() else 180)
    report = Report(_described(plan))
    load = machine()["load_average"]
    asyncio.run(run(plan, report, console))
    report.notes.append(f"Load average of the machine: {machine()['load_average']}, at the start {load}.")
    report.rows.sort(key=lambda row: ORDER.index(row.part))
    report.print(console)
    written = report.write(given.json or Path("bench-results") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json")
    console.print("Written: " + ", ".join(map(str, written)))
    for row in report.missed():
        console.print(f"[red]missed[/red] {row.name}: {row.value:.3f} {row.unit}")
    return 1 if report.missed() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only",
        type=_listed,
        default=list(PARTS),
        help=f"parts, by commas: {','.join(PARTS)}; when named, {','.join(ASKED_FOR)}",
    )
    parser.add_argument("--memories", type=_listed, help="sizes, by commas (default: 10000,100000)")
    parser.add_argument("--data", type=Path, nargs="+", default=[], help="files with conversations, for the quality")
    parser.add_argument("--sample", type=int, default=0, help="conversations of each file; all by default")
    parser.add_argument("--rankings", type=_listed, default=["default"], help=f"by commas: {','.join(RANKINGS)}")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="a setting of the servers")
    parser.add_argument(
        "--ablate",
        action="append",
        default=[],
        metavar="NAME=PATH=VALUE",
        help="repeat the quality with a setting and show the change; the same NAME again adds a setting to the "
        f"ablation, and PATH may be {RANKING}",
    )
    parser.add_argument("--json", type=Path, help="where to write the results (default: bench-results/TIME.json)")
    parser.add_argument("--beside", type=Path, help="another checkout to compare the rates of calls with")
    parser.add_argument("--quick", action="store_true", help="an overview in four minutes, with few memories")
    return parser


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _plan(given: argparse.Namespace) -> Plan:
    ablations = parse_ablations(given.ablate)
    rankings = {*given.rankings, *(one[RANKING] for one in ablations.values() if RANKING in one)}
    unknown = {*given.only} - {*PARTS, *ASKED_FOR} | rankings - {*RANKINGS}
    if unknown:
        raise SystemExit(f"Unknown: {', '.join(sorted(unknown))}.")
    sizes = given.memories or (["4000"] if given.quick else ["10000", "100000"])
    return Plan(
        parts=frozenset(given.only),
        sizes=tuple(sorted(int(size.replace("_", "")) for size in sizes)),
        data=tuple(path.resolve(strict=True) for path in given.data),
        sample=given.sample,
        rankings=tuple(given.rankings),
        server=dict(pair.partition("=")[::2] for pair in given.set),
        ablations=ablations,
        searches=100 if given.quick else 500,
        embedded=384 if given.quick else 1_280,
        is_quick=given.quick,
        beside=given.beside and given.beside.resolve(strict=True),
    )


def _described(plan: Plan) -> dict[str, object]:
    return {
        "parts": sorted(plan.parts),
        "memories": list(plan.sizes),
        "data": [path.name for path in plan.data],
        "sample": plan.sample,
        "rankings": list(plan.rankings),
        "server": dict(plan.server),
        "ablations": {name: dict(settings) for name, settings in plan.ablations.items()},
        "searches": plan.searches,
        "quick": plan.is_quick,
    }


if __name__ == "__main__":
    sys.exit(main())
