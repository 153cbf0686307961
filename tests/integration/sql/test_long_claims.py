"""What is lent stays lent, however long a model takes to embed it, and whatever the database thinks of idling."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied
from tests.support.until import until

_END = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835363701 "
    "AND pid <> pg_backend_pid()"
)


def _outwait_idle_transactions(url: str, observer: psycopg.Connection[Any]) -> None:
    """Begin a transaction and return when the database has ended it for idling."""
    idle = psycopg.connect(url)
    pid = idle.info.backend_pid
    idle.execute("SELECT 1")
    until(lambda: not observer.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())
    idle.close()


def test_a_claim_outlasts_the_databases_patience_with_idle_transactions(context: BackendContext) -> None:
    """Else another process would apply the changes, and then this one what it had read before."""
    with emptied("long_claims") as url, psycopg.connect(url, autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '100ms'").format(database)
        )
        try:
            settings = SqlSettings(url=SecretStr(url))
            with SQL.open(settings, context) as one, SQL.open(settings, context) as other:
                insert(one, factories.memory("a"))
                with one.feed.claim((), limit=9) as lent:
                    _outwait_idle_transactions(url, connection)
                    with other.feed.claim((), limit=9) as left:
                        assert (len(lent), left) == (1, [])
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {} RESET idle_in_transaction_session_timeout").format(database))


def test_who_lost_the_connection_is_told_before_it_writes(context: BackendContext) -> None:
    """Another process may be lent the same changes by then; afterwards all goes on."""
    with emptied("long_claims") as url, psycopg.connect(url, autocommit=True) as connection:
        settings = SqlSettings(url=SecretStr(url))
        with SQL.open(settings, context) as one, SQL.open(settings, context) as other:
            insert(one, factories.memory("a"))
            with pytest.raises(BackendUnavailableError), one.feed.claim((), limit=9) as lent:
                one.feed.require_claim()
                other.feed.require_claim()
                connection.execute(_END)
                with other.feed.claim((), limit=9) as taken:
                    assert taken == lent
                    other.feed.require_claim()
                    one.feed.require_claim()
            with pytest.raises(BackendUnavailableError), one.feed.pause():
                one.feed.require_claim()
                connection.execute(_END)
                one.feed.require_claim()
            one.feed.require_claim()
            with one.feed.claim((), limit=9) as lent:
                one.feed.require_claim()
                assert len(lent) == 1
