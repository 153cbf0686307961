"""The course of a campaign: load, a fault, its end, the recovery, the check; again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from rich.table import Table

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.campaign.environment import Environment, running
from tests.campaign.faults import FAULTS, Fault, available, rest
from tests.campaign.invariants import Invariants
from tests.campaign.load import Figures, Ledger, Searcher, User, Watcher, Worker
from tests.support import postgres_server
from tests.support.rpc import HYBRID, search
from tests.support.server_process import Stubs
from tests.support.until import until

USERS, SEARCHERS = 4, 3
QUIET_SECONDS = 1.0
"""Load before each fault."""
RECOVERY_SECONDS = 90.0
PROBE = types_pb.Scope(user_id="probe")


@dataclass(frozen=True)
class Plan:
    """Plan of a campaign.

    Attributes:
        faults: Their number.
        seed: Of the order and the duration of the faults, and of the load.
        minutes: No fault begins later; 0: no limit.
        names: The kinds of faults; empty: all that can be had.
        is_postgres: Whether the store is PostgreSQL.
    """

    faults: int
    seed: int
    minutes: float = 0.0
    names: Sequence[str] = ()
    is_postgres: bool = False


@dataclass
class Result:
    """Outcome of a campaign."""

    ledger: Ledger
    faults: int = 0
    seconds: float = 0.0
    acknowledged: int = 0
    rebuilds: int = 0
    failed_starts: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """A campaign under way."""

    plan: Plan
    environment: Environment
    ledger: Ledger

    def __post_init__(self) -> None:
        """Make the load."""
        seed = self.plan.seed * 1000
        ledger, environment = self.ledger, self.environment
        self.users = [User(environment, ledger, seed + number, f"u{number}") for number in range(USERS)]
        self.watchers = [Watcher(environment, ledger, seed + 100 + n, user) for n, user in enumerate(self.users)]
        searchers = [Searcher(environment, ledger, seed + 200 + n, self.users) for n in range(SEARCHERS)]
        self.workers: list[Worker] = [*self.users, *self.watchers, *searchers]

    def run(self, progress: Callable[[str], None]) -> Result:
        """Run all faults; *progress* is called before each, with its name."""
        chance = random.Random(self.plan.seed)
        chosen = [one for one in available(self.environment) if not self.plan.names or one.name in self.plan.names]
        result = Result(self.ledger, skipped=[one.name for one in FAULTS if one not in available(self.environment)])
        invariants = Invariants(self.ledger, self.users, self.watchers, self.plan.seed)
        started = time.monotonic()
        for worker in self.workers:
            worker.start()
        try:
            order: list[Fault] = []
            for _ in range(self.plan.faults):
                if self.plan.minutes and time.monotonic() - started > self.plan.minutes * 60:
                    break
                # Every kind as often as the others, in random order.
                order = order or chance.sample(chosen, len(chosen))
                fault = order.pop()
                progress(fault.name)
                self._disturb(fault, chance, invariants)
                result.faults += 1
        finally:
            for worker in self.workers:
                worker.stop()
        result.seconds = time.monotonic() - started
        result.rebuilds = invariants.rebuilds
        result.failed_starts = self.environment.failed_starts
        result.acknowledged = sum(len(user.entries) + len(user.said) for user in self.users)
        return result

    def _revive(self) -> None:
        """Report a server that ended by itself, and start it again."""
        if (code := self.environment.server.ended()) is not None:
            self.ledger.violate(f"the server ended by itself, with the code {code}")
            self.environment.restart()

    def _disturb(self, fault: Fault, chance: random.Random, invariants: Invariants) -> None:
        self._revive()
        for worker in self.workers:
            worker.resume()
        rest(QUIET_SECONDS)
        self.ledger.fault = fault.name
        with self.ledger.noted() as figures:
            figures.faults += 1
        ended = time.monotonic()
        try:
            with fault.begin(self.environment, chance):
                ended = time.monotonic()
        except (AssertionError, RuntimeError) as error:
            self.ledger.violate(f"the fault could not be made or ended: {error}")
        with self.environment.stubs() as stubs:
            self._recover(stubs, fault, ended)
            self.ledger.fault = "none"
            for worker in self.workers:
                worker.pause()
            for worker in self.workers:
                worker.wait_paused()
            self.ledger.fault = f"after {fault.name}"
            try:
                invariants.check(stubs, damages=fault.damages)
            except grpc.RpcError as error:
                self.ledger.violate(f"a check failed: {error.details()}")
            self.ledger.fault = "none"

    def _recover(self, stubs: Stubs, fault: Fault, ended: float) -> None:
        """Wait until a write is acknowledged and a search is whole again."""

        def is_back() -> bool:
            self._revive()
            with suppress(grpc.RpcError):
                request = memory_pb.CreateMemoryRequest(
                    scope=PROBE,
                    memory=types_pb.Memory(content=f"Probe of probe after {time.time_ns()}."),
                    wait_for=types_pb.WAIT_FOR_STORED,
                )
                stubs.memory.CreateMemory(request, timeout=5)
                return not search(stubs, PROBE, f"probe {time.time_ns()}", mode=HYBRID).degraded
            return False

        try:
            until(is_back, seconds=RECOVERY_SECONDS)
        except AssertionError:
            self.ledger.violate(f"no recovery within {RECOVERY_SECONDS} s of {fault.name}")
        with self.ledger.noted() as figures:
            figures.recoveries.append(time.monotonic() - ended)


def run(
    plan: Plan,
    folder: Path,
    progress: Callable[[str], None] = lambda _name: None,
    report: Callable[[str], None] = lambda _text: None,
) -> Result:
    """Run a campaign in *folder*, which exists and is empty; *report* is called with each violation."""
    store = postgres_server.schema() if plan.is_postgres else nullcontext("")
    with store as address, running(folder, postgres=address) as environment:
        return Campaign(plan, environment, Ledger(report)).run(progress)


def table_of(result: Result) -> Table:
    """Return the figures by kind of fault."""
    table = Table(title=f"{result.faults} faults in {result.seconds / 60:.1f} minutes")
    for name in ("fault", "number", "searches", "degraded", "refused", "slowest s", "writes", "repeated", "notices"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for name in ("recovery s", "longest s"):
        table.add_column(name, justify="right")
    for name, figures in sorted(result.ledger.figures.items(), key=lambda item: item[0]):
        table.add_row(name, *_cells(figures))
    return table


def _cells(figures: Figures) -> list[str]:
    recoveries = sorted(figures.recoveries)
    middle = f"{recoveries[len(recoveries) // 2]:.1f}" if recoveries else ""
    longest = f"{recoveries[-1]:.1f}" if recoveries else ""
    counts = (figures.faults, figures.searches, figures.degraded, sum(figures.refused.values()))
    writes = (figures.writes, figures.repeated, figures.notices)
    return [*map(str, counts), f"{figures.slowest:.1f}", *map(str, writes), middle, longest]
