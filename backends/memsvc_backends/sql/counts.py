"""Counting memories."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from memsvc.domain.diagnostics import MemoryCounts
from memsvc.domain.memory import Layer, Status
from memsvc.domain.scope import Reach
from memsvc_backends.sql.filters import within
from memsvc_backends.sql.tables import memories

_BYTES_PER_TOKEN = 4
_GROUPS = (memories.c.layer, memories.c.kind, memories.c.tier, memories.c.status)


def count_memories(connection: sa.Connection, reach: Reach) -> MemoryCounts:
    """Count the memories of *reach*, deleted ones only by status; a token is taken for four bytes of content."""
    tokens = (memories.c.content_bytes + (_BYTES_PER_TOKEN - 1)) // _BYTES_PER_TOKEN
    sums = (sa.func.sum(memories.c.content_bytes), sa.func.sum(tokens), sa.func.sum(memories.c.chunk_count))
    statement = sa.select(*_GROUPS, sa.func.count(), *sums).where(within(reach)).group_by(*_GROUPS)
    layers, kinds, tiers, statuses = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    layer_tokens = Counter[str]()
    content_bytes = chunks = 0
    for layer, kind, tier, status, number, size, token_count, chunk_count in connection.execute(statement):
        statuses[status] += number
        if status == Status.DELETED.value:
            continue
        layers[layer] += number
        kinds[kind] += number
        tiers[tier] += number
        layer_tokens[layer] += int(token_count)
        content_bytes += int(size)
        chunks += int(chunk_count)
    return MemoryCounts(
        total=layers.total(),
        by_layer=dict(layers),
        by_kind=dict(kinds),
        by_tier=dict(tiers),
        by_status=dict(statuses),
        content_bytes=content_bytes,
        core_tokens=layer_tokens[Layer.CORE.value],
        session_tokens=layer_tokens[Layer.SESSION.value],
        chunks=chunks,
    )
