"""Memories on their way in: drafts, where a default value means that nothing was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import FileRef, Keyword, Status
from memsvc.domain.provenance import DIGITS
from memsvc.domain.write_requests import Draft, OnDuplicate, WaitFor, WriteOptions
from memsvc.server.convert.enums import CONFLICT_POLICY, KIND, LAYER, ON_DUPLICATE, ORIGIN, TIER, WAIT_FOR
from memsvc.server.convert.json import struct_from_proto
from memsvc.server.convert.reminders import reminder_from_proto
from memsvc.server.convert.scope import own_project
from memsvc.server.convert.times import span_from_proto, time_from_proto
from memsvc.server.convert.vectors import Numbers, vector_from_proto
from memsvc.v1 import types_pb2 as types


def draft_from_proto(memory: types.Memory, numbers: Numbers) -> Draft:
    """Return what the caller gave of a memory that is to be written, and its vector."""
    # Only the fields that are given are looked at: looking at all took longer than storing their values does.
    given = {descriptor.name: value for descriptor, value in memory.ListFields()}
    scope = given.get("scope", _NOWHERE)
    values = {name: read(given[name]) for name, read in _VALUES.items() if name in given}
    return Draft(
        content=memory.content,
        project_id=own_project(scope),
        agent_id=scope.agent_id or None,
        session_id=scope.session_id or None,
        vector=vector_from_proto(numbers),
        **values,
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


def trust_from_proto(trust: float) -> float:
    """Return a trust as it is kept."""
    return round(trust, DIGITS)


def file_refs_from_proto(refs: Iterable[types.FileRef]) -> tuple[FileRef, ...]:
    """Return references to files, each once, in order."""
    return tuple(dict.fromkeys(FileRef(ref.category, ref.id) for ref in refs))


def write_options(
    request_id: str,
    *,
    on_duplicate: int = 0,
    wait_for: int = 0,
    conflict_policy: int = 0,
    otherwise: WaitFor = WaitFor.INDEXED,
) -> WriteOptions:
    """Return how to write; *otherwise* is what to wait for when the request does not say."""
    return WriteOptions(
        request_id=request_id,
        on_duplicate=ON_DUPLICATE.given(on_duplicate, OnDuplicate.RETURN_EXISTING),
        wait_for=WAIT_FOR.given(wait_for, otherwise),
        on_conflict=CONFLICT_POLICY.given(conflict_policy, ConflictPolicy.MARK),
    )


_NOWHERE = types.Scope()
_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "key": str,
    "layer": LAYER.optional,
    "kind": KIND.optional,
    "category": str,
    "speaker": str,
    "title": str,
    "summary": str,
    "tags": lambda tags: tuple(dict.fromkeys(tags)),
    "keywords": keywords_from_proto,
    "related_ids": ids_from_proto,
    "file_refs": file_refs_from_proto,
    "importance": int,
    "tier": TIER.optional,
    "confidence": float,
    "event_time": time_from_proto,
    "expire_time": time_from_proto,
    "valid_from": time_from_proto,
    "valid_to": time_from_proto,
    "ttl": span_from_proto,
    "work_in_progress": bool,
    "reminder": reminder_from_proto,
    "source": str,
    "origin": ORIGIN.optional,
    "trust": trust_from_proto,
    "derived_from": ids_from_proto,
    # The only status that a new memory can ask for; what else is set is output of an earlier reply.
    "status": lambda status: Status.QUARANTINED if status == types.MEMORY_STATUS_QUARANTINED else None,
    "metadata": lambda metadata: struct_from_proto(metadata) or None,
}
"""How a field that is given is read."""
