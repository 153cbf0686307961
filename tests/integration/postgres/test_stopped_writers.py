"""Processes that are stopped while they build or write an index on PostgreSQL: others go on after a bounded time."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError, ReindexRunningError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.lexical import lexical_entry
from memsvc_backends.postgres_common import watchdog
from memsvc_backends.postgres_index import FULLTEXT, connections, generations
from memsvc_backends.postgres_index.settings import FulltextSettings
from tests.support.holder_process import holding
from tests.support.postgres_server import without_tables
from tests.support.until import until

IDLE_SECONDS, BEAT_SECONDS = 2, 0.3
CONTEXT = BackendContext(Path(), lambda: datetime.now(UTC))
HOLDER = """
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.lexical import lexical_entry
from memsvc_backends.postgres_common import watchdog
from memsvc_backends.postgres_index import FULLTEXT, connections, generations, postings
from memsvc_backends.postgres_index.settings import FulltextSettings

connections.LONGEST_IDLE_SECONDS = generations.LONGEST_IDLE_SECONDS = int(sys.argv[2])
watchdog.HEARTBEAT_SECONDS = float(sys.argv[3])
ENTRIES = {1: [lexical_entry(factories.attributes(1), ["tea"])]}
SECOND = LexicalManifest(2, 1, "a")


def hold():
    print("holding", flush=True)
    sys.stdin.readline()


def hold_first(work):
    def held(*arguments):
        hold()
        return work(*arguments)

    return held


with FULLTEXT.open(FulltextSettings(url=SecretStr(sys.argv[1])), BackendContext(Path(), lambda: datetime.now(UTC))) as index:
    try:
        exec(sys.argv[4])
    except BackendUnavailableError:
        print("lost", flush=True)
    else:
        print("kept", flush=True)
"""
BUILD = """
made = index.begin(SECOND)
made.replace(ENTRIES)
hold()
made.seal()
index.switch(made)
"""
BUILD_IN_COPY = """
made = index.begin(SECOND)
postings.values_of = hold_first(postings.values_of)
made.replace(ENTRIES)
"""
WRITE = """
postings._Counts.write = hold_first(postings._Counts.write)
index.replace(ENTRIES)
"""
WRITE_IN_COPY = """
postings.values_of = hold_first(postings.values_of)
index.replace(ENTRIES)
"""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limit of silence."""
    for module in (connections, generations):
        monkeypatch.setattr(module, "LONGEST_IDLE_SECONDS", IDLE_SECONDS)
    monkeypatch.setattr(watchdog, "HEARTBEAT_SECONDS", BEAT_SECONDS)


def _holding(url: str, code: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run a process that holds something by *code*."""
    return holding(HOLDER, url, str(IDLE_SECONDS), str(BEAT_SECONDS), code)


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    """Open an index with one memory."""
    settings = FulltextSettings(url=SecretStr(url), wait_seconds=0.3)
    with FULLTEXT.open(settings, CONTEXT) as index:
        made = index.begin(LexicalManifest(1, 1, "a"))
        made.replace({1: [lexical_entry(factories.attributes(1), ["coffee"])]})
        made.seal()
        index.switch(made)
        yield index


def _can_build(index: Any) -> bool:
    try:
        index.begin(LexicalManifest(2, 1, "a")).discard()
    except ReindexRunningError:
        return False
    return True


def _can_write(index: Any) -> bool:
    try:
        index.replace({1: [lexical_entry(factories.attributes(1), ["water"])]})
    except BackendUnavailableError:
        return False
    return True


@pytest.mark.parametrize(
    ("code", "is_free"),
    [(BUILD, _can_build), (BUILD_IN_COPY, _can_build), (WRITE, _can_write), (WRITE_IN_COPY, _can_write)],
    ids=["build", "copy of a build", "write", "copy of a write"],
)
def test_what_a_stopped_process_holds_is_free_after_a_while(
    code: str, is_free: Callable[[Any], bool], patience: None
) -> None:
    """The process gets an error after it continues."""
    url = without_tables("stopped_writers")
    with _opened(url) as index, _holding(url, code) as process:
        assert not is_free(index)
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_free(index))
        process.send_signal(signal.SIGCONT)
        assert process.communicate("\n")[0] == "lost\n"


def test_a_build_that_rests_longer_than_the_limit_goes_on() -> None:
    """A model embeds what comes next."""
    url = without_tables("stopped_writers")
    with _opened(url) as index, _holding(url, BUILD) as process:
        with psycopg.connect(url, autocommit=True) as observer, closing(psycopg.connect(url, autocommit=True)) as idle:
            pid = idle.info.backend_pid
            idle.execute(f"SET idle_session_timeout = '{2 * IDLE_SECONDS}s'")
            until(lambda: not observer.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())
        assert not _can_build(index)
        assert process.communicate("\n")[0] == "kept\n"
