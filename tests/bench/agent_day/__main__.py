"""`python -m tests.bench.agent_day`: tell scripted users to a service in each way of storing, and print a table."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from tests.bench.agent_day.measure import MODES, ModeResult, measure_modes
from tests.bench.agent_day.scenarios import HALVES, read_users


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agent_day", description=__doc__)
    parser.add_argument("--half", choices=HALVES, default=HALVES[0], help="the users to tell (default: dev)")
    parser.add_argument("--modes", default=",".join(MODES), help=f"by commas: {','.join(MODES)}")
    parser.add_argument("--users", default="", help="names of users, by commas; all by default")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="a setting of the server")
    parser.add_argument("--misses", action="store_true", help="list what was missed")
    given = parser.parse_args()
    names = {name for name in given.users.split(",") if name}
    users = [one for one in read_users(given.half) if not names or one.name in names]
    settings = dict(one.split("=", 1) for one in given.set)
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console) as progress:

        def told(name: str, steps: int) -> Callable[[], None]:
            task = progress.add_task(name, total=steps)
            return lambda: progress.advance(task)

        results = asyncio.run(measure_modes(users, given.modes.split(","), settings, told))
    console.print(_contexts(results), _kept(results))
    if given.misses:
        for mode, result in results.items():
            for miss in (*result.kept.misses, *(one for tally in result.by_budget.values() for one in tally.misses)):
                console.print(f"{mode}: {miss}", markup=False, soft_wrap=True)
    return 0


def _contexts(results: dict[str, ModeResult]) -> Table:
    table = Table("mode", "tokens", "right in context", "outdated, unmarked", "current, marked", "tokens per line")
    for mode, result in results.items():
        for budget, one in result.by_budget.items():
            table.add_row(
                mode,
                str(budget),
                _share(one.right, one.questions),
                _share(one.unmarked, one.changed),
                _share(one.current_marked, one.current_lines),
                f"{one.tokens / max(1, one.lines):.1f}",
            )
    return table


def _kept(results: dict[str, ModeResult]) -> Table:
    table = Table("mode", "memories", "filler stored", "reminders right")
    for mode, result in results.items():
        kept = result.kept
        filler = _share(kept.filler, kept.filler_rounds)
        table.add_row(mode, str(kept.memories), filler, _share(kept.reminders_right, kept.reminders))
    return table


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.3f})" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
