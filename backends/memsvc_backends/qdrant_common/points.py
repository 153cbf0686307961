"""From entries to Qdrant's points: the number, the vector, and the payload that filters test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from memsvc.domain.errors import DimensionMismatchError
from memsvc.domain.filters import Field
from memsvc.domain.index_entries import Attributes, View
from memsvc.domain.visibility import is_default_visible
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vector
from memsvc_backends.qdrant_common.filters import (
    OWNER,
    PLAIN,
    PROJECT,
    SEALED_TERM,
    STATUS,
    TERMS,
    VIEW,
    bounded_term,
    terms_of,
)

Payload: TypeAlias = dict[str, str | float]
Changes: TypeAlias = Mapping[int, Sequence[VectorEntry]]

FINGERPRINT = "fingerprint"


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a change, small enough to be made between two searches.

    Attributes:
        ids: The points to write.
        payloads: One for each point.
        vectors: The points' vectors, one behind the other, as float32 bytes.
        memories: The memories that are complete with this slice: row, and the ids it shall have and no others.
    """

    ids: list[int]
    payloads: list[Payload]
    vectors: bytes
    memories: list[tuple[int, list[int]]]


def payload_of(attributes: Attributes, view: View, marks: Sequence[str] = ()) -> Payload:
    """Return the payload of an entry with *marks* among its terms. Numbers that the memory has not are left out."""
    told = [
        ("agent_id", attributes.agent_id),
        ("session_id", attributes.session_id),
        ("layer", attributes.layer),
        ("kind", attributes.kind),
        ("category", attributes.category),
        ("tier", attributes.tier),
        ("speaker", attributes.speaker),
        *[("tags", tag) for tag in attributes.tags],
        *[("metadata", value) for value in attributes.metadata],
    ]
    terms = [*marks, *terms_of(told)]
    bounds: Payload = {}
    if attributes.valid_from is not None:
        terms.append(bounded_term(Field.VALID_FROM))
        bounds[Field.VALID_FROM.value] = attributes.valid_from
    if attributes.valid_to is not None:
        terms.append(bounded_term(Field.VALID_TO))
        bounds[Field.VALID_TO.value] = attributes.valid_to
    payload: Payload = {
        **bounds,
        OWNER: str(attributes.owner),
        PROJECT: attributes.project_id,
        VIEW: int(view),
        STATUS: attributes.status,
        TERMS: " ".join(terms),
        "row": attributes.row,
        "importance": attributes.importance,
        "confidence": attributes.confidence,
        "create_time": attributes.create_time,
        "update_time": attributes.update_time,
        FINGERPRINT: attributes.fingerprint,
    }
    if is_default_visible(attributes):
        payload[PLAIN] = 1
    if attributes.event_time is not None:
        payload["event_time"] = attributes.event_time
    if attributes.expire_time is not None:
        payload["expire_time"] = attributes.expire_time
    return payload


def require_dimension(vector: Vector, dimension: int) -> None:
    """Raise DimensionMismatchError unless the vector has this length."""
    if vector.shape != (dimension,):
        raise DimensionMismatchError(dimension, vector.size)


def vector_bytes(vectors: Sequence[Vector]) -> bytes:
    """Return the vectors, one behind the other, as float32 bytes."""
    return np.asarray(vectors, dtype=np.float32).tobytes()


def slices_of(changes: Changes, *, dimension: int, size: int, is_bulk: bool = False) -> Iterator[Slice]:
    """Cut a change into slices of at most *size* points and *size* memories.

    Args:
        changes: The entries by the row of their memory.
        dimension: The length that every vector must have.
        size: How much a slice holds at most.
        is_bulk: Whether the points are marked as ones that the generation was sealed with.

    Raises:
        DimensionMismatchError: A vector has another length; raised here, before there is any slice.
    """
    for entries in changes.values():
        for entry in entries:
            require_dimension(entry.vector, dimension)
    return (_slice(entries, memories, is_bulk=is_bulk) for entries, memories in _cut(changes, size))


def _cut(changes: Changes, size: int) -> Iterator[tuple[list[VectorEntry], list[tuple[int, list[int]]]]]:
    batch: list[VectorEntry] = []
    memories: list[tuple[int, list[int]]] = []
    for row, entries in changes.items():
        for entry in entries:
            if len(batch) == size:
                yield batch, memories
                batch, memories = [], []
            batch.append(entry)
        memories.append((row, [entry.entry_id for entry in entries]))
        if len(memories) == size:
            yield batch, memories
            batch, memories = [], []
    if batch or memories:
        yield batch, memories


def _slice(entries: Sequence[VectorEntry], memories: list[tuple[int, list[int]]], *, is_bulk: bool) -> Slice:
    marks = [SEALED_TERM] if is_bulk else []
    return Slice(
        ids=[entry.entry_id for entry in entries],
        payloads=[payload_of(entry.attributes, entry.view, marks) for entry in entries],
        vectors=vector_bytes([entry.vector for entry in entries]),
        memories=memories,
    )
