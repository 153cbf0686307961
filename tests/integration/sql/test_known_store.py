"""A store that is new or empty does not take the place of the one that a data directory belongs to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import StoreMissingError
from memsvc.ports.plugin import BackendContext, KnownStore
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import without_tables


@pytest.fixture
def directory(context: BackendContext) -> BackendContext:
    """Return the context of a data directory that belongs to a store."""
    return replace(context, known_store=KnownStore("one", Path("/data/indexed-store.json")))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs_server)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> SqlSettings:
    """Return the settings of a database without tables."""
    if request.param == "sqlite":
        return SqlSettings(path=tmp_path / "folder" / "memsvc.db")
    return SqlSettings(url=SecretStr(without_tables("known_store")))


def _tables(settings: SqlSettings) -> int:
    if settings.url is None:
        assert settings.path is not None
        return len(list(settings.path.parent.glob("*")))
    with psycopg.connect(settings.url.get_secret_value()) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
    assert row is not None
    return int(row[0])


def test_a_database_without_tables_is_refused(directory: BackendContext, settings: SqlSettings) -> None:
    """Nothing is created in it."""
    with pytest.raises(StoreMissingError, match=r"The (store|database).*/data/indexed-store.json"):
        SQL.open(settings, directory).__enter__()

    assert _tables(settings) == 0


def test_an_empty_store_is_refused_unless_it_is_the_known_one(
    context: BackendContext, directory: BackendContext, settings: SqlSettings
) -> None:
    """One that was written to is accepted, whatever its identity."""
    with SQL.open(settings, context) as store:
        identity = store.changes.identity
    with pytest.raises(StoreMissingError, match="is new and empty"):
        SQL.open(settings, directory).__enter__()
    with SQL.open(settings, replace(context, known_store=KnownStore(identity, Path("record")))) as store:
        insert(store, factories.memory())

    with SQL.open(settings, directory) as store:
        assert store.changes.identity == identity
