"""The words of a Qdrant server keep the port's promises: in the local mode, over gRPC, and on a real server."""

from __future__ import annotations

import pytest

from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.testing.lexical import LexicalIndexContract
from memsvc_backends.qdrant_server.sparse_index import NAME, QdrantSparseIndex
from tests.support.qdrant_index import QdrantIndex
from tests.support.qdrant_targets import sparse_settings


@pytest.mark.needs_server
class TestQdrantSparse(QdrantIndex[LexicalEntry, LexicalManifest], LexicalIndexContract):
    kind = QdrantSparseIndex
    name = NAME
    settings = staticmethod(sparse_settings)
    alone = (*QdrantIndex.alone, "removed")
    counts_all_owners = True
