"""What indexes hold: entries, their numbers, and the attributes that filters test.

An index holds entries, several for a memory: one for each chunk, and more when the setting asks for richer
views. An entry's number is made of the memory's row, the view and the ordinal, so it is known without asking
anybody, the same on every replay, and leads back to the memory by a shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import metadata_terms
from memsvc.domain.memory import Memory, fingerprint

ORDINAL_BITS = 14
VIEW_BITS = 2
MAX_ORDINAL = (1 << ORDINAL_BITS) - 1


class View(IntEnum):
    """Which text of a memory a vector stands for."""

    CHUNK = 0
    """A whole chunk with its date, speaker and headings: the one that is always there."""
    SENTENCES = 1
    """A run of sentences within a chunk (tier E)."""
    WINDOW = 2
    """The previous line of the session and the own (tier E)."""


def entry_id(row: int, view: View, ordinal: int) -> int:
    """Return the number of an entry: positive, below 2**63, ascending by row, view and ordinal."""
    return (row << VIEW_BITS | view) << ORDINAL_BITS | ordinal


def row_of(entry: int) -> int:
    """Return the row of the memory that an entry belongs to."""
    return entry >> (VIEW_BITS + ORDINAL_BITS)


def ordinal_of(entry: int) -> int:
    """Return an entry's ordinal within its memory and view."""
    return entry & MAX_ORDINAL


class Attributes(NamedTuple):
    """The filterable fields of a memory as an index keeps them beside each entry.

    A tuple, which is made in a fraction of the time. Times are microseconds since the epoch; None where the memory
    has none. *metadata* holds one canonical string for each scalar of the memory's metadata: see
    `memsvc.domain.filters.metadata_term`.
    """

    row: int
    owner: str
    project_id: str
    agent_id: str
    session_id: str
    layer: str
    kind: str
    category: str
    tier: str
    status: str
    speaker: str
    tags: tuple[str, ...]
    metadata: tuple[str, ...]
    importance: int
    confidence: float
    create_time: int
    update_time: int
    event_time: int | None
    expire_time: int | None
    valid_from: int | None
    valid_to: int | None
    fingerprint: int


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """The analysed terms of one chunk, in order; repeating a term raises its weight."""

    entry_id: int
    terms: Sequence[str]
    attributes: Attributes


class Hit(NamedTuple):
    """An entry that a retriever found; a larger score is a better hit."""

    entry_id: int
    score: float


def attributes_of(memory: Memory) -> Attributes:
    """Return the filterable fields of *memory*."""
    scope = memory.scope
    return Attributes(
        row=memory.row,
        owner=scope.owner,
        project_id=scope.project_id,
        agent_id=scope.agent_id,
        session_id=scope.session_id,
        # str() of these enums is their value, and takes a quarter of the time of asking for it.
        layer=str(memory.layer),
        kind=str(memory.kind),
        category=memory.category,
        tier=str(memory.tier),
        status=str(memory.status),
        speaker=memory.speaker,
        tags=memory.tags,
        metadata=metadata_terms(memory.metadata) if memory.metadata else (),
        importance=memory.importance,
        confidence=memory.confidence,
        create_time=to_micros(memory.create_time),
        update_time=to_micros(memory.update_time),
        event_time=None if memory.event_time is None else to_micros(memory.event_time),
        expire_time=None if memory.expire_time is None else to_micros(memory.expire_time),
        valid_from=None if memory.valid_from is None else to_micros(memory.valid_from),
        valid_to=None if memory.valid_to is None else to_micros(memory.valid_to),
        fingerprint=fingerprint(memory),
    )
