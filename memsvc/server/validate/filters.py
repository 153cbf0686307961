"""Rules for filters and free filter expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from google.protobuf.struct_pb2 import Value

from memsvc.domain import limits
from memsvc.domain.filters import TIMES, Field
from memsvc.server.convert.enums import (
    ENUM_FIELDS,
    FILTER_FIELDS,
    KIND,
    LAYER,
    ORIGIN,
    SESSION_VISIBILITY,
    STATUS,
    TIER,
    TIME_FIELDS,
    VISIBILITY,
)
from memsvc.server.convert.times import micros_from_text
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_enums,
    check_integer,
    check_number,
    check_text,
    check_texts,
    check_time_range,
    check_uuids,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import types_pb2 as types

VALUES = limits.FILTER_VALUES
VALUE_CHARS = limits.METADATA_BYTES
"""Nothing that a filter compares with is longer than the longest value in metadata."""
PATH_CHARS = 256
LAST_DAYS = 36_500
COMPARISONS = frozenset(
    {
        types.FILTER_OPERATOR_LESS,
        types.FILTER_OPERATOR_LESS_OR_EQUAL,
        types.FILTER_OPERATOR_GREATER,
        types.FILTER_OPERATOR_GREATER_OR_EQUAL,
    }
)
OPERATORS = COMPARISONS | {
    types.FILTER_OPERATOR_EQUALS,
    types.FILTER_OPERATOR_NOT_EQUALS,
    types.FILTER_OPERATOR_IN,
}
COMPARABLE = TIMES | {Field.IMPORTANCE, Field.CONFIDENCE, Field.TRUST}
SCALARS = frozenset({"string_value", "number_value", "bool_value", "null_value"})


def check_filter(found: Violations, chosen: types.Filter, *, field: str = "filter") -> None:
    """Check a filter and the expression in it."""
    check_enums(found, f"{field}.layers", chosen.layers, LAYER.from_proto, count=VALUES)
    check_enums(found, f"{field}.kinds", chosen.kinds, KIND.from_proto, count=VALUES)
    check_enums(found, f"{field}.tiers", chosen.tiers, TIER.from_proto, count=VALUES)
    check_enums(found, f"{field}.statuses", chosen.statuses, STATUS.from_proto, count=VALUES)
    check_enums(found, f"{field}.origins", chosen.origins, ORIGIN.from_proto, count=VALUES)
    for name in ("categories", "tags_any", "tags_all", "agent_ids", "session_ids", "speakers"):
        check_texts(found, f"{field}.{name}", getattr(chosen, name), count=VALUES, most=VALUE_CHARS)
    check_uuids(found, f"{field}.ids", chosen.ids, count=VALUES)
    check_enum(found, f"{field}.sessions", chosen.sessions, SESSION_VISIBILITY.from_proto)
    _check_times(found, chosen, field)
    _check_bounds(found, chosen, field)
    check_enum(found, f"{field}.visibility", chosen.visibility, VISIBILITY.from_proto)
    check_count(found, f"{field}.metadata", chosen.metadata, most=VALUES)
    for index, test in enumerate(chosen.metadata[:VALUES]):
        place = f"{field}.metadata[{index}]"
        check_text(found, f"{place}.path", test.path, most=PATH_CHARS, least=1)
        _check_scalar(found, f"{place}.value", test.value)
    if chosen.HasField("where"):
        ExpressionRules(found).check(chosen.where, f"{field}.where", depth=1)


def _check_times(found: Violations, chosen: types.Filter, field: str) -> None:
    for name in ("create_time", "update_time", "access_time", "event_time", "valid_from", "valid_to"):
        if chosen.HasField(name):
            check_time_range(found, f"{field}.{name}", getattr(chosen, name))
    check_integer(found, f"{field}.last_days", chosen.last_days, least=1, most=LAST_DAYS)
    check_enum(found, f"{field}.last_days_field", chosen.last_days_field, TIME_FIELDS)


def _check_bounds(found: Violations, chosen: types.Filter, field: str) -> None:
    least, most = limits.IMPORTANCE_MIN, limits.IMPORTANCE_MAX
    check_integer(found, f"{field}.min_importance", chosen.min_importance, least=least, most=most)
    check_integer(found, f"{field}.max_importance", chosen.max_importance, least=least, most=most)
    if chosen.max_importance and chosen.max_importance < chosen.min_importance:
        found.add(f"{field}.max_importance", "must not be below min_importance")
    has_least, has_most = chosen.HasField("min_confidence"), chosen.HasField("max_confidence")
    if has_least:
        check_number(found, f"{field}.min_confidence", chosen.min_confidence, most=1.0)
    if has_most:
        check_number(found, f"{field}.max_confidence", chosen.max_confidence, most=1.0)
    if chosen.HasField("min_trust"):
        check_number(found, f"{field}.min_trust", chosen.min_trust, most=1.0)
    if has_least and has_most and chosen.max_confidence < chosen.min_confidence:
        found.add(f"{field}.max_confidence", "must not be below min_confidence")


class ExpressionRules:
    """Walks an expression once, counting its values: all of it together may hold no more than the limit."""

    def __init__(self, found: Violations) -> None:
        self._found = found
        self._values = 0

    def check(self, expression: types.FilterExpression, field: str, *, depth: int) -> None:
        """Check an expression that lies *depth* deep, counted from 1."""
        node = expression.WhichOneof("node")
        if depth > limits.FILTER_DEPTH:
            self._found.add(field, f"must be nested at most {limits.FILTER_DEPTH} deep")
        elif node is None:
            self._found.add(field, "must have one of all_of, any_of, negated, condition")
        elif node == "negated":
            self.check(expression.negated, f"{field}.negated", depth=depth + 1)
        elif node == "condition":
            self._check_condition(expression.condition, f"{field}.condition")
        else:
            self._check_group(getattr(expression, node), f"{field}.{node}.expressions", depth=depth + 1)

    def _check_group(self, group: types.FilterGroup, field: str, *, depth: int) -> None:
        check_count(self._found, field, group.expressions, least=1, most=VALUES)
        for index, child in enumerate(group.expressions[:VALUES]):
            if self._values > VALUES:
                return
            self.check(child, f"{field}[{index}]", depth=depth)

    def _check_condition(self, condition: types.FilterCondition, field: str) -> None:
        before = self._values
        self._values += max(1, len(condition.values))
        if before <= VALUES < self._values:
            self._found.add(f"{field}.values", f"must hold at most {VALUES} values, together with all other conditions")
            return
        tested = FILTER_FIELDS.get(condition.field)
        if tested is None:
            self._found.add(f"{field}.field", "must be a value of the enum, and not UNSPECIFIED")
        if condition.operator not in OPERATORS:
            self._found.add(f"{field}.operator", "must be a value of the enum, and not UNSPECIFIED")
        elif condition.operator in COMPARISONS and tested is not None and tested not in COMPARABLE:
            self._found.add(f"{field}.operator", "compares importance, confidence, trust and times only")
        if tested is not None:
            self._check_path(condition.metadata_path, f"{field}.metadata_path", tested)
            self._check_values(condition.values, f"{field}.values", tested, operator=condition.operator)

    def _check_path(self, path: str, field: str, tested: Field) -> None:
        if tested is Field.METADATA:
            check_text(self._found, field, path, most=PATH_CHARS, least=1)
        elif path:
            self._found.add(field, "must be empty unless field is METADATA")

    def _check_values(self, values: Sequence[Value], field: str, tested: Field, *, operator: int) -> None:
        if operator == types.FILTER_OPERATOR_IN:
            check_count(self._found, field, values, least=1, most=VALUES)
        elif len(values) != 1:
            self._found.add(field, "must hold exactly 1 value, except with IN")
        for index, value in enumerate(values[:VALUES]):
            _check_value(self._found, f"{field}[{index}]", value, tested)


def _check_value(found: Violations, field: str, value: Value, tested: Field) -> None:
    kind = value.WhichOneof("kind")
    if tested is Field.METADATA:
        _check_scalar(found, field, value)
    elif tested in {Field.IMPORTANCE, Field.CONFIDENCE, Field.TRUST}:
        if kind != "number_value" or not math.isfinite(value.number_value):
            found.add(field, "must be a finite number")
    elif kind != "string_value":
        found.add(field, "must be a string")
    elif tested in TIMES:
        try:
            micros_from_text(value.string_value)
        except ValueError:
            found.add(field, "must be an RFC 3339 time such as '2026-02-06T08:00:00Z'")
    elif tested in ENUM_FIELDS:
        if value.string_value not in ENUM_FIELDS[tested]:
            found.add(field, f"must be one of {', '.join(sorted(ENUM_FIELDS[tested]))}")
    else:
        check_text(found, field, value.string_value, most=VALUE_CHARS)


def _check_scalar(found: Violations, field: str, value: Value) -> None:
    kind = value.WhichOneof("kind")
    if kind not in SCALARS:
        found.add(field, "must be a string, a number, a boolean or null")
    elif kind == "number_value" and not math.isfinite(value.number_value):
        found.add(field, "must be a finite number")
    elif kind == "string_value":
        check_text(found, field, value.string_value, most=VALUE_CHARS)
