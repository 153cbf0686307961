"""What the indexes on PostgreSQL do when connections or time run short, or are cut off by the database's settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from backends.postgres import FULLTEXT, PGVECTOR
from backends.postgres.settings import FulltextSettings, PgvectorSettings
from memsvc.domain.clock import Deadline
from memsvc.domain.entries import View
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.indexing import LexicalManifest
from memsvc.ports.backend import BackendContext
from memsvc.testing import factories
from memsvc.testing.index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from tests.postgres_server import without_tables

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
    made.replace({row: [lexical_entry(factories.attributes(row), "tea")] for row in rows})
    made.seal()
    index.switch(made)


@pytest.mark.parametrize("opened", [_words, _vectors])
def test_that_there_is_no_generation_is_never_guessed(stack: ExitStack, url: str, opened: Any) -> None:
    """Whoever cannot ask is told so: who took it for an answer would leave out the change and note it as applied."""
    index = opened(stack, url, connections=1, wait_seconds=0.05)
    assert index.manifest is None

    with index._connections.lent(), pytest.raises(BackendUnavailableError):
        _ = index.manifest

    assert index.manifest is None
