"""A SQLite database that is full, locked or damaged says so, with what to do."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from memsvc.domain.errors import UNREACHED, BackendUnavailableError, start_wording
from memsvc.ports.plugin import BackendContext
from memsvc_backends.postgres_common.connection_options import READ_ONLY
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.database import _FULL, DAMAGED, translate


def failure(path: Path, *statements: str) -> BackendUnavailableError:
    """Return what the last of several statements fails with."""
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    with engine.connect() as connection:
        for statement in statements[:-1]:
            connection.exec_driver_sql(statement)
        with pytest.raises(BackendUnavailableError) as failed, translate():
            connection.exec_driver_sql(statements[-1])
    engine.dispose()
    return failed.value


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """SQLite reports a file that may not grow as it reports a full disk."""
    big = "INSERT INTO one VALUES (zeroblob(1000000))"

    error = failure(tmp_path / "db", "CREATE TABLE one (x)", "PRAGMA max_page_count = 3", big)

    assert "has no space left" in error.message
    assert str(tmp_path) not in error.message


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """So is one whose pages are overwritten."""
    (tmp_path / "db").write_bytes(b"\xa5" * 8_192)

    assert "is damaged" in failure(tmp_path / "db", "SELECT * FROM sqlite_master").message


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """A folder in its place, for one."""
    with pytest.raises(BackendUnavailableError) as failed, translate():
        sa.create_engine(f"sqlite:///{tmp_path}").connect()

    assert "cannot open its file" in failed.value.message


def test_a_locked_database_is_named(tmp_path: Path) -> None:
    """Another process that writes is to be stopped."""
    with sqlite3.connect(tmp_path / "db", isolation_level=None) as other:
        other.execute("CREATE TABLE one (x)")
        other.execute("BEGIN EXCLUSIVE")

        assert "is locked by another process" in failure(tmp_path / "db", "INSERT INTO one VALUES (1)").message
    other.close()


def test_a_start_promises_nothing_that_its_process_does_not_live_to_see(tmp_path: Path) -> None:
    """The process ends: what is removed is not noticed by it, as by a running service."""
    with sqlite3.connect(tmp_path / "memsvc.db", isolation_level=None) as other:
        other.execute("CREATE TABLE one (x)")
        other.execute("BEGIN EXCLUSIVE")
        context = BackendContext(tmp_path, lambda: datetime.now(UTC))
        with pytest.raises(BackendUnavailableError) as failed, SQL.open(SqlSettings(wait_seconds=0.1), context):
            pass
    other.close()
    assert failed.value.message.endswith("is locked by another process: stop that, and start again.")


@pytest.mark.parametrize(
    ("problem", "at_start"),
    [
        (_FULL, "has no space left: free some on its disk, and start again"),
        (READ_ONLY, "is read-only: its url leads to a standby; let it lead to the primary, and start again"),
        (UNREACHED, UNREACHED),
        (DAMAGED, DAMAGED),
    ],
)
def test_problems_have_two_wordings(problem: str, at_start: str) -> None:
    """One for a service that runs, which goes on, and one for a start."""
    with pytest.raises(BackendUnavailableError) as failed, start_wording():
        raise BackendUnavailableError("sql", problem=problem, retry_seconds=3.0)

    assert (failed.value.problem, failed.value.retry_seconds) == (at_start, 3.0)
    assert failed.value.message == f"The backend 'sql' {at_start}."
