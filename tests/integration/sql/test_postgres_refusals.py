"""A PostgreSQL that cannot be reached, or lets nobody in, is told with what to do, and without its address."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc_backends.sql import SQL
from memsvc_backends.sql.settings import SqlSettings
from tests.support.postgres_server import server

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
