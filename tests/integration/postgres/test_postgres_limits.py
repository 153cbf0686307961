"""What the indexes on PostgreSQL do when connections or time run short, or are cut off by the database's settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.ports.faults import FaultLog
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from memsvc_backends.postgres_common.watchdog import ConnectionWatchdog
from memsvc_backends.postgres_index import FULLTEXT, PGVECTOR
from memsvc_backends.postgres_index.settings import FulltextSettings, PgvectorSettings
from tests.support.postgres_server import without_tables
from tests.support.thread_limit import no_new_threads

CONTEXT = BackendContext(Path(), lambda: datetime.now(UTC))
FIRST = LexicalManifest(1, 1, "a")


@pytest.fixture
def url() -> str:
    """Give a schema without tables."""
    return without_tables("limits")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold what is open."""
    with ExitStack() as stack:
        yield stack


def _words(stack: ExitStack, url: str, **options: Any) -> Any:
    return stack.enter_context(FULLTEXT.open(FulltextSettings(url=SecretStr(url), **options), CONTEXT))


def _vectors(stack: ExitStack, url: str, **options: Any) -> Any:
    return stack.enter_context(PGVECTOR.open(PgvectorSettings(url=SecretStr(url), **options), CONTEXT))


def _renew(index: Any, *rows: int) -> None:
    made = index.begin(FIRST)
    made.replace({row: [lexical_entry(factories.attributes(row), ["tea"])] for row in rows})
    made.seal()
    index.switch(made)


@pytest.mark.parametrize("opened", [_words, _vectors])
def test_that_there_is_no_generation_is_never_guessed(stack: ExitStack, url: str, opened: Any) -> None:
    """Whoever cannot ask is told so: who took it for an answer would leave out the change and note it as applied."""
    index = opened(stack, url, connections=1, wait_seconds=0.05)
    assert index.manifest is None

    with index._connections.borrow(), pytest.raises(BackendUnavailableError):
        _ = index.manifest

    assert index.manifest is None


def test_a_search_waits_for_a_connection_no_longer_than_its_caller(stack: ExitStack, url: str) -> None:
    """Also when the index would wait for long."""
    index = _words(stack, url, connections=1, wait_seconds=600.0)
    _renew(index, 1)

    with index._connections.borrow(), pytest.raises(DeadlineExceededError):
        index.search(["tea"], reach=REACH, limit=9, deadline=Deadline.after(0.05))

    assert len(index.search(["tea"], reach=REACH, limit=9, deadline=NO_HURRY)) == 1


@pytest.mark.parametrize("opened", [_words, _vectors])
def test_time_limits_of_the_database_do_not_break_off_what_takes_long(stack: ExitStack, url: str, opened: Any) -> None:
    """A build of a large index takes minutes; it is in no transaction while texts are embedded."""
    limits = ("statement_timeout", "idle_in_transaction_session_timeout")
    with psycopg.connect(url, autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        for limit in limits:
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = '1h'").format(database, sql.SQL(limit)))
        try:
            index = opened(stack, url)
            with index._connections.borrow() as ours:
                found = [ours.execute(f"SHOW {limit}").fetchone() for limit in limits]
        finally:
            for limit in limits:
                connection.execute(sql.SQL("ALTER DATABASE {} RESET {}").format(database, sql.SQL(limit)))

    # A transaction that is silent for longer belongs to a process that is stopped.
    assert found == [("0",), ("30s",)]


def test_a_connection_is_used_only_if_it_is_watched() -> None:
    """The process has as many threads as it may; with fewer, the watchdog is started."""
    watchdog = ConnectionWatchdog("b", FaultLog(), lambda _: None)
    with (
        no_new_threads("b-watchdog"),
        pytest.raises(BackendUnavailableError, match="can't start new thread"),
        watchdog.watch(None),
    ):
        pytest.fail("the connection is not watched")

    with watchdog.watch(None):
        assert "b-watchdog" in {thread.name for thread in threading.enumerate()}
    watchdog.close()
