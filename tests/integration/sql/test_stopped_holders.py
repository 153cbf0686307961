"""Processes that are stopped or cut off while they hold something in the database: others get it after a bounded time."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError, MoveRefusedError
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import MoveTarget
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.postgres_common import watchdog
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings, postgres
from tests.integration.sql.migration_support import dump, move, opened
from tests.support.holder_process import holding
from tests.support.postgres_proxy import proxy_to_server, url_through
from tests.support.postgres_server import emptied, schema, without_tables
from tests.support.until import until

IDLE_SECONDS, BEAT_SECONDS = 2, 0.3
HOLDER = """
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc.testing.store_harness import OWNER
from memsvc_backends.postgres_common import watchdog
from memsvc_backends.sql import SQL, SqlSettings, migrate, postgres
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import execute

postgres.LONGEST_IDLE_SECONDS, watchdog.HEARTBEAT_SECONDS = int(sys.argv[2]), float(sys.argv[3])
settings = SqlSettings(url=SecretStr(sys.argv[1]))


def opened():
    return SQL.open(settings, BackendContext(Path(), lambda: datetime.now(UTC)))


def hold(*_):
    print("holding", flush=True)
    sys.stdin.readline()


try:
    exec(sys.argv[4])
except BackendUnavailableError:
    print("lost", flush=True)
else:
    print("kept", flush=True)
"""
CLAIM = """
with opened() as store, store.feed.claim((), limit=9) as changes:
    assert changes
    hold()
    store.feed.require_claim()
"""
PAUSE = """
with opened() as store, store.feed.pause():
    hold()
    store.feed.require_claim()
"""
EXPORT = """
with opened() as store, store.users.snapshot(OWNER) as snapshot:
    assert next(snapshot.memories())
    hold()
    assert next(snapshot.memories())
"""
MARK = """
with Database(postgres.PostgresDriver(sys.argv[1], settings), settings).note_transaction() as connection:
    execute(connection, "UPDATE outbox SET applied = 1")
    hold()
"""
MIGRATION = """
migrate._create = hold
with opened():
    pass
"""
MOVE = """
from memsvc.ports.operations import MoveTarget

with opened() as source:
    steps = source.moves.run(MoveTarget({target!r}), settle=lambda: None)
    next(steps)
    hold()
    list(steps)
"""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limit of silence."""
    monkeypatch.setattr(postgres, "LONGEST_IDLE_SECONDS", IDLE_SECONDS)
    monkeypatch.setattr(watchdog, "HEARTBEAT_SECONDS", BEAT_SECONDS)


