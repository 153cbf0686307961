"""The cache of embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import MAX_PARAMETERS, insert_new
from memsvc_backends.sql.tables import embeddings


class SqlEmbeddingCache:
    """`memsvc.ports.metadata.EmbeddingCache`."""

    def __init__(self, database: Database) -> None:
        """Keep embeddings in *database*."""
        self._database = database

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return those that are there."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests), MAX_PARAMETERS):
            wanted = embeddings.c.digest.in_(digests[start : start + MAX_PARAMETERS])
            statement = sa.select(embeddings.c.digest, embeddings.c.vector).where(embeddings.c.model == model, wanted)
            with self._database.reading() as connection:
                found.update((digest, vector) for digest, vector in connection.execute(statement))
        return found

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Store those that are new."""
        if not vectors:
            return
        values = [{"model": model, "digest": digest, "vector": vectors[digest]} for digest in sorted(vectors)]
        # In the order of the key, so that two who store the same ones do not wait for each other.
        with self._database.noting() as connection:
            connection.execute(insert_new(embeddings), values)

    def count(self, model: str) -> int:
        """Count the vectors of a model."""
        statement = sa.select(sa.func.count()).select_from(embeddings).where(embeddings.c.model == model)
        with self._database.reading() as connection:
            return int(connection.execute(statement).scalar_one())
