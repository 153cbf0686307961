"""Conversion of entries to the points of a Qdrant server, and the operations that write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from qdrant_client import models

from memsvc.domain.index_entries import Attributes, View
from memsvc.domain.visibility import is_default_visible
from memsvc_backends.qdrant_common.points import FINGERPRINT, OWNER, PLAIN, PROJECT, STATUS, VIEW
from memsvc_backends.qdrant_server.filters import keyword, others_of


class PointEntry(Protocol):
    """An entry with a point id."""

    @property
    def entry_id(self) -> int:
        """Return the number of the entry, which is the point's too."""
        ...


E = TypeVar("E", bound=PointEntry)


def server_payload(attributes: Attributes, view: View | None = None) -> dict[str, Any]:
    """Return the payload of an entry. What the memory has not is left out."""
    payload: dict[str, Any] = {
        OWNER: keyword(attributes.owner),
        PROJECT: keyword(attributes.project_id),
        STATUS: attributes.status,
        "agent_id": keyword(attributes.agent_id),
        "session_id": keyword(attributes.session_id),
        "layer": attributes.layer,
        "kind": attributes.kind,
        "category": keyword(attributes.category),
        "tier": attributes.tier,
        "speaker": keyword(attributes.speaker),
        "tags": [keyword(tag) for tag in attributes.tags],
        "metadata": [keyword(value) for value in attributes.metadata],
        "row": attributes.row,
        "importance": attributes.importance,
        "confidence": attributes.confidence,
        "create_time": attributes.create_time,
        "update_time": attributes.update_time,
        FINGERPRINT: attributes.fingerprint,
    }
    if view is not None:
        payload[VIEW] = int(view)
    if is_default_visible(attributes):
        payload[PLAIN] = 1
    moments = {
        "event_time": attributes.event_time,
        "expire_time": attributes.expire_time,
        "valid_from": attributes.valid_from,
        "valid_to": attributes.valid_to,
    }
    payload.update({name: moment for name, moment in moments.items() if moment is not None})
    return payload


def operations(
    changes: Mapping[int, Sequence[E]], point_of: Callable[[E], models.PointStruct], *, size: int
) -> Iterator[list[models.UpdateOperation]]:
    """Cut a change into requests of about *size* points, each of whole memories.

    A request writes the points of its memories, then deletes their other points. It is idempotent.
    """
    rows: list[int] = []
    points: list[models.PointStruct] = []
    for row, entries in changes.items():
        rows.append(row)
        points.extend(point_of(entry) for entry in entries)
        if max(len(points), len(rows)) >= size:
            yield _request(rows, points)
            rows, points = [], []
    if rows:
        yield _request(rows, points)


def _request(rows: Sequence[int], points: list[models.PointStruct]) -> list[models.UpdateOperation]:
    kept = [int(point.id) for point in points]
    selector = models.FilterSelector(filter=others_of(rows, kept))
    found: list[models.UpdateOperation] = [models.DeleteOperation(delete=selector)]
    if points:
        found.insert(0, models.UpsertOperation(upsert=models.PointsList(points=points)))
    return found
