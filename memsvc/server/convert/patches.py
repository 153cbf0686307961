"""Updates: a field mask and new values, as a patch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memsvc.domain.memory import Layer, Origin, Status, Tier
from memsvc.domain.write_requests import PATCHABLE, Patch, PatchValue
from memsvc.server.convert.drafts import (
    file_refs_from_proto,
    ids_from_proto,
    keywords_from_proto,
    trust_from_proto,
)
from memsvc.server.convert.enums import KIND, LAYER, ORIGIN, STATUS, TIER
from memsvc.server.convert.json import struct_from_proto
from memsvc.server.convert.reminders import reminder_from_proto
from memsvc.server.convert.times import span_from_proto, time_from_proto
from memsvc.server.convert.vectors import numbers_from_proto, vector_from_proto
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import types_pb2 as types

DEFAULT_IMPORTANCE = 3

_VALUES: Mapping[str, Callable[[types.Memory], PatchValue]] = {
    "layer": lambda memory: LAYER.given(memory.layer, Layer.LONG_TERM),
    "kind": lambda memory: KIND.optional(memory.kind),
    "tags": lambda memory: tuple(dict.fromkeys(memory.tags)),
    "keywords": lambda memory: keywords_from_proto(memory.keywords),
    "related_ids": lambda memory: ids_from_proto(memory.related_ids),
    "file_refs": lambda memory: file_refs_from_proto(memory.file_refs),
    "importance": lambda memory: memory.importance or DEFAULT_IMPORTANCE,
    "tier": lambda memory: TIER.given(memory.tier, Tier.CONTEXTUAL),
    "confidence": lambda memory: memory.confidence if memory.HasField("confidence") else 1.0,
    "origin": lambda memory: ORIGIN.given(memory.origin, Origin.AGENT),
    "trust": lambda memory: trust_from_proto(memory.trust) if memory.HasField("trust") else None,
    "derived_from": lambda memory: ids_from_proto(memory.derived_from),
    "status": lambda memory: STATUS.given(memory.status, Status.ACTIVE),
    "event_time": lambda memory: time_from_proto(memory.event_time) if memory.HasField("event_time") else None,
    "expire_time": lambda memory: time_from_proto(memory.expire_time) if memory.HasField("expire_time") else None,
    "valid_from": lambda memory: time_from_proto(memory.valid_from) if memory.HasField("valid_from") else None,
    "valid_to": lambda memory: time_from_proto(memory.valid_to) if memory.HasField("valid_to") else None,
    "reminder": lambda memory: reminder_from_proto(memory.reminder) if memory.HasField("reminder") else None,
    "metadata": lambda memory: struct_from_proto(memory.metadata),
    "ttl": lambda memory: span_from_proto(memory.ttl) if memory.HasField("ttl") else None,
}
"""How a field is read where it is not simply a text or a boolean; a field without a value gives its default."""


def masked_fields(request: pb.UpdateMemoryRequest) -> list[str]:
    """Return the names of the fields to change: those of the mask, or without one all that are given.

    A key given without an id names the memory; it is then no change.
    """
    if request.update_mask.paths:
        return list(dict.fromkeys(request.update_mask.paths))
    given = {descriptor.name for descriptor, _ in request.memory.ListFields()} & PATCHABLE
    if not request.memory.id:
        given.discard("key")
    if not request.memory.metadata.fields:
        given.discard("metadata")
    return sorted(given)


def patch_from_proto(request: pb.UpdateMemoryRequest) -> Patch:
    """Return what an update changes. A kind without a value is None: the default of a memory with its speaker."""
    memory = request.memory
    fields = masked_fields(request)
    values: dict[str, PatchValue] = {}
    for name in fields:
        read = _VALUES.get(name)
        values[name] = read(memory) if read else getattr(memory, name)
    return Patch(values=values, vector=vector_from_proto(numbers_from_proto(request)))
