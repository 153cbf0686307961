"""The columns that hold an entry's attributes, the same in the tables of both indexes."""

from __future__ import annotations

from typing import Any

from memsvc.domain.index_entries import Attributes
from memsvc_backends.postgres_index.strings import all_held, held, key_of

COLUMNS = (
    ("entry", "bigint", "NOT NULL"),
    ("owner_key", "bigint", "NOT NULL"),
    ("owner", "text", "NOT NULL"),
    ("project_id", "text", "NOT NULL"),
    ("agent_id", "text", "NOT NULL"),
    ("session_id", "text", "NOT NULL"),
    ("layer", "text", "NOT NULL"),
    ("kind", "text", "NOT NULL"),
    ("category", "text", "NOT NULL"),
    ("tier", "text", "NOT NULL"),
    ("status", "text", "NOT NULL"),
    ("speaker", "text", "NOT NULL"),
    ("tags", "text[]", "NOT NULL"),
    ("metadata", "text[]", "NOT NULL"),
    ("importance", "bigint", "NOT NULL"),
    ("confidence", "float8", "NOT NULL"),
    ("create_time", "bigint", "NOT NULL"),
    ("update_time", "bigint", "NOT NULL"),
    ("event_time", "bigint", ""),
    ("expire_time", "bigint", ""),
    ("valid_from", "bigint", ""),
    ("valid_to", "bigint", ""),
    ("fingerprint", "bigint", "NOT NULL"),
)
"""Name, type and constraint of each; the memory's row is the upper part of the entry's number."""
NAMES = tuple(name for name, _, _ in COLUMNS)
TYPES = tuple(kind for _, kind, _ in COLUMNS)
DEFINITIONS = ", ".join(f"{name} {kind} {constraint}" for name, kind, constraint in COLUMNS)


def values_of(entry: int, attributes: Attributes) -> tuple[Any, ...]:
    """Return the values of `COLUMNS` in their order."""
    a = attributes
    owner = held(a.owner)
    return (
        entry,
        key_of(owner),
        owner,
        held(a.project_id),
        held(a.agent_id),
        held(a.session_id),
        held(a.layer),
        held(a.kind),
        held(a.category),
        held(a.tier),
        held(a.status),
        held(a.speaker),
        all_held(a.tags),
        all_held(a.metadata),
        a.importance,
        float(a.confidence),
        a.create_time,
        a.update_time,
        a.event_time,
        a.expire_time,
        a.valid_from,
        a.valid_to,
        a.fingerprint,
    )
