"""Searching the keyword table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from backends.sql.dialect import is_listed, list_parameter, truncated, unindexed
from backends.sql.filters import condition
from backends.sql.tables import memories, memory_keywords
from memsvc.domain.entries import Hit, View, entry_id
from memsvc.domain.filters import Filter
from memsvc.domain.scope import Reach

_SCALE = 1_000_000_000
"""Scores are compared as whole numbers: sums of fractions differ in the last bits with the order of adding."""
_PER_WEIGHT = 0.3
_PER_MATCH = 0.2


def search_keywords(
    connection: sa.Connection, terms: Sequence[str], reach: Reach, where: Filter | None, limit: int
) -> list[Hit]:
    """Return the best hits; deleted memories have no keywords in the table.

    The ranking needs the table alone. Memories are looked up from the top down, and only until enough are found
    that lie in the reach and match: a common word may be a keyword of everything that its owner has.
    """
    names = dict.fromkeys(terms)
    parameters = {f"term_{number}": term for number, term in enumerate(names)} | {"owner": reach.owner}
    ranked = connection.execute(_ranking(len(names)), parameters).all()
    hits: list[Hit] = []
    for start in range(0, len(ranked), size := 2 * limit):
        batch = ranked[start : start + size]
        matching = _matching(connection, [row for row, _ in batch], reach, where)
        hits += [Hit(entry_id(row, View.CHUNK, 0), score / _SCALE) for row, score in batch if row in matching]
        if len(hits) >= limit:
            break
    return hits[:limit]


@lru_cache(maxsize=64)
def _ranking(terms: int) -> sa.Select[Any]:
    names = [sa.bindparam(f"term_{number}", type_=sa.Text) for number in range(terms)]
    weights = sa.func.sum(memory_keywords.c.weight)
    raw = weights * (_PER_WEIGHT * _SCALE) + sa.func.count() * (_PER_MATCH * _SCALE) + 0.5
    score = truncated(sa.case((raw < _SCALE, raw), else_=float(_SCALE))).label("score")
    return (
        sa.select(memory_keywords.c.row, score)
        .where(memory_keywords.c.owner == sa.bindparam("owner"), memory_keywords.c.term.in_(names))
        .group_by(memory_keywords.c.row)
        .order_by(score.desc(), memory_keywords.c.row)
    )


def _matching(connection: sa.Connection, rows: Sequence[int], reach: Reach, where: Filter | None) -> set[int]:
    place = (unindexed(memories.c.owner) == reach.owner, unindexed(memories.c.project_id).in_(reach.project_ids))
    statement = sa.select(memories.c.row).where(is_listed(memories.c.row, "rows"), *place)
    if where is not None:
        statement = statement.where(condition(where))
    return set(connection.execute(statement, {"rows": list_parameter(rows)}).scalars())
