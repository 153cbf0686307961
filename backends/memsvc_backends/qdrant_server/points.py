"""Conversion of entries to the points of a Qdrant server, and of the filter tree to its filters.

Every filtered field has a payload field of its own name, with an index. Strings are whole keywords, the long ones as a
digest. Numbers are compared as Qdrant does it, as doubles: see `memsvc_backends.qdrant_common.points`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from qdrant_client import models

from memsvc.domain.filters import NUMBERS, And, AnyOf, Field, Filter, Or, Range
from memsvc.domain.index_entries import Attributes, View
from memsvc.domain.memory import Layer, Status, Tier
from memsvc.domain.scope import OWNER_SEPARATOR, Reach
from memsvc.domain.visibility import is_default_visible, split_default_visible
from memsvc_backends.qdrant_common.points import (
    FINGERPRINT,
    FIRST,
    OWNER,
    PLAIN,
    PROJECT,
    STATUS,
    VIEW,
    FilterPart,
    bounds_of,
    parts_of,
)

NOTHING = models.HasIdCondition(has_id=[])
"""The condition that no point meets. An empty list of "should" would be no condition at all."""
ROW = Field.ROW.value
KEYWORDS = (
    PROJECT, "agent_id", "session_id", "layer", "kind", "category", "tier", STATUS, "speaker", "tags", "metadata",
)  # fmt: skip
LOOKED_UP = (ROW, VIEW, "importance")
"""The whole numbers that are matched exactly as well as compared."""
BINDING = ("expire_time", "valid_from", "valid_to")
"""The times that no plain memory has."""
MATCHED = (PLAIN,)
"""The whole numbers that are only matched."""
PLAIN_POINTS = models.Filter(
    must=[models.FieldCondition(key=STATUS, match=models.MatchValue(value=Status.ACTIVE.value))],
    must_not=[
        models.FieldCondition(key=Field.TIER.value, match=models.MatchValue(value=Tier.ARCHIVED.value)),
        models.FieldCondition(key=Field.LAYER.value, match=models.MatchValue(value=Layer.SESSION.value)),
        *(models.FieldCondition(key=name, range=models.Range(gte=float(FIRST))) for name in BINDING),
    ],
)
"""Filter of the points of plain memories, for those that were written before there was a flag."""
IS_PLAIN = models.FieldCondition(key=PLAIN, match=models.MatchValue(value=1))
COMPARED = ("create_time", "update_time", "event_time", "expire_time", "valid_from", "valid_to")
_MAX_KEYWORD = 512
SHARED_SHARDS = "shared"
"""Key of the shards of all tenants that have none of their own."""


def keyword(value: str) -> str:
    """Return the token of a string: itself, or a digest when it is long."""
    if len(value) <= _MAX_KEYWORD:
        return value
    return "\0" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()


def payload_indexes(*, on_disk: bool = False) -> dict[str, models.PayloadSchemaParams]:
    """Return the index of each filtered field; points of one owner are kept side by side.

    The owner alone has graphs: by default Qdrant builds one for every value of every indexed field, which took 25 times
    as long for 60 000 memories of one owner.
    """
    shared: dict[str, Any] = {"on_disk": True} if on_disk else {}
    found: dict[str, models.PayloadSchemaParams] = {
        OWNER: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True, **shared)
    }
    shared["enable_hnsw"] = False
    for name in KEYWORDS:
        found[name] = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, **shared)
    for name in (*LOOKED_UP, *COMPARED, *MATCHED):
        found[name] = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER,
            lookup=name in (*LOOKED_UP, *MATCHED),
            range=name not in MATCHED,
            **shared,
        )
    found["confidence"] = models.FloatIndexParams(type=models.FloatIndexType.FLOAT, **shared)
    return found


def filter_within(reach: Reach, view: View | None = None, where: Filter | None = None) -> models.Filter:
    """Return the filter of the entries in *reach*, of *view* if given, for which *where* holds."""
    must: list[models.Condition] = [
        models.FieldCondition(key=OWNER, match=models.MatchValue(value=keyword(reach.owner))),
        _any_keyword(PROJECT, reach.project_ids),
    ]
    if view is not None:
        must.append(models.FieldCondition(key=VIEW, match=models.MatchValue(value=int(view))))
    if where is not None:
        must += _conditions(where)
    return models.Filter(must=must)


def _conditions(where: Filter) -> list[models.Condition]:
    """Return conditions that are met by exactly the entries for which *where* holds.

    Points that were written before there was a flag have none, and are tested by the conditions themselves.
    """
    of_plain, others = split_default_visible(where)
    if len(of_plain) > 1:
        either = models.Filter(should=[IS_PLAIN, condition_for(And(tuple(of_plain)))])
        return [either, *map(condition_for, others)]
    return [condition_for(where)]


def others_of(rows: Sequence[int], kept: Sequence[int]) -> models.Filter:
    """Return the filter of the entries of these memories but those with the kept numbers."""
    of_rows = models.FieldCondition(key=ROW, match=models.MatchAny(any=list(rows)))
    if not kept:
        return models.Filter(must=[of_rows])
    return models.Filter(must=[of_rows], must_not=[models.HasIdCondition(has_id=list(kept))])


def condition_for(where: Filter) -> models.Condition:
    """Return the condition that is met by exactly the entries for which *where* holds."""
    if isinstance(where, AnyOf):
        return _any_of(where)
    if isinstance(where, Range):
        return _range(where)
    if isinstance(where, And):
        return models.Filter(must=[condition_for(child) for child in where.children])
    if isinstance(where, Or):
        return models.Filter(should=[condition_for(child) for child in where.children]) if where.children else NOTHING
    return models.Filter(must_not=[condition_for(where.child)])


def _any_of(where: AnyOf) -> models.Condition:
    name = where.field.value
    if where.field not in NUMBERS:
        return _any_keyword(name, [value for value in where.values if isinstance(value, str)])
    values = [value for value in where.values if isinstance(value, int | float)]
    if where.field is Field.CONFIDENCE:
        equal = [_range(Range(where.field, at_least=value, at_most=value)) for value in values]
        return models.Filter(should=equal) if equal else NOTHING
    numbers = [int(value) for value in values if value == math.floor(value)]
    if not numbers:
        return NOTHING
    if name in LOOKED_UP or len(numbers) > 1:
        return models.FieldCondition(key=name, match=models.MatchAny(any=numbers))
    return _range(Range(where.field, at_least=numbers[0], at_most=numbers[0]))


def _any_keyword(name: str, values: Sequence[str]) -> models.Condition:
    if not values:
        return NOTHING
    return models.FieldCondition(key=name, match=models.MatchAny(any=[keyword(str(value)) for value in values]))


def _range(where: Range) -> models.Condition:
    name = where.field.value
    if where.field is Field.CONFIDENCE:
        bounds = bounds_of(where)
        return NOTHING if bounds is None else _within(name, bounds)
    tests = [_part(name, part) for part in parts_of(where)]
    if len(tests) > 1:
        return models.Filter(must=tests)
    return tests[0] if tests else NOTHING


def _part(name: str, part: FilterPart) -> models.Condition:
    if not part.others:
        return _within(name, part.bounds)
    others = models.FieldCondition(key=name, match=models.MatchAny(any=list(part.others)))
    return models.Filter(should=[_within(name, part.bounds), others]) if part.bounds else others


def _within(name: str, bounds: Mapping[str, float]) -> models.Condition:
    """Return the condition that there is a number within all bounds, which may be none."""
    if not bounds:
        return models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=name))])
    return models.FieldCondition(key=name, range=models.Range(**bounds))


# Points of entries, and the operations that write them.


class PointEntry(Protocol):
    """An entry with a point id."""

    @property
    def entry_id(self) -> int:
        """Return the number of the entry, which is the point's too."""
        ...

    @property
    def attributes(self) -> Attributes:
        """Return what is known of the memory of the entry."""
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


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """Shards of a collection by tenant; without *tenants* Qdrant distributes the points by itself."""

    tenants: Sequence[str]

    @property
    def all(self) -> list[models.ShardKey] | None:
        """Return the keys of all shards; a change without one would be refused."""
        return [SHARED_SHARDS, *map(_shards_of, self.tenants)] if self.tenants else None

    def of(self, owner: str) -> str | None:
        """Return the key of the shards that hold the points of an owner."""
        if not self.tenants:
            return None
        tenant = owner.partition(OWNER_SEPARATOR)[0]
        return _shards_of(tenant) if tenant in self.tenants else SHARED_SHARDS


