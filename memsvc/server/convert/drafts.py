"""Memories on their way in: drafts, where a default value means that nothing was given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsvc.domain.drafts import Draft, OnDuplicate, WaitFor, WriteOptions
from memsvc.domain.memory import FileRef, Keyword
from memsvc.server.convert.enums import KIND, LAYER, ON_DUPLICATE, TIER, WAIT_FOR
from memsvc.server.convert.json import struct_from_proto
from memsvc.server.convert.times import span_from_proto, time_from_proto
from memsvc.server.convert.vectors import vector_from_proto
from memsvc.v1 import types_pb2 as types


def draft_from_proto(memory: types.Memory, vector: Sequence[float]) -> Draft:
    """Return what the caller gave of a memory that is to be written."""
    scope = memory.scope
    return Draft(
        content=memory.content,
        key=memory.key,
        project_id=scope.project_id or None,
        agent_id=scope.agent_id or None,
        session_id=scope.session_id or None,
        layer=LAYER.optional(memory.layer),
        kind=KIND.optional(memory.kind),
        category=memory.category or None,
        speaker=memory.speaker or None,
        title=memory.title or None,
        summary=memory.summary or None,
        tags=tuple(dict.fromkeys(memory.tags)) or None,
        keywords=keywords_from_proto(memory.keywords) or None,
        related_ids=ids_from_proto(memory.related_ids) or None,
        file_refs=file_refs_from_proto(memory.file_refs) or None,
        importance=memory.importance or None,
        tier=TIER.optional(memory.tier),
        confidence=memory.confidence if memory.HasField("confidence") else None,
        event_time=time_from_proto(memory.event_time) if memory.HasField("event_time") else None,
        expire_time=time_from_proto(memory.expire_time) if memory.HasField("expire_time") else None,
        ttl=span_from_proto(memory.ttl) if memory.HasField("ttl") else None,
        work_in_progress=memory.work_in_progress or None,
        source=memory.source or None,
        metadata=(struct_from_proto(memory.metadata) if memory.HasField("metadata") else None) or None,
        vector=vector_from_proto(vector),
    )


def keywords_from_proto(keywords: Iterable[types.Keyword]) -> tuple[Keyword, ...]:
    """Return the keywords in lower case, each once with its largest weight; heaviest first, equal ones by term."""
    weights: dict[str, float] = {}
    for keyword in keywords:
        term = keyword.term.lower()
        weights[term] = max(weights.get(term, 0.0), keyword.weight or 1.0)
    return tuple(
        Keyword(term, weight) for term, weight in sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))
    )


def ids_from_proto(ids: Iterable[str]) -> tuple[str, ...]:
    """Return UUIDs as they are stored, in lower case, each once, in order."""
    return tuple(dict.fromkeys(name.lower() for name in ids))


def file_refs_from_proto(refs: Iterable[types.FileRef]) -> tuple[FileRef, ...]:
    """Return references to files, each once, in order."""
    return tuple(dict.fromkeys(FileRef(ref.category, ref.id) for ref in refs))


def write_options(
    request_id: str, *, on_duplicate: int = 0, wait_for: int = 0, otherwise: WaitFor = WaitFor.INDEXED
) -> WriteOptions:
    """Return how to write; *otherwise* is what to wait for when the request does not say."""
    return WriteOptions(
        request_id=request_id,
        on_duplicate=ON_DUPLICATE.given(on_duplicate, OnDuplicate.RETURN_EXISTING),
        wait_for=WAIT_FOR.given(wait_for, otherwise),
    )
