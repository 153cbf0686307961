"""What is loaded at a start, each sort by an index of its own that holds no other memories."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from backends.sql.codec import MEMORY_COLUMNS, memory_from_row
from backends.sql.tables import IS_ACTIVE_TIER, IS_CORE, IS_PREFERENCE, memories
from memsvc.domain.essentials import Essential
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Reach

_CONDITIONS: Mapping[Essential, sa.ColumnElement[bool]] = {
    Essential.CORE: IS_CORE,
    Essential.ACTIVE: IS_ACTIVE_TIER,
    Essential.PREFERENCE: IS_PREFERENCE,
}


def read_essentials(connection: sa.Connection, essential: Essential, reach: Reach, limit: int) -> list[Memory]:
    """Return the most important memories that are essential in that way."""
    found: list[Memory] = []
    for project in reach.project_ids:
        parameters = {"owner": reach.owner, "project": project, "most": limit}
        found += map(memory_from_row, connection.execute(_select(essential), parameters))
    return sorted(found, key=lambda memory: (-memory.importance, memory.row))[:limit]


@cache
def _select(essential: Essential) -> sa.Select[Any]:
    return (
        sa.select(*MEMORY_COLUMNS)
        .where(
            memories.c.owner == sa.bindparam("owner"),
            memories.c.project_id == sa.bindparam("project"),
            memories.c.status == Status.ACTIVE.value,
            memories.c.layer != Layer.SESSION.value,
            _CONDITIONS[essential],
        )
        # Sorted by hand: the list of all memories by importance is in this order too, and would be read for it.
        .order_by(sa.literal_column("-memories.importance"), memories.c.row)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )
