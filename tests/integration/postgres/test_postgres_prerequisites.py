"""What the indexes on PostgreSQL need: an address, and the extension."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr, ValidationError

from memsvc.bootstrap.backends import StartError, open_backends
from memsvc.domain.errors import MemsvcError
from memsvc.ports.plugin import BackendContext
from memsvc.settings import BackendChoice, Settings
from memsvc_backends.postgres_index import PGVECTOR
from memsvc_backends.postgres_index.connections import parse_version, searches_iteratively
from memsvc_backends.postgres_index.settings import PgvectorSettings
from tests.support.postgres_server import server, without_tables


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold what is open."""
    with ExitStack() as stack:
        yield stack


def test_old_versions_of_the_extension_search_without_a_graph() -> None:
    """Before 0.8 a graph gives up when a filter leaves too little."""
    assert [searches_iteratively(parse_version(version)) for version in ("0.5.1", "0.7.4", "0.8.0", "0.8.5", "1.0", "0.9-dev")] == [
        False, False, True, True, True, False,
    ]  # fmt: skip


def test_a_missing_extension_is_told_with_what_to_do(stack: ExitStack, tmp_path: Path) -> None:
    """A user who may not create it is told who can, and how."""
    name = f"plain_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        stack.callback(_drop, name)
    context = BackendContext(tmp_path, lambda: datetime.now(UTC))
    place = server().get_uri().replace("postgres:@/postgres", f"{name}@/{name}")

    with pytest.raises(MemsvcError, match="CREATE EXTENSION vector"):
        stack.enter_context(PGVECTOR.open(PgvectorSettings(url=SecretStr(place)), context))


def _drop(name: str) -> None:
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        for kind in ("DATABASE", "ROLE"):
            connection.execute(sql.SQL(f"DROP {kind} {{}}").format(sql.Identifier(name)))


def test_the_database_is_the_stores_unless_it_is_given(tmp_path: Path) -> None:
    """Without either nothing is opened, and the error says what to set, and no password."""
    url = without_tables("settings")
    chosen = {"vectors": "pgvector", "lexical": "pg-fulltext", "embedder": "in-memory", "tokenizer": "estimate"}
    named = {port: BackendChoice(backend=name) for port, name in chosen.items()}
    store = BackendChoice(backend="sql", options={"url": url})

    with open_backends(Settings.model_validate({**named, "metadata": store}), tmp_path) as backends:
        assert backends.vectors.manifest is None
        backends.lexical.ping()

    other = Settings.model_validate({**named, "metadata": BackendChoice(backend="sql")})
    with pytest.raises(StartError, match=r"vectors.*metadata\.options\.url"), open_backends(other, tmp_path):
        pass
    with pytest.raises(ValidationError) as caught:
        PgvectorSettings(url=SecretStr("mysql://me:secret@x"))
    assert "secret" not in str(caught.value)