def _shards_of(tenant: str) -> str:
    return f"tenant:{tenant}"


def operations(
    changes: Mapping[int, Sequence[E]], point_of: Callable[[E], models.PointStruct], *, size: int, keys: ShardKeys
) -> Iterator[list[models.UpdateOperation]]:
    """Cut a change into requests of about *size* points, each of whole memories.

    A request writes the points of its memories, then deletes their other points. It is idempotent.
    """
    rows: list[int] = []
    points: dict[str | None, list[models.PointStruct]] = {}
    count = 0
    for row, entries in changes.items():
        rows.append(row)
        for entry in entries:
            points.setdefault(keys.of(entry.attributes.owner), []).append(point_of(entry))
        count += len(entries)
        if max(count, len(rows)) >= size:
            yield _request(rows, points, keys)
            rows, points, count = [], {}, 0
    if rows:
        yield _request(rows, points, keys)


def _request(
    rows: Sequence[int], points: Mapping[str | None, list[models.PointStruct]], keys: ShardKeys
) -> list[models.UpdateOperation]:
    kept = [int(point.id) for part in points.values() for point in part]
    selector = models.FilterSelector(filter=others_of(rows, kept), shard_key=keys.all)
    upserts = (models.PointsList(points=part, shard_key=key) for key, part in points.items())
    return [*(models.UpsertOperation(upsert=one) for one in upserts), models.DeleteOperation(delete=selector)]
