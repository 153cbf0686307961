"""The table of one generation of vectors: creation, writes and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from memsvc.domain.errors import DimensionMismatchError
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vector
from memsvc_backends.postgres_index.connections import Connection, lock_rows
from memsvc_backends.postgres_index.filters import DEFINITIONS, NAMES, ROW_SHIFT, TYPES, Condition, values_of
from memsvc_backends.postgres_index.settings import PgvectorSettings

_INLINE_DIMENSIONS = 1_500
"""Up to here vectors are kept within their rows; else every comparison would fetch one from elsewhere."""
GRAPH_DIMENSIONS = 2_000
"""The longest vectors that pgvector builds a graph of."""
# OFFSET 0 has each row looked up in the index, whatever the planner takes the table for: statistics are late.
_REMOVE = (
    "DELETE FROM {table} WHERE entry = ANY(ARRAY(SELECT e.entry FROM unnest(%s::bigint[]) AS gone(row) "
    f"CROSS JOIN LATERAL (SELECT entry FROM {{table}} WHERE entry >= gone.row << {ROW_SHIFT} "
    f"AND entry < (gone.row + 1) << {ROW_SHIFT} OFFSET 0) AS e))"
)
_COPY = "COPY {table} ({names}, view, embedding) FROM STDIN (FORMAT BINARY)"
_EXACT = (
    "SELECT entry, -(embedding <#> %s) FROM {table} WHERE {where} AND view = %s "
    # The sum keeps a graph from being searched.
    "ORDER BY (embedding <#> %s) + 0.0, entry LIMIT %s"
)
_BY_GRAPH = (
    "SELECT entry, score FROM (SELECT entry, -(embedding <#> %s) AS score FROM {table} WHERE {where} AND view = %s "
    "ORDER BY embedding <#> %s LIMIT %s) AS found ORDER BY score DESC, entry"
)
_GRAPH = "CREATE INDEX ON {table} USING hnsw (embedding vector_ip_ops) WITH (m = {links}, ef_construction = {width})"
Changes = Mapping[int, Sequence[VectorEntry]]


class _VectorDumper(Dumper):
    """A vector in the binary format of pgvector: the number of dimensions, two spare bytes, and the numbers."""

    format = Format.BINARY

    def dump(self, obj: npt.NDArray[np.float32]) -> Buffer:
        """Return the bytes."""
        return obj.size.to_bytes(2) + b"\0\0" + obj.astype(">f4").tobytes()


def register_vector_type(connection: Connection) -> None:
    """Register the vector type with a connection."""
    info = TypeInfo.fetch(connection, "vector")
    if info is None:
        raise psycopg.errors.UndefinedObject("The type vector is gone.")
    info.register(connection)
    dumper = type("_KnownVectorDumper", (_VectorDumper,), {"oid": info.oid})
    connection.adapters.register_dumper(np.ndarray, dumper)


def create(connection: Connection, table: str, dimension: int) -> None:
    """Make the table. Its vectors are of unit length, so their inner product with one is the cosine, and cheaper."""
    name = sql.Identifier(table)
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (" + DEFINITIONS + ", view smallint NOT NULL, embedding vector({}) NOT NULL, "
            "PRIMARY KEY (entry))"
        ).format(name, sql.Literal(dimension))
    )
    if dimension <= _INLINE_DIMENSIONS:
        connection.execute(sql.SQL("ALTER TABLE {} ALTER COLUMN embedding SET STORAGE PLAIN").format(name))
    connection.execute(sql.SQL("CREATE INDEX ON {} (owner_key, view)").format(name))


def require_dimension(vector: Vector, dimension: int) -> None:
    """Raise DimensionMismatchError unless the vector has this length."""
    if vector.shape != (dimension,):
        raise DimensionMismatchError(dimension, vector.size)


def replace(connection: Connection, table: str, changes: Changes) -> None:
    """Replace the entries of each memory, in one transaction."""
    name = sql.Identifier(table)
    names = sql.SQL(", ").join(map(sql.Identifier, NAMES))
    with connection.transaction():
        lock_rows(connection, table, changes)
        connection.execute(sql.SQL(_REMOVE).format(table=name), (list(changes),))
        entries = [entry for several in changes.values() for entry in several]
        if not entries:
            return
        with connection.cursor().copy(sql.SQL(_COPY).format(table=name, names=names)) as copy:
            copy.set_types((*TYPES, "smallint", "vector"))
            for entry in entries:
                copy.write_row((*values_of(entry.entry_id, entry.attributes), int(entry.view), _plain(entry.vector)))


def search(
    connection: Connection, table: str, within: tuple[Condition, int], vector: Vector, *, limit: int, by_graph: bool
) -> list[tuple[int, float]]:
    """Return the nearest entries that meet a condition and are of a view, best first, equal scores by entry."""
    where, view = within
    words = (_BY_GRAPH if by_graph else _EXACT).format(table=f'"{table}"', where=where.words)
    target = _plain(vector)
    parameters: tuple[Any, ...] = (target, *where.parameters, view, target, limit)
    return connection.execute(words.encode(), parameters, binary=True).fetchall()


def build_graph(connection: Connection, table: str, settings: PgvectorSettings) -> None:
    """Build the graph; what is written later joins it."""
    words = sql.SQL(_GRAPH).format(
        table=sql.Identifier(table),
        links=sql.Literal(settings.graph_links),
        width=sql.Literal(settings.graph_build_width),
    )
    connection.execute(
        "SELECT set_config('maintenance_work_mem', %s, false)", (f"{settings.build_memory_bytes // 1024}kB",)
    )
    connection.execute(words)


def normalise(vector: Vector) -> Vector:
    """Return the vector scaled to unit length; one of zeros stays."""
    length = float(np.linalg.norm(vector))
    return vector if length == 0.0 else np.asarray(vector / np.float32(length), dtype=np.float32)


def _plain(vector: Vector) -> Vector:
    return np.ascontiguousarray(vector, dtype=np.float32)