def _holding(url: str, code: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run a process that holds something by *code*."""
    return holding(HOLDER, url, str(IDLE_SECONDS), str(BEAT_SECONDS), code)


def _result(process: subprocess.Popen[str]) -> str:
    return process.communicate("\n")[0].strip()


def _can_claim(store: MetadataStore, url: str) -> bool:
    with store.feed.claim((), limit=9) as changes:
        return bool(changes)


def _can_mark(store: MetadataStore, url: str) -> bool:
    with suppress(BackendUnavailableError), store.feed.claim((), limit=9) as changes:
        store.feed.mark_applied(changes)
        return bool(changes)
    return False


def _can_change_tables(store: MetadataStore, url: str) -> bool:
    with psycopg.connect(url) as connection, suppress(psycopg.errors.LockNotAvailable):
        connection.execute("SET lock_timeout = 100")
        connection.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
        return True
    return False


HELD = {
    "claim": (CLAIM, _can_claim),
    "pause": (PAUSE, _can_claim),
    "export": (EXPORT, _can_change_tables),
    "mark": (MARK, _can_mark),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_a_stopped_process_holds_is_free_after_a_while(kind: str, patience: None, context: BackendContext) -> None:
    """Not before the limit of silence; the process gets an error after it continues."""
    code, is_free = HELD[kind]
    with emptied("stopped") as url, SQL.open(SqlSettings(url=SecretStr(url), wait_seconds=0.5), context) as store:
        insert(store, *(factories.memory(f"{number}") for number in range(2)))
        with _holding(url, code) as process:
            assert not _attempt(lambda: is_free(store, url))
            process.send_signal(signal.SIGSTOP)
            until(lambda: _attempt(lambda: is_free(store, url)))
            process.send_signal(signal.SIGCONT)
            assert _result(process) == "lost"


def _attempt(check: Callable[[], bool]) -> bool:
    """Return the result of a check; False if it waits for a lock for too long."""
    with suppress(BackendUnavailableError):
        return check()
    return False


def _outwait_silence(url: str) -> None:
    """Return when the database has ended a transaction that is silent for the limit of this test."""
    with psycopg.connect(url, autocommit=True) as observer, closing(psycopg.connect(url)) as idle:
        pid = idle.info.backend_pid
        idle.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
        until(lambda: not observer.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())


@pytest.mark.parametrize("code", [CLAIM, PAUSE, EXPORT])
def test_a_process_that_runs_holds_it_longer_than_the_limit(code: str, context: BackendContext) -> None:
    """A model embeds for minutes, and the client of an export reads slowly."""
    with emptied("stopped") as url, SQL.open(SqlSettings(url=SecretStr(url)), context) as store:
        insert(store, *(factories.memory(f"{number}") for number in range(2)))
        with _holding(url, code) as process:
            for _ in range(2):
                _outwait_silence(url)
            assert _result(process) == "kept"


def test_a_process_that_is_cut_off_loses_its_claims(patience: None, context: BackendContext) -> None:
    """Nothing of it arrives any more, not even the end of its connection."""
    with emptied("stopped") as url, proxy_to_server() as address, ExitStack() as stack:
        store = stack.enter_context(SQL.open(SqlSettings(url=SecretStr(url)), context))
        there = SqlSettings(url=SecretStr(url_through(url, address.port)))
        other = stack.enter_context(SQL.open(there, context))
        insert(store, factories.memory("a"))
        with pytest.raises(BackendUnavailableError), other.feed.claim((), limit=9) as claimed:
            assert len(claimed) == 1
            assert not _can_claim(store, url)
            address.strand()
            until(lambda: _can_claim(store, url))
            other.feed.require_claim()


def _can_move(store: SqlMetadataStore, target: str) -> bool:
    with suppress(MoveRefusedError):
        move(store, target)
        return True
    return False


def test_a_stopped_move_is_taken_over_by_the_next_run(patience: None, tmp_path: Path) -> None:
    """Not while it runs; it gets an error after it continues, and changes nothing that was moved and used since."""
    with schema() as url, schema() as target, opened(tmp_path, url) as store:
        insert(store, *(factories.memory(f"{number}") for number in range(9)))
        with _holding(url, MOVE.format(target=target)) as process:
            assert not _can_move(store, target)
            process.send_signal(signal.SIGSTOP)
            until(lambda: _can_move(store, target))
            with opened(tmp_path, target) as there:
                insert(there, factories.memory("later"))
                expected = dump(there)
                process.send_signal(signal.SIGCONT)
                assert _result(process) == "lost"
                there.moves.require_here()
                assert dump(there) == expected


def test_a_move_that_runs_longer_than_the_limit_keeps_its_lock(tmp_path: Path) -> None:
    """A page of a large table takes minutes."""
    with schema() as url, schema() as target, opened(tmp_path, url) as store:
        insert(store, factories.memory("a"))
        with _holding(url, MOVE.format(target=target)) as process:
            for _ in range(2):
                _outwait_silence(url)
            assert not _can_move(store, target)
            assert _result(process) == "kept"


def test_a_move_that_is_cut_off_is_taken_over(patience: None, tmp_path: Path) -> None:
    """Nothing of it arrives any more."""
    with schema() as url, schema() as target, proxy_to_server() as address, opened(tmp_path, url) as store:
        insert(store, factories.memory("a"))
        steps = store.moves.run(MoveTarget(url_through(target, address.port)), settle=lambda: None)
        next(steps)
        assert not _can_move(store, target)
        address.strand()
        until(lambda: _can_move(store, target))
        with pytest.raises(BackendUnavailableError):
            list(steps)


def test_a_process_that_is_stopped_while_it_makes_the_tables_keeps_no_other_from_starting(
    patience: None, context: BackendContext
) -> None:
    """The other one makes them; the first finds them."""
    url = without_tables("stopped_making")
    with _holding(url, MIGRATION) as process:
        process.send_signal(signal.SIGSTOP)
        with SQL.open(SqlSettings(url=SecretStr(url)), context) as store:
            insert(store, factories.memory("a"))
        process.send_signal(signal.SIGCONT)
        assert _result(process) == "lost"
