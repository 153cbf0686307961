"""Memories on their way out."""

from __future__ import annotations

from memsvc.domain.memory import Memory
from memsvc.server.convert.enums import KIND, LAYER, STATUS, TIER
from memsvc.server.convert.json import struct_to_proto
from memsvc.server.convert.scope import scope_to_proto
from memsvc.server.convert.times import time_to_proto
from memsvc.v1 import types_pb2 as types


def memory_to_proto(memory: Memory) -> types.Memory:
    """Return the memory as replies show it."""
    message = types.Memory(
        id=memory.id,
        key=memory.key,
        scope=scope_to_proto(memory.scope),
        layer=LAYER.to_proto[memory.layer],
        kind=KIND.to_proto[memory.kind],
        category=memory.category,
        speaker=memory.speaker,
        title=memory.title,
        content=memory.content,
        summary=memory.summary,
        importance=memory.importance,
        tier=TIER.to_proto[memory.tier],
        confidence=memory.confidence,
        status=STATUS.to_proto[memory.status],
        access_count=memory.access_count,
        create_time=time_to_proto(memory.create_time),
        update_time=time_to_proto(memory.update_time),
        work_in_progress=memory.work_in_progress,
        content_hash=memory.content_hash,
        source=memory.source,
        supersedes_id=memory.supersedes_id,
        superseded_by_id=memory.superseded_by_id,
        revision=memory.revision,
    )
    _add_what_is_rare(message, memory)
    return message


def _add_what_is_rare(message: types.Memory, memory: Memory) -> None:
    """Add the fields that most memories lack: looking is cheaper than making empty ones."""
    if memory.tags:
        message.tags.extend(memory.tags)
    if memory.keywords:
        for word in memory.keywords:
            message.keywords.add(term=word.term, weight=word.weight)
    if memory.related_ids:
        message.related_ids.extend(memory.related_ids)
    if memory.file_refs:
        for ref in memory.file_refs:
            message.file_refs.add(category=ref.category, id=ref.id)
    times = (
        (message.access_time, memory.access_time),
        (message.event_time, memory.event_time),
        (message.expire_time, memory.expire_time),
    )
    for target, moment in times:
        if moment is not None:
            target.CopyFrom(time_to_proto(moment))
    if memory.metadata:
        message.metadata.CopyFrom(struct_to_proto(memory.metadata))
