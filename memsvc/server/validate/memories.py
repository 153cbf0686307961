"""Rules for memories that are to be written."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TypeAlias

from memsvc.domain import limits
from memsvc.domain.memory_keys import fault_of
from memsvc.server.convert.enums import KIND, LAYER, ORIGIN, TIER
from memsvc.server.convert.vectors import Numbers
from memsvc.server.validate.file_refs import check_refs
from memsvc.server.validate.metadata import check_metadata
from memsvc.server.validate.reminders import check_reminder
from memsvc.server.validate.scopes import check_inner_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_integer,
    check_name,
    check_number,
    check_text,
    check_texts,
    check_time,
    check_ttl,
    check_uuids,
    check_vector,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import types_pb2 as types

UPDATABLE_STATUSES = frozenset(
    {types.MEMORY_STATUS_ACTIVE, types.MEMORY_STATUS_ARCHIVED, types.MEMORY_STATUS_QUARANTINED}
)

Rule: TypeAlias = Callable[[Violations, str, types.Memory], None]


def check_draft(
    found: Violations, memory: types.Memory, scope: types.Scope, vector: Numbers, *, dimension: int
) -> None:
    """Check a memory that is to be created in *scope*, and its vector. Output-only fields are ignored."""
    if memory.HasField("scope"):
        check_inner_scope(found, memory.scope, field="memory.scope")
        if memory.scope.user_id and memory.scope.user_id != scope.user_id:
            found.add("memory.scope.user_id", "must be empty or the request's user")
    if memory.layer == types.MEMORY_LAYER_SESSION and not (memory.scope.session_id or scope.session_id):
        found.add("memory.layer", "can be SESSION only with a session_id in the scope")
    # What is not given breaks no rule but the content's. Most memories have few fields, and imports many memories.
    given = {"content", *(descriptor.name for descriptor, _ in memory.ListFields())}
    for name, rule in CREATE_RULES.items():
        if name in given:
            rule(found, f"memory.{name}", memory)
    check_vector(found, "vector", vector, dimension)


def check_fields(found: Violations, memory: types.Memory, names: Container[str], *, path: str = "memory") -> None:
    """Check the named fields of a memory, which lies at *path* of its request."""
    for name, rule in RULES.items():
        if name in names:
            rule(found, f"{path}.{name}", memory)
    if memory.HasField("ttl") and "ttl" in names and memory.HasField("expire_time") and "expire_time" in names:
        found.add("memory.ttl", "must not be given together with expire_time")


def check_key(found: Violations, field: str, key: str, *, least: int = 0) -> None:
    """Check a key that a memory is to have: one that begins as those of daily logs and such do must be one of them."""
    check_name(found, field, key, most=limits.KEY, least=least)
    if fault := fault_of(key):
        found.add(field, fault)


def _key(found: Violations, field: str, memory: types.Memory) -> None:
    check_key(found, field, memory.key)


def _keywords(found: Violations, field: str, memory: types.Memory) -> None:
    check_count(found, field, memory.keywords, most=limits.KEYWORDS)
    for index, keyword in enumerate(memory.keywords[: limits.KEYWORDS]):
        check_text(found, f"{field}[{index}].term", keyword.term.lower(), most=limits.KEYWORD, least=1)
        check_number(found, f"{field}[{index}].weight", keyword.weight, most=1.0)


def _file_refs(found: Violations, field: str, memory: types.Memory) -> None:
    check_count(found, field, memory.file_refs, most=limits.FILE_REFS)
    check_refs(found, field, memory.file_refs[: limits.FILE_REFS])


def _confidence(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("confidence"):
        check_number(found, field, memory.confidence, most=1.0)


def _trust(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("trust"):
        check_number(found, field, memory.trust, most=1.0)


def _derived_from(found: Violations, field: str, memory: types.Memory) -> None:
    check_uuids(found, field, memory.derived_from, count=limits.DERIVED_FROM)


def _status(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.status and memory.status not in UPDATABLE_STATUSES:
        found.add(field, "can only be set to ACTIVE, ARCHIVED or QUARANTINED")


def _event_time(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("event_time"):
        check_time(found, field, memory.event_time)


def _expire_time(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("expire_time"):
        check_time(found, field, memory.expire_time)


def _valid_from(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("valid_from"):
        check_time(found, field, memory.valid_from)


def _valid_to(found: Violations, field: str, memory: types.Memory) -> None:
    if not memory.HasField("valid_to") or not check_time(found, field, memory.valid_to):
        return
    start = memory.valid_from
    ends = (memory.valid_to.seconds, memory.valid_to.nanos)
    if memory.HasField("valid_from") and ends <= (start.seconds, start.nanos):
        found.add(field, "must lie after valid_from")


def _reminder(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("reminder"):
        check_reminder(found, field, memory.reminder)


def _ttl(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("ttl"):
        check_ttl(found, field, memory.ttl)


def _ttl_alone(found: Violations, field: str, memory: types.Memory) -> None:
    _ttl(found, field, memory)
    if memory.HasField("ttl") and memory.HasField("expire_time"):
        found.add(field, "must not be given together with expire_time")


def _tags(found: Violations, field: str, memory: types.Memory) -> None:
    check_texts(found, field, memory.tags, count=limits.TAGS, most=limits.TAG, least=1)


def _importance(found: Violations, field: str, memory: types.Memory) -> None:
    check_integer(found, field, memory.importance, least=limits.IMPORTANCE_MIN, most=limits.IMPORTANCE_MAX)


def _metadata(found: Violations, field: str, memory: types.Memory) -> None:
    if memory.HasField("metadata"):
        check_metadata(found, field, memory.metadata)


RULES: Mapping[str, Rule] = {
    "key": _key,
    "layer": lambda found, field, memory: check_enum(found, field, memory.layer, LAYER.from_proto),
    "kind": lambda found, field, memory: check_enum(found, field, memory.kind, KIND.from_proto),
    "category": lambda found, field, memory: check_text(found, field, memory.category, most=limits.CATEGORY),
    "speaker": lambda found, field, memory: check_text(found, field, memory.speaker, most=limits.SPEAKER),
    "title": lambda found, field, memory: check_text(found, field, memory.title, most=limits.TITLE),
    "content": lambda found, field, memory: check_text(found, field, memory.content, most=limits.CONTENT, least=1),
    "summary": lambda found, field, memory: check_text(found, field, memory.summary, most=limits.SUMMARY),
    "tags": _tags,
    "keywords": _keywords,
    "related_ids": lambda found, field, memory: check_uuids(found, field, memory.related_ids, count=limits.RELATED_IDS),
    "file_refs": _file_refs,
    "importance": _importance,
    "tier": lambda found, field, memory: check_enum(found, field, memory.tier, TIER.from_proto),
    "confidence": _confidence,
    "status": _status,
    "event_time": _event_time,
    "expire_time": _expire_time,
    "valid_from": _valid_from,
    "valid_to": _valid_to,
    "ttl": _ttl,
    "origin": lambda found, field, memory: check_enum(found, field, memory.origin, ORIGIN.from_proto),
    "trust": _trust,
    "derived_from": _derived_from,
    "reminder": _reminder,
    "source": lambda found, field, memory: check_text(found, field, memory.source, most=limits.SOURCE),
    "metadata": _metadata,
}
"""The rule of each field that a client may set."""

CREATE_RULES: Mapping[str, Rule] = {
    **{name: rule for name, rule in RULES.items() if name != "status"},
    "ttl": _ttl_alone,
}
"""The rules of a memory that is new: its status is not the client's."""
