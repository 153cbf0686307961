"""The full text on PostgreSQL keeps the port's promises."""

from __future__ import annotations

import pytest

from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.testing.lexical import LexicalIndexContract
from memsvc_backends.postgres_index import FULLTEXT
from tests.support.postgres_index import PostgresIndex


@pytest.mark.needs_server
class TestPostgresFulltext(PostgresIndex[LexicalEntry, LexicalManifest], LexicalIndexContract):
    spec = FULLTEXT
    schema = "words"
