"""Free filter expressions: the API's `where` as the domain's filter tree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.struct_pb2 import Value

from memsvc.domain.filters import TIMES, And, AnyOf, Field, Filter, Not, Or, Range, metadata_term
from memsvc.server.convert.enums import FILTER_FIELDS
from memsvc.server.convert.json import json_from_proto
from memsvc.server.convert.times import micros_from_text
from memsvc.v1 import types_pb2 as types

NO_IMPORTANCE = 100
"""Farther from zero than any importance: greater numbers are cut to it, so that indexes can hold the bound."""

_COMPARISONS: Mapping[int, str] = {
    types.FILTER_OPERATOR_LESS: "below",
    types.FILTER_OPERATOR_LESS_OR_EQUAL: "at_most",
    types.FILTER_OPERATOR_GREATER: "above",
    types.FILTER_OPERATOR_GREATER_OR_EQUAL: "at_least",
}


def expression_from_proto(expression: types.FilterExpression) -> Filter:
    """Return the tree of an expression."""
    node = expression.WhichOneof("node")
    if node == "all_of":
        return And(tuple(expression_from_proto(child) for child in expression.all_of.expressions))
    if node == "any_of":
        return Or(tuple(expression_from_proto(child) for child in expression.any_of.expressions))
    if node == "negated":
        return Not(expression_from_proto(expression.negated))
    return condition_from_proto(expression.condition)


def tested_fields(expression: types.FilterExpression) -> Iterator[Field]:
    """Yield the field of every condition in an expression."""
    node = expression.WhichOneof("node")
    if node == "condition":
        yield FILTER_FIELDS[expression.condition.field]
    elif node == "negated":
        yield from tested_fields(expression.negated)
    else:
        group = expression.all_of if node == "all_of" else expression.any_of
        for child in group.expressions:
            yield from tested_fields(child)


def condition_from_proto(condition: types.FilterCondition) -> Filter:
    """Return the test of one field."""
    field = FILTER_FIELDS[condition.field]
    if bound := _COMPARISONS.get(condition.operator):
        return _comparison(field, bound, number_from_proto(field, condition.values[0]))
    found = _equal_to_any(field, condition.metadata_path, condition.values)
    return Not(found) if condition.operator == types.FILTER_OPERATOR_NOT_EQUALS else found


def number_from_proto(field: Field, value: Value) -> float:
    """Return what a number field is compared with: microseconds for a time.

    Raises:
        ValueError: The text is no time.
    """
    return micros_from_text(value.string_value) if field in TIMES else value.number_value


def metadata_equals(path: str, value: Value) -> Filter:
    """Return the test for one scalar at a dotted path of the metadata."""
    return AnyOf(Field.METADATA, (_metadata_term(path, value),))


def _equal_to_any(field: Field, path: str, values: Sequence[Value]) -> Filter:
    if field is Field.METADATA:
        return AnyOf(field, tuple(dict.fromkeys(_metadata_term(path, value) for value in values)))
    if field in TIMES or field in {Field.IMPORTANCE, Field.CONFIDENCE, Field.TRUST}:
        tests = tuple(_equal_number(field, number_from_proto(field, value)) for value in values)
        return tests[0] if len(tests) == 1 else Or(tests)
    return AnyOf(field, tuple(dict.fromkeys(value.string_value for value in values)))


def _equal_number(field: Field, number: float) -> Filter:
    if field is Field.IMPORTANCE:
        if not number.is_integer():
            return Or(())
        number = _importance(number)
    return Range(field, at_least=number, at_most=number)


def _comparison(field: Field, bound: str, number: float) -> Filter:
    if field is not Field.IMPORTANCE:
        return _range(field, bound, number)
    if bound in {"above", "at_least"}:
        whole = math.floor(number) + 1 if bound == "above" else math.ceil(number)
        return Range(field, at_least=_importance(whole))
    whole = math.ceil(number) - 1 if bound == "below" else math.floor(number)
    return Range(field, at_most=_importance(whole))


def _range(field: Field, bound: str, number: float) -> Range:
    return Range(
        field,
        above=number if bound == "above" else None,
        at_least=number if bound == "at_least" else None,
        below=number if bound == "below" else None,
        at_most=number if bound == "at_most" else None,
    )


def _importance(number: float) -> int:
    return int(max(-NO_IMPORTANCE, min(NO_IMPORTANCE, number)))


def _metadata_term(path: str, value: Value) -> str:
    scalar = json_from_proto(value)
    if isinstance(scalar, dict | list):  # validation refuses these; the type has to be told
        message = f"The value at {path!r} is no scalar."
        raise TypeError(message)
    return metadata_term(path, scalar)
