"""The vectors of a Qdrant server keep the port's promises: in the local mode, over gRPC, and on a real server."""

from __future__ import annotations

import pytest

from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.indexes import VectorEntry
from memsvc.testing.vectors import VectorIndexContract
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.qdrant_index import QdrantIndex
from tests.support.qdrant_targets import vector_settings


@pytest.mark.needs_server
class TestQdrantServer(QdrantIndex[VectorEntry, VectorManifest], VectorIndexContract):
    kind = QdrantServerIndex
    name = NAME
    settings = staticmethod(vector_settings)
