"""A generation of vectors: how its manifest is written, and how it is made."""

from __future__ import annotations

from memsvc.domain.index_entries import VectorManifest, content_of, manifest_of
from memsvc.ports.vectors import VectorEntry
from memsvc_backends.postgres_index import vector_table as tables
from memsvc_backends.postgres_index.connections import Connection
from memsvc_backends.postgres_index.generations import Kind, Making
from memsvc_backends.postgres_index.settings import PgvectorSettings
from memsvc_backends.postgres_index.table_generation import TableGeneration
from memsvc_backends.postgres_index.vector_table import Changes

NAME = "pgvector"


KIND: Kind[VectorManifest] = Kind("index_vectors", ("",), "", content_of, manifest_of)


class PgvectorGeneration(TableGeneration[VectorEntry, VectorManifest]):
    """A generation of vectors, with a graph when the manifest asks for one."""

    def __init__(self, making: Making[VectorManifest], settings: PgvectorSettings) -> None:
        self._settings = settings
        self._manifest = making.made.manifest
        super().__init__(making)

    def replace(self, changes: Changes) -> None:
        """Make the entries of each memory exactly those given, once every vector has the right length."""
        require_dimensions(changes, self._manifest.dimension)
        super().replace(changes)

    def _create(self, connection: Connection, base: str) -> None:
        tables.create(connection, base, self._manifest.dimension)

    def _put(self, connection: Connection, base: str, changes: Changes) -> None:
        tables.replace(connection, base, changes)

    def _settle(self, connection: Connection, base: str) -> None:
        if self._manifest.hnsw:
            tables.build_graph(connection, base, self._settings)
        connection.execute(f'VACUUM ANALYZE "{base}"'.encode())


def require_dimensions(changes: Changes, dimension: int) -> None:
    """Raise DimensionMismatchError unless every vector has this length."""
    for entries in changes.values():
        for entry in entries:
            tables.require_dimension(entry.vector, dimension)
