"""SQLite's log is carried over beside the writer."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.sqlite import ROWS, SqliteDriver, WalCheckpointer
from tests.support.until import until

LIMIT_SECONDS = 5.0
"""Half of what a writer waits for a lock: it would wait so long, and fail, beside a checkpoint that waits for a reader."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the database is."""
    return tmp_path / "a.db"


@pytest.fixture
def driver(path: Path) -> Iterator[SqliteDriver]:
    """Return a driver of a file with one table."""
    driver = SqliteDriver(path, SqlSettings())
    with closing(driver.connect()) as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    yield driver
    driver.close()


def write(driver: SqliteDriver, connection: sa.Connection, rows: int) -> None:
    """Commit so many rows."""
    driver.begin_write(connection)
    connection.exec_driver_sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "INSERT INTO t SELECT i + (SELECT ifnull(max(a), 0) FROM t) FROM n",
        (rows,),
    )
    driver.commit(connection)


def rows_without_log(path: Path) -> int:
    """Return how many rows the database file alone holds."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    try:
        with closing(sqlite3.connect(copy)) as connection:
            return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])
    except sqlite3.DatabaseError:
        # It was copied in the middle of a change.
        return 0


def test_file_follows_while_the_log_is_short(driver: SqliteDriver, path: Path) -> None:
    """What fits well in the log comes into the file without a commit that has to see to it."""
    with closing(driver.connect()) as connection:
        driver.settle(connection)
        write(driver, connection, ROWS - 1)
        assert rows_without_log(path) == 0
        write(driver, connection, 1)
        until(lambda: rows_without_log(path) == ROWS)


def test_next_writing_connection_is_followed_too(driver: SqliteDriver, path: Path) -> None:
    """A connection that was lost is replaced by one that counts from nought."""
    with closing(driver.connect()) as connection:
        write(driver, connection, 2 * ROWS)
    with closing(driver.connect()) as connection:
        write(driver, connection, ROWS)
        until(lambda: rows_without_log(path) == 3 * ROWS)


def test_log_that_is_never_empty_does_not_grow_on(driver: SqliteDriver, path: Path) -> None:
    """Beside a steady writer a commit does the rest, so that the log begins anew: it stays far below what is written."""
    log = path.with_name("a.db-wal")
    with closing(driver.connect()) as connection:
        for _ in range(40):
            write(driver, connection, ROWS * 50)
        length = log.stat().st_size
        # Until all of it is in the file, that is shorter than what was written.
        assert driver.settle(connection)
        assert length < path.stat().st_size


def test_log_is_emptied_though_it_is_being_carried_over(driver: SqliteDriver, path: Path) -> None:
    """Who erases is not told that somebody is in the way when that is only the thread beside."""
    with closing(driver.connect()) as connection:
        for _ in range(100):
            write(driver, connection, ROWS)
            assert driver.settle(connection)
            assert path.with_name("a.db-wal").stat().st_size == 0


def test_log_is_emptied_soon_after_a_removal(driver: SqliteDriver, path: Path) -> None:
    """Once no reader needs it; a writer does not wait for that, and no commit is needed."""
    log = path.with_name("a.db-wal")
    with closing(driver.connect()) as connection, closing(driver.connect()) as reader:
        write(driver, connection, 5)
        driver.begin_snapshot(reader)
        assert reader.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 5
        write(driver, connection, 5)

        driver.empty_log_soon()
        for _ in range(20):
            begun = time.monotonic()
            write(driver, connection, 1)
            assert time.monotonic() - begun < LIMIT_SECONDS
        assert log.stat().st_size > 0

        driver.undo(reader)
        until(lambda: log.stat().st_size == 0)
        assert rows_without_log(path) == 30
        write(driver, connection, 1)
        assert log.stat().st_size > 0


def _checkpointers() -> set[threading.Thread]:
    """Return the threads of this process that checkpoint, those of servers of other tests included."""
    return {thread for thread in threading.enumerate() if thread.name == "sqlite-log"}


def test_closing_ends_the_thread(driver: SqliteDriver) -> None:
    """No thread is left behind, and no log."""
    others = _checkpointers()
    with closing(driver.connect()) as connection:
        write(driver, connection, ROWS)
        assert _checkpointers() - others
    driver.close()

    assert _checkpointers() == others
    assert not driver.path.with_name("a.db-wal").exists()


def test_failure_is_told_and_tried_again(driver: SqliteDriver, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that refuses for a while costs a line in the log of the service and no write."""
    fails = threading.Event()
    fails.set()
    tries: list[bool] = []

    def connect() -> sa.Connection:
        tries.append(fails.is_set())
        if fails.is_set():
            raise sa.exc.OperationalError(statement=None, params=None, orig=OSError("no space left"))
        return driver.connect()

    with closing(driver.connect()) as connection:
        carrier = WalCheckpointer(connect)
        carrier.wrote(connection, ROWS)
        until(lambda: "no space left" in caplog.text)
        fails.clear()
        carrier.wrote(connection, 2 * ROWS)
        until(lambda: tries == [True, False])
        carrier.close()


def test_commit_is_none_the_worse_when_no_thread_can_be_had(
    driver: SqliteDriver, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not told of as a failure, after which it would be repeated; the next rows have a thread again."""

    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with closing(driver.connect()) as connection:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            write(driver, connection, ROWS)
        assert "can't start new thread" in caplog.text
        write(driver, connection, ROWS)
        until(lambda: rows_without_log(path) == 2 * ROWS)


def test_commit_is_none_the_worse_when_the_file_cannot_grow(
    driver: SqliteDriver, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the log holds is committed, though the rest of the log cannot be carried over."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(driver.connect()) as connection:
        write(driver, connection, 10 * ROWS)
        # The thread has done its part: it must not be at the log together with the commit below.
        until(lambda: rows_without_log(path) == 10 * ROWS)
        driver.settle(connection)
        is_long = WalCheckpointer(driver.connect)
        is_long._is_long = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        try:
            driver.begin_write(connection)
            connection.exec_driver_sql("CREATE TABLE u AS SELECT * FROM t LIMIT 4000")
            driver.commit(connection)
            is_long.wrote(connection, 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "cannot be brought into the file" in caplog.text
        assert connection.exec_driver_sql("SELECT count(*) FROM u").scalar_one() == 4000
        is_long.wrote(connection, 0)
        assert not is_long._is_long
