"""What a filter means, said again in plain Python over the memories themselves: the oracle of the filter tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb

Scalar = tuple[str, str | float | bool]
"""The kind of a JSON value, and the value: True is not 1."""
ACTIVE, EXPIRED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_EXPIRED
ENUMS = {
    filters_pb.FILTER_FIELD_LAYER: ("layer", types_pb.MemoryLayer, "MEMORY_LAYER_"),
    filters_pb.FILTER_FIELD_KIND: ("kind", types_pb.MemoryKind, "MEMORY_KIND_"),
    filters_pb.FILTER_FIELD_TIER: ("tier", types_pb.MemoryTier, "MEMORY_TIER_"),
    filters_pb.FILTER_FIELD_STATUS: ("status", types_pb.MemoryStatus, "MEMORY_STATUS_"),
    filters_pb.FILTER_FIELD_ORIGIN: ("origin", types_pb.MemoryOrigin, "MEMORY_ORIGIN_"),
}
TIMES = {
    filters_pb.FILTER_FIELD_CREATE_TIME: "create_time",
    filters_pb.FILTER_FIELD_UPDATE_TIME: "update_time",
    filters_pb.FILTER_FIELD_ACCESS_TIME: "access_time",
    filters_pb.FILTER_FIELD_EVENT_TIME: "event_time",
    filters_pb.FILTER_FIELD_VALID_FROM: "valid_from",
    filters_pb.FILTER_FIELD_VALID_TO: "valid_to",
}
NUMBERS = {
    filters_pb.FILTER_FIELD_IMPORTANCE: "importance",
    filters_pb.FILTER_FIELD_CONFIDENCE: "confidence",
    filters_pb.FILTER_FIELD_TRUST: "trust",
}


def matches(memory: types_pb.Memory, chosen: filters_pb.Filter, scope: types_pb.Scope, now: datetime) -> bool:
    """Return whether a read in *scope* with the filter sees the memory, which is the scope's user's."""
    return (
        _is_visible(memory, chosen, scope)
        and _is_current(memory, chosen, now)
        and _values_match(memory, chosen)
        and _numbers_match(memory, chosen)
        and _times_match(memory, chosen, now)
        and all(_scalar(test.value) in set(scalars_at(memory.metadata, test.path)) for test in chosen.metadata)
        and all(_is_in_range(memory, test) for test in chosen.metadata_ranges)
        and memory.key.startswith(chosen.key_prefix)
        and (not chosen.HasField("where") or expression_matches(memory, chosen.where))
    )


def _is_visible(memory: types_pb.Memory, chosen: filters_pb.Filter, scope: types_pb.Scope) -> bool:
    projects = {
        filters_pb.PROJECT_VISIBILITY_PROJECT: {scope.project_id},
        filters_pb.PROJECT_VISIBILITY_GLOBAL: {""},
    }.get(chosen.project_visibility, {scope.project_id, ""})
    own = memory.layer != types_pb.MEMORY_LAYER_SESSION or "" != scope.session_id == memory.scope.session_id
    return own and memory.scope.project_id in projects


def _is_current(memory: types_pb.Memory, chosen: filters_pb.Filter, now: datetime) -> bool:
    tested = set(_tested(chosen.where))
    if chosen.statuses:
        status = memory.status in chosen.statuses
    else:
        status = filters_pb.FILTER_FIELD_STATUS in tested or memory.status == ACTIVE
    if chosen.tiers:
        tier = memory.tier in chosen.tiers
    else:
        tier = filters_pb.FILTER_FIELD_TIER in tested or memory.tier != types_pb.MEMORY_TIER_ARCHIVED
    expired = memory.HasField("expire_time") and memory.expire_time.ToDatetime(UTC) <= now
    return status and tier and (not expired or chosen.include_expired or EXPIRED in chosen.statuses)


def _tested(expression: filters_pb.FilterExpression) -> Iterator[int]:
    for group in (expression.all_of, expression.any_of):
        for child in group.expressions:
            yield from _tested(child)
    if expression.HasField("negated"):
        yield from _tested(expression.negated)
    yield expression.condition.field


def _values_match(memory: types_pb.Memory, chosen: filters_pb.Filter) -> bool:
    lists = (
        (chosen.layers, memory.layer),
        (chosen.kinds, memory.kind),
        (chosen.categories, memory.category),
        (chosen.agent_ids, memory.scope.agent_id),
        (chosen.session_ids, memory.scope.session_id),
        (chosen.speakers, memory.speaker),
        ([one.lower() for one in chosen.ids], memory.id),
    )
    tags = set(memory.tags)
    return (
        all(not values or value in values for values, value in lists)
        and (not chosen.tags_any or bool(tags & set(chosen.tags_any)))
        and tags >= set(chosen.tags_all)
    )


def _numbers_match(memory: types_pb.Memory, chosen: filters_pb.Filter) -> bool:
    return (
        (chosen.min_importance or 1) <= memory.importance <= (chosen.max_importance or 5)
        and (not chosen.HasField("min_confidence") or memory.confidence >= chosen.min_confidence)
        and (not chosen.HasField("max_confidence") or memory.confidence <= chosen.max_confidence)
    )


def _times_match(memory: types_pb.Memory, chosen: filters_pb.Filter, now: datetime) -> bool:
    ranges = all(
        not chosen.HasField(name) or _lies_within(memory, name, getattr(chosen, name))  # type: ignore[arg-type]
        for name in TIMES.values()
    )
    if not chosen.last_days:
        return ranges
    named = filters_pb.TimeField.Name(chosen.last_days_field or filters_pb.TIME_FIELD_CREATE_TIME)
    moment = _moment(memory, named.removeprefix("TIME_FIELD_").lower())
    return ranges and moment is not None and now - timedelta(days=chosen.last_days) <= moment <= now


def _lies_within(memory: types_pb.Memory, name: str, span: types_pb.TimeRange) -> bool:
    moment = _moment(memory, name)
    return (
        moment is not None
        and (not span.HasField("start") or span.start.ToDatetime(UTC) <= moment)
        and (not span.HasField("end") or moment < span.end.ToDatetime(UTC))
    )


def _moment(memory: types_pb.Memory, name: str) -> datetime | None:
    if not memory.HasField(name):  # type: ignore[arg-type] # the name of a field
        return None
    stamp: Timestamp = getattr(memory, name)
    return stamp.ToDatetime(UTC)


def expression_matches(memory: types_pb.Memory, expression: filters_pb.FilterExpression) -> bool:
    """Return whether a free expression holds of the memory."""
    node = expression.WhichOneof("node")
    if node == "all_of":
        return all(expression_matches(memory, child) for child in expression.all_of.expressions)
    if node == "any_of":
        return any(expression_matches(memory, child) for child in expression.any_of.expressions)
    if node == "negated":
        return not expression_matches(memory, expression.negated)
    return _condition_holds(memory, expression.condition)


def _condition_holds(memory: types_pb.Memory, condition: filters_pb.FilterCondition) -> bool:
    held = _held(memory, condition)
    wanted = [_wanted(condition.field, value) for value in condition.values]
    equal = any(one in wanted for one in held)
    if condition.operator == filters_pb.FILTER_OPERATOR_STARTS_WITH:
        return any(str(one).startswith(str(wanted[0][1])) for _, one in held)
    if condition.operator in {filters_pb.FILTER_OPERATOR_EQUALS, filters_pb.FILTER_OPERATOR_IN}:
        return equal
    if condition.operator == filters_pb.FILTER_OPERATOR_NOT_EQUALS:
        return not equal
    numbers = [one for kind, one in held if kind in {"number_value", "time"} and not isinstance(one, str)]
    bounds = [float(one) for _, one in wanted]
    return any(_compares(condition.operator, number, bounds) for number in numbers)


def _compares(operator: int, number: float, bounds: list[float]) -> bool:
    return {
        filters_pb.FILTER_OPERATOR_LESS: number < bounds[0],
        filters_pb.FILTER_OPERATOR_LESS_OR_EQUAL: number <= bounds[0],
        filters_pb.FILTER_OPERATOR_GREATER: number > bounds[0],
        filters_pb.FILTER_OPERATOR_GREATER_OR_EQUAL: number >= bounds[0],
        filters_pb.FILTER_OPERATOR_BETWEEN: bounds[0] <= number <= bounds[-1],
    }[operator]


def _is_in_range(memory: types_pb.Memory, test: filters_pb.MetadataRange) -> bool:
    held = [float(one) for kind, one in scalars_at(memory.metadata, test.path) if kind == "number_value"]
    return any(
        (not test.HasField("greater_than") or number > test.greater_than)
        and (not test.HasField("at_least") or number >= test.at_least)
        and (not test.HasField("less_than") or number < test.less_than)
        and (not test.HasField("at_most") or number <= test.at_most)
        for number in held
    )


def _held(memory: types_pb.Memory, condition: filters_pb.FilterCondition) -> list[Scalar]:
    """Return the values that a memory has in the field of a condition."""
    field = condition.field
    if field == filters_pb.FILTER_FIELD_METADATA:
        return list(scalars_at(memory.metadata, condition.metadata_path))
    if field in TIMES:
        moment = _moment(memory, TIMES[field])
        return [] if moment is None else [("time", moment.timestamp())]
    if field in ENUMS:
        name, enum, prefix = ENUMS[field]
        return [("string_value", enum.Name(getattr(memory, name)).removeprefix(prefix))]
    if field == filters_pb.FILTER_FIELD_TAG:
        return [("string_value", tag) for tag in memory.tags]
    if field in NUMBERS:
        return [("number_value", float(getattr(memory, NUMBERS[field])))]
    texts = {
        filters_pb.FILTER_FIELD_CATEGORY: memory.category,
        filters_pb.FILTER_FIELD_SPEAKER: memory.speaker,
        filters_pb.FILTER_FIELD_AGENT_ID: memory.scope.agent_id,
        filters_pb.FILTER_FIELD_SESSION_ID: memory.scope.session_id,
        filters_pb.FILTER_FIELD_KEY: memory.key,
    }
    return [("string_value", texts[field])]


def _wanted(field: int, value: Value) -> Scalar:
    if field in TIMES:
        return "time", datetime.fromisoformat(value.string_value).timestamp()
    return _scalar(value)


def _scalar(value: Value) -> Scalar:
    kind = value.WhichOneof("kind") or "null_value"
    return kind, getattr(value, kind)


def scalars_at(struct: Struct, path: str) -> Iterator[Scalar]:
    """Return every scalar at a dotted path; lists on the way and at its end are searched through."""
    for name, value in struct.fields.items():
        if name == path:
            yield from _leaves(value)
        elif path.startswith(f"{name}."):
            for inner in _structs(value):
                yield from scalars_at(inner, path[len(name) + 1 :])


def _leaves(value: Value) -> Iterator[Scalar]:
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        for child in value.list_value.values:
            yield from _leaves(child)
    elif kind != "struct_value":
        yield _scalar(value)


def _structs(value: Value) -> Iterator[Struct]:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        yield value.struct_value
    elif kind == "list_value":
        for child in value.list_value.values:
            yield from _structs(child)
