"""Filters: what the caller asks for and what holds without asking, as the domain's selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Or, Range, conjunction
from memsvc.domain.history import AsOf
from memsvc.domain.memory import Status, Tier
from memsvc.domain.scope import SessionVisibility, Visibility
from memsvc.domain.search import Selection
from memsvc.server.convert.conditions import expression_from_proto, metadata_equals, tested_fields
from memsvc.server.convert.drafts import ids_from_proto
from memsvc.server.convert.enums import KIND, LAYER, ORIGIN, SESSION_VISIBILITY, STATUS, TIER, TIME_FIELDS, VISIBILITY
from memsvc.server.convert.times import BEGINNING, MICROS, micros_not_before
from memsvc.v1 import types_pb2 as types

NOT_ARCHIVED = Not(AnyOf(Field.TIER, (Tier.ARCHIVED.value,)))
ONLY_ACTIVE = AnyOf(Field.STATUS, (Status.ACTIVE.value,))
REPLACED = AnyOf(Field.STATUS, (Status.DEPRECATED.value,))
NOW = AsOf()
PUT_AWAY = AnyOf(Field.STATUS, (Status.EXPIRED.value,))
_DAY_MICROS = 86_400 * MICROS


def selection_from_proto(
    chosen: types.Filter, *, now: datetime, happened: types.TimeRange | None = None, as_of: AsOf | None = None
) -> Selection:
    """Return the selection of a filter, with the default conditions on status, tier, expiry and validity.

    *happened* is a search's time range: by event time, or by create time where a memory has none. With *as_of* the
    selection is that of another moment.
    """
    moment = as_of or NOW
    now = moment.known_time or now
    where = conjunction(
        *_defaults(chosen, now, moment),
        # Most requests have no filter, and one look tells.
        *(_asked(chosen, now) if chosen.ListFields() else ()),
        None if happened is None else happened_within(happened),
        expression_from_proto(chosen.where) if chosen.HasField("where") else None,
    )
    return Selection(
        where,
        VISIBILITY.given(chosen.visibility, Visibility.PROJECT_AND_GLOBAL),
        SESSION_VISIBILITY.given(chosen.sessions, SessionVisibility.CURRENT),
    )


def happened_within(span: types.TimeRange) -> Filter | None:
    """Return the test that a memory's event time, or without one its create time, lies in *span*."""
    if not (span.HasField("start") or span.HasField("end")):
        return None
    unknown = Not(Range(Field.EVENT_TIME, at_least=BEGINNING))
    return Or((time_within(Field.EVENT_TIME, span), And((unknown, time_within(Field.CREATE_TIME, span)))))


def time_within(field: Field, span: types.TimeRange) -> Range:
    """Return the test that a time is there and lies in *span*, its end left out."""
    return Range(
        field,
        at_least=micros_not_before(span.start) if span.HasField("start") else BEGINNING,
        below=micros_not_before(span.end) if span.HasField("end") else None,
    )


def _defaults(chosen: types.Filter, now: datetime, moment: AsOf) -> Iterator[Filter]:
    tested = frozenset(tested_fields(chosen.where)) if chosen.HasField("where") else frozenset()
    if chosen.statuses or Field.STATUS not in tested:
        yield _any_of(Field.STATUS, (STATUS.from_proto[number].value for number in chosen.statuses)) or _in_force(
            moment
        )
    if chosen.tiers or Field.TIER not in tested:
        yield _any_of(Field.TIER, (TIER.from_proto[number].value for number in chosen.tiers)) or NOT_ARCHIVED
    if not (chosen.include_expired or types.MEMORY_STATUS_EXPIRED in chosen.statuses):
        current = Not(Range(Field.EXPIRE_TIME, at_most=to_micros(now)))
        # A status of EXPIRED that the expression asks for would find nothing if its time had to lie ahead.
        yield Or((current, PUT_AWAY)) if Field.STATUS in tested else current
    if not chosen.include_not_valid:
        valid = to_micros(moment.valid_time or now)
        still = Not(Range(Field.VALID_TO, at_most=valid))
        wants_replaced = types.MEMORY_STATUS_DEPRECATED in chosen.statuses or Field.STATUS in tested
        # What was replaced ceased to be valid by that: to ask for the status alone would find nothing.
        yield Or((still, REPLACED)) if wants_replaced and moment.valid_time is None else still
        yield Not(Range(Field.VALID_FROM, above=valid))


