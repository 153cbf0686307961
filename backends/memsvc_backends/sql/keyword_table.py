"""Searching the keyword table."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Hit, View, entry_id
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import parted
from memsvc_backends.sql.dialect import is_listed, list_parameter, truncated, unindexed
from memsvc_backends.sql.filters import condition
from memsvc_backends.sql.ranking_columns import CandidateColumns
from memsvc_backends.sql.tables import memories, memory_keywords

_SCALE = 1_000_000_000
"""Scores are compared as whole numbers: sums of fractions differ in the last bits with the order of adding."""
_PER_WEIGHT = 0.3
_PER_MATCH = 0.2


@dataclass(frozen=True, slots=True)
class Matching:
    """Which memories of a search match.

    Attributes:
        reach: Where they lie.
        where: What they meet; None: nothing in particular.
        known: What is kept of memories: of plain ones, most of them, it is known whether they match.
    """

    reach: Reach
    where: Filter | None
    known: CandidateColumns

    def among(self, connection: sa.Connection, rows: Sequence[int]) -> AbstractSet[int]:
        """Return those of *rows* that match."""
        is_met_by_plain = self.where is None or not parted(self.where)[1]
        found = self.known.plain(rows, self.reach) if is_met_by_plain else frozenset[int]()
        if unknown := [row for row in rows if row not in found]:
            parameters = {"rows": list_parameter(unknown)}
            found |= set(connection.execute(self._statement(), parameters).scalars())
        return found

    def _statement(self) -> sa.Select[Any]:
        owner, projects = unindexed(memories.c.owner), unindexed(memories.c.project_id)
        place = (owner == self.reach.owner, projects.in_(self.reach.project_ids))
        statement = sa.select(memories.c.row).where(is_listed(memories.c.row, "rows"), *place)
        return statement if self.where is None else statement.where(condition(self.where))


def search_keywords(connection: sa.Connection, terms: Sequence[str], wanted: Matching, limit: int) -> list[Hit]:
    """Return the best hits; deleted memories have no keywords in the table.

    The ranking needs the table alone. Memories are looked up from the top down, and only until enough are found
    that match: a common word may be a keyword of everything that its owner has.
    """
    names = dict.fromkeys(terms)
    parameters = {f"term_{number}": term for number, term in enumerate(names)} | {"owner": wanted.reach.owner}
    ranked = connection.execute(_ranking(len(names)), parameters).all()
    hits: list[Hit] = []
    for start in range(0, len(ranked), size := 2 * limit):
        batch = ranked[start : start + size]
        matching = wanted.among(connection, [row for row, _ in batch])
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
