"""Two processes on one store: one of them does upkeep, and the other one when that is dead."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from memsvc.domain.errors import MaintenanceRunningError
from memsvc.engine.runtime.leader_lease import TERM, LeaderElection
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import Clock
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied

LEADER = """
import json
import sys
from datetime import datetime
from pathlib import Path

from memsvc_backends.sql import SQL, SqlSettings
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.ports.plugin import BackendContext

now = datetime.fromisoformat(sys.argv[2])
settings = SqlSettings.model_validate(json.loads(sys.argv[3]))
with SQL.open(settings, BackendContext(Path(sys.argv[1]), lambda: now)) as store:
    with LeaderElection(store.leases, lambda: now, lambda: "the other process").lead():
        print("leading", flush=True)
        sys.stdin.read()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def options(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Give the options of an empty store, in each sort of database."""
    if request.param == "sqlite":
        yield {}
        return
    with emptied("leadership") as url:
        yield {"url": url}


def _leader(context: BackendContext, options: dict[str, str]) -> list[str]:
    return [sys.executable, "-c", LEADER, str(context.directory), NOW.isoformat(), json.dumps(options)]


def _let_pass(time: timedelta, clock: Clock, options: dict[str, str]) -> None:
    """Let a time pass for leases: PostgreSQL decides by its own clock, so that the leases are made older there."""
    clock.moment += time
    if url := options.get("url"):
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE leases SET until = until - %s", (time // timedelta(microseconds=1),))


def test_a_dead_process_is_succeeded_when_its_term_is_over(context: BackendContext, options: dict[str, str]) -> None:
    """Not before, so that one that is only slow is never joined; after it at once."""
    clock = Clock()
    with SQL.open(SqlSettings.model_validate(options), replace(context, now=clock)) as store:
        leading = LeaderElection(store.leases, clock, lambda: "this process")
        leader = _leader(context, options)
        with subprocess.Popen(leader, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "leading\n"
            with pytest.raises(MaintenanceRunningError), leading.lead():
                pass
            other.kill()
            other.wait()

        _let_pass(TERM / 2, clock, options)
        with pytest.raises(MaintenanceRunningError), leading.lead():
            pass
        _let_pass(TERM / 2, clock, options)
        with leading.lead() as leadership:
            leadership.require()
            leadership.is_finished = True
        ended = leading.last_end()
        assert ended is not None
        assert clock.moment - TERM < ended <= clock.moment


def test_a_process_that_ends_well_is_succeeded_at_once(context: BackendContext) -> None:
    """It lets the lease go."""
    with SQL.open(SqlSettings(), context) as store:
        subprocess.run(_leader(context, {}), stdin=subprocess.DEVNULL, capture_output=True, check=True)

        with LeaderElection(store.leases, Clock(), lambda: "this process").lead() as leadership:
            leadership.require()