def _in_force(moment: AsOf) -> Filter:
    """Return the default test of the status: at another valid time what was replaced since may be what was true."""
    if moment.valid_time is None:
        return ONLY_ACTIVE
    return Or((ONLY_ACTIVE, And((REPLACED, Range(Field.VALID_TO, above=to_micros(moment.valid_time))))))


def _asked(chosen: types.Filter, now: datetime) -> Iterator[Filter | None]:
    yield from _values(chosen)
    yield from _times(chosen, now)
    yield from _numbers(chosen)


def _values(chosen: types.Filter) -> Iterator[Filter | None]:
    yield _any_of(Field.LAYER, (LAYER.from_proto[number].value for number in chosen.layers))
    yield _any_of(Field.KIND, (KIND.from_proto[number].value for number in chosen.kinds))
    yield _any_of(Field.CATEGORY, chosen.categories)
    yield _any_of(Field.TAGS, chosen.tags_any)
    yield _any_of(Field.AGENT_ID, chosen.agent_ids)
    yield _any_of(Field.SESSION_ID, chosen.session_ids)
    yield _any_of(Field.SPEAKER, chosen.speakers)
    yield _any_of(Field.ORIGIN, (ORIGIN.from_proto[number].value for number in chosen.origins))
    yield _any_of(Field.ID, ids_from_proto(chosen.ids))
    for tag in dict.fromkeys(chosen.tags_all):
        yield AnyOf(Field.TAGS, (tag,))
    for test in chosen.metadata:
        yield metadata_equals(test.path, test.value)


def _times(chosen: types.Filter, now: datetime) -> Iterator[Filter]:
    if chosen.HasField("create_time"):
        yield time_within(Field.CREATE_TIME, chosen.create_time)
    if chosen.HasField("update_time"):
        yield time_within(Field.UPDATE_TIME, chosen.update_time)
    if chosen.HasField("access_time"):
        yield time_within(Field.ACCESS_TIME, chosen.access_time)
    if chosen.HasField("event_time"):
        yield time_within(Field.EVENT_TIME, chosen.event_time)
    if chosen.HasField("valid_from"):
        yield time_within(Field.VALID_FROM, chosen.valid_from)
    if chosen.HasField("valid_to"):
        yield time_within(Field.VALID_TO, chosen.valid_to)
    if chosen.last_days:
        field = TIME_FIELDS.get(chosen.last_days_field, Field.CREATE_TIME)
        # Only an event may lie in the future; for the other times an upper bound would race with writes.
        latest = to_micros(now) if field is Field.EVENT_TIME else None
        earliest = max(BEGINNING, to_micros(now) - chosen.last_days * _DAY_MICROS)
        yield Range(field, at_least=earliest, at_most=latest)


def _numbers(chosen: types.Filter) -> Iterator[Filter]:
    if chosen.HasField("min_trust"):
        yield Range(Field.TRUST, at_least=chosen.min_trust)
    if chosen.min_importance or chosen.max_importance:
        yield Range(Field.IMPORTANCE, at_least=chosen.min_importance or None, at_most=chosen.max_importance or None)
    if chosen.HasField("min_confidence") or chosen.HasField("max_confidence"):
        yield Range(
            Field.CONFIDENCE,
            at_least=chosen.min_confidence if chosen.HasField("min_confidence") else None,
            at_most=chosen.max_confidence if chosen.HasField("max_confidence") else None,
        )


def _any_of(field: Field, values: Iterable[str]) -> AnyOf | None:
    distinct = tuple(dict.fromkeys(values))
    return AnyOf(field, distinct) if distinct else None
