"""A PostgreSQL that cannot be reached, or lets nobody in, is told with what to do, and without its address."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr, ValidationError

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc_backends.postgres_common.connection_options import connection_options
from memsvc_backends.postgres_index import FULLTEXT
from memsvc_backends.postgres_index.settings import FulltextSettings, PgvectorSettings
from memsvc_backends.sql import SQL
from memsvc_backends.sql.database import SchemaVersionError
from memsvc_backends.sql.settings import LEAST_SHARED_READERS, SqlSettings
from tests.support.postgres_server import database, server

HIDDEN = "s3cret"


def _refusal(url: str, directory: Path) -> str:
    settings = SqlSettings(url=SecretStr(url), wait_seconds=5)
    with pytest.raises(BackendUnavailableError) as refused:
        with SQL.open(settings, BackendContext(directory, lambda: datetime.now(UTC))) as store:
            store.ping()
    assert HIDDEN not in refused.value.message
    assert HIDDEN[2:] not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"postgresql://ann:{HIDDEN}@127.0.0.1:1/db", "is PostgreSQL up, and are host and port in its url right?"),
        (f"postgresql://ann:{HIDDEN}@/db?host=/nowhere", "is PostgreSQL up"),
        (f"postgresql://ann:{HIDDEN}@nowhere.invalid/db", "the host in its url is not known"),
        (f"postgresql://ann:s3@{HIDDEN[2:]}@localhost/db", "as %40 (@)"),
        (f"postgresql://ann:{HIDDEN}@localhost/db?hots=1", "its url has a wrong part"),
        (f"postgresql://ann:{HIDDEN}@localhost/db?sslmode=loud", "its url has a wrong part"),
    ],
)
def test_an_address_where_no_server_is(url: str, told: str, tmp_path: Path) -> None:
    """What is wrong with it decides what is said."""
    assert told in _refusal(url, tmp_path)


def _in_schema(*names: str) -> str:
    return f"{server().get_uri()}&options={quote('-csearch_path=' + ','.join(names))}"


def _identity(url: str, directory: Path) -> str:
    with SQL.open(SqlSettings(url=SecretStr(url)), BackendContext(directory, lambda: datetime.now(UTC))) as store:
        return store.changes.identity


@contextmanager
def _schemas(count: int) -> Iterator[list[str]]:
    """Lend empty schemas."""
    names = [f"refused_{uuid.uuid4().hex[:12]}" for _ in range(count)]
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        try:
            yield names
        finally:
            connection.execute("SET client_min_messages = error")
            for name in names:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def test_an_installation_leaves_the_tables_of_another_alone(tmp_path: Path) -> None:
    """Its own are in the first schema of the search path, though a later one has tables of the same names."""
    with _schemas(2) as (one, other):
        first = _identity(_in_schema(one), tmp_path)
        second = _identity(_in_schema(other, one), tmp_path)
        assert first != second
        assert _identity(_in_schema(other, one), tmp_path) == second
        assert _identity(_in_schema(one), tmp_path) == first


def test_tables_of_another_application(tmp_path: Path) -> None:
    """They are left as they are, and what to do is said."""
    with _schemas(1) as (name,), psycopg.connect(_in_schema(name), autocommit=True) as connection:
        connection.execute("CREATE TABLE sessions (id int)")
        assert "give memsvc a schema or a database of its own" in _refusal(_in_schema(name), tmp_path)
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('0009')")
        with pytest.raises(SchemaVersionError, match="belongs to another application"):
            _identity(_in_schema(name), tmp_path)
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,)).fetchall()
        assert sorted(names) == [("alembic_version",), ("sessions",)]


def test_tables_of_a_build_between_two_releases(tmp_path: Path) -> None:
    """The column that is missing is named, and one of the same name in another schema is none of ours."""
    with _schemas(2) as (one, other), psycopg.connect(server().get_uri(), autocommit=True) as connection:
        for name in (one, other):
            _identity(_in_schema(name), tmp_path)
        column = sql.SQL("ALTER TABLE {}.messages DROP COLUMN extracted").format(sql.Identifier(one))
        connection.execute(column)
        with pytest.raises(SchemaVersionError, match=r"lacks messages\.extracted: "):
            _identity(_in_schema(one, other), tmp_path)
        assert _identity(_in_schema(other, one), tmp_path)


def test_a_user_that_may_not_make_tables(tmp_path: Path) -> None:
    """The usual user since PostgreSQL 15, and a schema that is not there."""
    name = f"weak_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            weak = _refusal(server().get_uri().replace("postgres:@/postgres", f"{name}@/{name}"), tmp_path)
        finally:
            for kind in ("DATABASE", "ROLE"):
                connection.execute(sql.SQL(f"DROP {kind} {{}}").format(sql.Identifier(name)))

    assert "GRANT USAGE, CREATE ON SCHEMA" in weak
    assert "CREATE SCHEMA" in _refusal(_in_schema(f"missing_{name}"), tmp_path)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text(encoding: str, tmp_path: Path) -> None:
    """It is refused before anything is stored, by store and indexes."""
    context = BackendContext(tmp_path, lambda: datetime.now(UTC))
    with database(encoding) as url:
        assert f"has the encoding '{encoding}'" in _refusal(url, tmp_path)
        with pytest.raises(BackendUnavailableError, match="create a database with ENCODING 'UTF8'"):
            with FULLTEXT.open(FulltextSettings(url=SecretStr(url)), context) as index:
                index.ping()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("postgresql://ann:pa/ss@db.example/memsvc", {"password": "pa/ss", "host": "db.example", "dbname": "memsvc"}),
        ("postgresql+psycopg://ann@/memsvc?host=/run/pg", {"user": "ann", "host": "/run/pg", "dbname": "memsvc"}),
        ("postgresql://ann@/memsvc?host=one:5432&host=two:5433", {"host": "one,two", "port": "5432,5433"}),
        ("postgresql://ann@db/memsvc?application_name=agents", {"application_name": "agents"}),
        ("postgres://ann:%40@db/memsvc?options=-csearch_path%3Db", {"password": "@", "options": "-csearch_path=b"}),
    ],
)
def test_store_and_indexes_read_a_url_alike(url: str, options: dict[str, str]) -> None:
    """Also one that the client library itself reads otherwise."""
    found = connection_options(PgvectorSettings(url=SecretStr(url)).address, application="a", seconds=5)
    assert {"application_name": "a", **options}.items() <= found.items()
    assert SqlSettings(url=SecretStr(url)).url is not None


def test_too_few_readers_are_refused() -> None:
    """The indexer would wait for its own connections."""
    url = SecretStr("postgresql://ann@localhost/db")
    with pytest.raises(ValidationError, match="at least 4 with url"):
        SqlSettings(url=url, readers=LEAST_SHARED_READERS - 1)
    assert SqlSettings(readers=1).readers == 1
    assert SqlSettings(url=url, readers=LEAST_SHARED_READERS).readers == LEAST_SHARED_READERS


@contextmanager
def _asked_for_a_password() -> Iterator[str]:
    """Lend the name of a user and of its database, who has to show a password."""
    name = f"asked_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), HIDDEN))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        [(rules,)] = connection.execute("SHOW hba_file").fetchall()
        before = Path(rules).read_text()
        _replace(Path(rules), f"local {name} {name} scram-sha-256\n{before}")
        _reload(connection)
        try:
            yield name
        finally:
            _replace(Path(rules), before)
            _reload(connection)
            for kind in ("DATABASE", "ROLE"):
                connection.execute(sql.SQL(f"DROP {kind} {{}}").format(sql.Identifier(name)))


def _replace(rules: Path, text: str) -> None:
    status = rules.stat()
    rules.write_text(text)
    os.chown(rules, status.st_uid, status.st_gid)


def _reload(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Have the server read its rules anew, and wait until it has: it starts a process for each connection."""
    [(before,)] = connection.execute("SELECT pg_conf_load_time()").fetchall()
    connection.execute("SELECT pg_reload_conf()")
    while connection.execute("SELECT pg_conf_load_time()").fetchall() == [(before,)]:
        pass


def test_a_server_that_lets_nobody_in(tmp_path: Path) -> None:
    """A wrong password, none, a user and a database that are not there."""
    place = server().get_uri()
    with _asked_for_a_password() as name:
        wrong = _refusal(place.replace("postgres:@/postgres", f"{name}:{HIDDEN}x@/{name}"), tmp_path)
        none = _refusal(place.replace("postgres:@/postgres", f"{name}@/{name}"), tmp_path)
    nobody = _refusal(place.replace("postgres:@/", f"nobody:{HIDDEN}@/"), tmp_path)
    nowhere = _refusal(place.replace("@/postgres", "@/nowhere"), tmp_path)

    assert "correct user and password in its url" in wrong
    assert "its url needs a password" in none
    assert "it has no user of the name in its url" in nobody
    assert "create the database that its url names" in nowhere
