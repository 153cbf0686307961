"""Lists, page by page.

A list is read in two parts, the memories that have the order's value and then those that have not, each from an
index that is in the order already: a page in the middle costs what the first one costs. The projects of a reach
are read side by side and merged.
"""

from __future__ import annotations

import sqlalchemy as sa

from memsvc.domain.filters import And, AnyOf, Field, Filter
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order, PageCursor
from memsvc_backends.sql.dialect import unindexed
from memsvc_backends.sql.elements import NUMBER
from memsvc_backends.sql.filters import Condition, condition
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.tables import memories


def read_page(
    connection: sa.Connection, reach: Reach, where: Filter | None, order: Order, after: PageCursor | None, limit: int
) -> list[Memory]:
    """Return the memories that come after the cursor."""
    if not reach.project_ids:
        return []
    column = _ordered_by(order, where)
    is_nullable = memories.c[order.field.value].nullable
    matching = sa.true() if where is None else condition(where)
    found: list[Memory] = []
    if after is None or after.value is not None:
        present = column.is_not(None) if is_nullable else sa.true()
        wanted = sa.and_(matching, present, _follows(column, order, after))
        found = _read(connection, reach, wanted, column, order, limit)
    if is_nullable and len(found) < limit:
        wanted = sa.and_(matching, column.is_(None))
        if after is not None and after.value is None:
            wanted = sa.and_(wanted, memories.c.row > after.row)
        found += _read(connection, reach, wanted, column, order, limit - len(found))
    return found


def _ordered_by(order: Order, where: Filter | None) -> sa.ColumnElement[int]:
    column: sa.ColumnElement[int] = memories.c[order.field.value]
    # A session is short: better to sort what its index gives than to look for it in a list of everything.
    return unindexed(column) if _names_sessions(where) else column


def _names_sessions(where: Filter | None) -> bool:
    if isinstance(where, And):
        return any(_names_sessions(child) for child in where.children)
    return isinstance(where, AnyOf) and where.field is Field.SESSION_ID and all(where.values)


def _follows(column: sa.ColumnElement[int], order: Order, after: PageCursor | None) -> Condition:
    if after is None or after.value is None:
        return sa.true()
    row, value = memories.c.row, sa.literal(after.value, NUMBER)
    if order.descending:
        # The first half is implied by the second, and lets the index be entered at the cursor.
        return sa.and_(column <= value, sa.or_(column < value, row > after.row))
    return sa.and_(column >= value, sa.or_(column > value, row > after.row))


def _read(
    connection: sa.Connection,
    reach: Reach,
    wanted: Condition,
    column: sa.ColumnElement[int],
    order: Order,
    limit: int,
) -> list[Memory]:
    parts = [
        sa.select(column.label("value"), memories.c.row.label("number")).where(
            memories.c.owner == reach.owner, memories.c.project_id == project, wanted
        )
        for project in reach.project_ids
    ]
    keys = (parts[0] if len(parts) == 1 else sa.union_all(*parts)).subquery("keys")
    first = sa.select(keys).order_by(*_in_order(keys, order)).limit(limit)
    chosen = first.subquery("chosen")
    joined = sa.join(chosen, memories, memories.c.row == chosen.c.number)
    statement = sa.select(*MEMORY_COLUMNS).select_from(joined).order_by(*_in_order(chosen, order))
    return [memory_from_row(row) for row in connection.execute(statement)]


def _in_order(keys: sa.Subquery, order: Order) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    return (keys.c.value.desc() if order.descending else keys.c.value.asc()), keys.c.number.asc()
