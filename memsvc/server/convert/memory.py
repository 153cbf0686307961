"""Memories on their way out.

Messages are filled where they lie: one that is built by itself and then put into another is copied, which takes as
long again as the building.
"""

from __future__ import annotations

from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.server.convert.enums import KIND, LAYER, ORIGIN, REVIEWS, STATUS, TIER
from memsvc.server.convert.json import struct_to_proto
from memsvc.server.convert.reminders import fill_reminder
from memsvc.server.convert.times import fill_time
from memsvc.v1 import types_pb2 as types


def memory_to_proto(memory: Memory) -> types.Memory:
    """Return the memory as replies show it."""
    message = types.Memory()
    fill_memory(message, memory)
    return message


def fill_memory(message: types.Memory, memory: Memory) -> None:
    """Make an empty message the memory as replies show it."""
    message.id = memory.id
    fill_scope(message.scope, memory.scope)
    message.layer = LAYER.to_proto[memory.layer]
    message.kind = KIND.to_proto[memory.kind]
    message.content = memory.content
    message.importance = memory.importance
    message.tier = TIER.to_proto[memory.tier]
    message.confidence = memory.confidence
    message.status = STATUS.to_proto[memory.status]
    fill_time(message.create_time, memory.create_time)
    fill_time(message.update_time, memory.update_time)
    message.content_hash = memory.content_hash
    message.revision = memory.revision
    message.origin = ORIGIN.to_proto[memory.origin]
    message.trust = memory.trust
    _fill_texts(message, memory)
    _fill_lists(message, memory)
    _fill_the_rest(message, memory)


def fill_scope(message: types.Scope, scope: Scope) -> None:
    """Fill in whose memory it is; the tenant is the caller's own and stays out."""
    message.user_id = scope.user_id
    if scope.project_id:
        message.project_id = scope.project_id
    if scope.agent_id:
        message.agent_id = scope.agent_id
    if scope.session_id:
        message.session_id = scope.session_id


def _fill_texts(message: types.Memory, memory: Memory) -> None:
    """Fill in the texts that may well be empty: looking is cheaper than setting."""
    if memory.key:
        message.key = memory.key
    if memory.category:
        message.category = memory.category
    if memory.speaker:
        message.speaker = memory.speaker
    if memory.title:
        message.title = memory.title
    if memory.summary:
        message.summary = memory.summary
    if memory.source:
        message.source = memory.source
    if memory.supersedes_id:
        message.supersedes_id = memory.supersedes_id
    if memory.superseded_by_id:
        message.superseded_by_id = memory.superseded_by_id


def _fill_lists(message: types.Memory, memory: Memory) -> None:
    if memory.tags:
        message.tags.extend(memory.tags)
    if memory.keywords:
        add = message.keywords.add
        for word in memory.keywords:
            add(term=word.term, weight=word.weight)
    if memory.related_ids:
        message.related_ids.extend(memory.related_ids)
    if memory.derived_from:
        message.derived_from.extend(memory.derived_from)
    for ref in memory.file_refs:
        message.file_refs.add(category=ref.category, id=ref.id)
    if memory.reminder is not None:
        fill_reminder(message.reminder, memory.reminder)


def _fill_the_rest(message: types.Memory, memory: Memory) -> None:
    if memory.access_count:
        message.access_count = memory.access_count
    if memory.access_time is not None:
        fill_time(message.access_time, memory.access_time)
    if memory.event_time is not None:
        fill_time(message.event_time, memory.event_time)
    if memory.expire_time is not None:
        fill_time(message.expire_time, memory.expire_time)
    if memory.review:
        message.review = REVIEWS[memory.review]
    if memory.valid_from is not None:
        fill_time(message.valid_from, memory.valid_from)
    if memory.valid_to is not None:
        fill_time(message.valid_to, memory.valid_to)
    if memory.work_in_progress:
        message.work_in_progress = True
    if memory.metadata:
        message.metadata.CopyFrom(struct_to_proto(memory.metadata))
