"""Filters on the values of items: exact in this process, and as far as possible in the service."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from memsvc.v1 import filters_pb2 as filters_pb

MOST_STRING_CHARS = 256
"""Longer strings are not copied into the metadata that the service filters by."""
MOST_EXACT = 2**53
"""Integers from here on are not exact as 64-bit floating-point numbers."""
MOST_NAME_CHARS = 200
_MOST_CONDITIONS = 32
_OPERATORS: Mapping[str, Any] = {
    "$eq": filters_pb.FILTER_OPERATOR_EQUALS,
    "$ne": filters_pb.FILTER_OPERATOR_NOT_EQUALS,
    "$gt": filters_pb.FILTER_OPERATOR_GREATER,
    "$gte": filters_pb.FILTER_OPERATOR_GREATER_OR_EQUAL,
    "$lt": filters_pb.FILTER_OPERATOR_LESS,
    "$lte": filters_pb.FILTER_OPERATOR_LESS_OR_EQUAL,
}


def check_filter(filter_: Mapping[str, Any] | None) -> None:
    """Check the operators of a filter.

    Raises:
        ValueError: An operator is unknown.
    """
    for name, wanted in (filter_ or {}).items():
        for operator in wanted if _has_operators(wanted) else ():
            if operator not in _OPERATORS:
                raise ValueError(f"Filter of {name!r}: {operator!r} is none of {', '.join(_OPERATORS)}.")


def matches(value: Mapping[str, Any], filter_: Mapping[str, Any] | None) -> bool:
    """Return whether a value has all members that the filter requires. A missing member equals None."""
    return all(_agrees(value.get(name), wanted) for name, wanted in (filter_ or {}).items())


def has_simple_name(name: str) -> bool:
    """Return whether a path of metadata can name a member."""
    return bool(name) and "." not in name and len(name) <= MOST_NAME_CHARS


def where(filter_: Mapping[str, Any] | None, fields: str, partial: str) -> filters_pb.FilterExpression | None:
    """Return an expression that every matching item meets, or None.

    *fields* is the path of the members in the metadata, *partial* that of the mark of items with further members.
    """
    conditions = [
        _any_of(_condition(partial, "$eq", True), _condition(f"{fields}.{name}", operator, operand))  # noqa: FBT003
        for name, operator, operand in _comparisons(filter_ or {})
        if has_simple_name(name) and _is_comparable(operator, operand)
    ][:_MOST_CONDITIONS]
    if not conditions:
        return None
    return filters_pb.FilterExpression(all_of=filters_pb.FilterGroup(expressions=conditions))


def _comparisons(filter_: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for name, wanted in filter_.items():
        if _has_operators(wanted):
            yield from ((name, operator, operand) for operator, operand in wanted.items())
        else:
            yield name, "$eq", wanted


def _is_comparable(operator: str, operand: object) -> bool:
    """Return whether the service can make a comparison without missing an item."""
    if isinstance(operand, bool):
        return operator in {"$eq", "$ne"}
    if isinstance(operand, str):
        return operator in {"$eq", "$ne"} and len(operand) <= MOST_STRING_CHARS and _is_text(operand)
    return isinstance(operand, int | float) and math.isfinite(operand) and abs(operand) < MOST_EXACT


def _is_text(operand: str) -> bool:
    try:
        operand.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in operand


def _condition(path: str, operator: str, operand: bool | float | str) -> filters_pb.FilterExpression:  # noqa: FBT001
    condition = filters_pb.FilterCondition(
        field=filters_pb.FILTER_FIELD_METADATA, operator=_OPERATORS[operator], metadata_path=path
    )
    value = condition.values.add()
    if isinstance(operand, bool):
        value.bool_value = operand
    elif isinstance(operand, str):
        value.string_value = operand
    else:
        value.number_value = operand
    return filters_pb.FilterExpression(condition=condition)


def _any_of(*expressions: filters_pb.FilterExpression) -> filters_pb.FilterExpression:
    return filters_pb.FilterExpression(any_of=filters_pb.FilterGroup(expressions=expressions))


def _has_operators(wanted: object) -> bool:
    return isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted)


def _agrees(value: object, wanted: Any) -> bool:
    if _has_operators(wanted):
        return all(_compare(value, operator, operand) for operator, operand in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(value, dict) and all(_agrees(value.get(name), each) for name, each in wanted.items())
    return _equals(value, wanted)


def _compare(value: Any, operator: str, operand: Any) -> bool:
    """Compare numbers with numbers and strings with strings; other pairs are in no order."""
    if operator in {"$eq", "$ne"}:
        return _equals(value, operand) == (operator == "$eq")
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, operand))
    if not numbers and not (isinstance(value, str) and isinstance(operand, str)):
        return False
    if operator in {"$gt", "$gte"}:
        return bool(value > operand or (operator == "$gte" and value == operand))
    return bool(value < operand or (operator == "$lte" and value == operand))


def _equals(value: Any, wanted: Any) -> bool:
    """Compare as JSON does: true is not 1, and 1 is 1.0."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equals(*pair) for pair in zip(value, wanted, strict=True))
        )
    if isinstance(wanted, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == wanted.keys()
            and all(_equals(value[name], wanted[name]) for name in wanted)
        )
    return bool(value == wanted)
