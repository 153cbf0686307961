"""`python -m tests.campaign`: disturb a server under load, check it after each fault, print figures."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.campaign.faults import FAULTS
from tests.campaign.run import Plan, Result, run, table_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; return 0 if every invariant held, else 1."""
    given = _parser().parse_args(arguments)
    plan = Plan(given.faults, given.seed, given.minutes, given.only, given.store == "postgres")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"seed {plan.seed}, store {given.store}")
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="memsvc-campaign-") as name,
        Progress(*columns, console=console, redirect_stdout=False) as bar,
    ):
        task = bar.add_task("start", total=plan.faults)

        def progress(fault: str) -> None:
            if console.is_terminal:
                bar.update(task, description=fault, advance=1)
            else:
                bar.advance(task)
                done = int(bar.tasks[0].completed)
                console.print(f"{done:>4} / {plan.faults}  {fault}")

        result = run(plan, Path(name), progress, lambda text: console.print(text, style="red", markup=False))
        if given.log is not None:
            shutil.copyfile(Path(name, "server.log"), given.log)
    _print(console, result)
    return 1 if result.ledger.violations else 0


def _print(console: Console, result: Result) -> None:
    console.print(table_of(result))
    console.print(
        f"{result.acknowledged} memories and messages acknowledged, {result.rebuilds} rebuilds asked for, "
        f"{len(result.ledger.violations)} violations."
    )
    if result.failed_starts:
        console.print(f"Starts repeated: {'; '.join(result.failed_starts)}", markup=False)
    if result.skipped:
        console.print(f"Not possible here: {', '.join(result.skipped)}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--faults", type=int, default=50, help="number of faults (default: 50)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a choice of faults")
    parser.add_argument("--minutes", type=float, default=0.0, help="no fault begins later (default: no limit)")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite", help="the metadata store")
    parser.add_argument("--log", type=Path, help="where to keep the log of the server")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=(),
        help=f"kinds of faults, by commas: {', '.join(fault.name for fault in FAULTS)}",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
