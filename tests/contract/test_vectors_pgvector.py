"""The vectors on PostgreSQL keep the port's promises."""

from __future__ import annotations

import pytest

from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.indexes import VectorEntry
from memsvc.testing.vectors import VectorIndexContract
from memsvc_backends.postgres_index import PGVECTOR
from tests.support.postgres_index import PostgresIndex


@pytest.mark.needs_server
class TestPgvector(PostgresIndex[VectorEntry, VectorManifest], VectorIndexContract):
    spec = PGVECTOR
    schema = "vectors"
