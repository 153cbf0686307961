"""Filters of requests as the domain's selections, with the conditions that hold without being asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain import limits
from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.filters import (
    TIMES,
    And,
    AnyOf,
    Begun,
    Field,
    Filter,
    Match,
    Not,
    Or,
    Range,
    conjunction,
    metadata_term,
)
from memsvc.domain.history import AsOf
from memsvc.domain.memory import Status, Tier
from memsvc.domain.scope import SessionVisibility, Visibility
from memsvc.domain.search import Selection
from memsvc.server.enums import (
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
from memsvc.server.requests.decoder import MAX_SECONDS, MIN_SECONDS, RequestDecoder, scalar_from_proto
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb

VALUES = limits.FILTER_VALUES
VALUE_CHARS = limits.METADATA_BYTES
"""The longest value of a filter: nothing that it is compared with is longer than the longest value in metadata."""
IMPORTANCE_BOUND = 100
"""Farther from zero than any importance: greater numbers are cut to it, so that indexes can hold the bound."""

NOT_ARCHIVED = Not(AnyOf(Field.TIER, (Tier.ARCHIVED.value,)))
ONLY_ACTIVE = AnyOf(Field.STATUS, (Status.ACTIVE.value,))
ARCHIVED = Or(
    (AnyOf(Field.STATUS, (Status.ARCHIVED.value,)), And((ONLY_ACTIVE, AnyOf(Field.TIER, (Tier.ARCHIVED.value,)))))
)
SUPERSEDED = AnyOf(Field.STATUS, (Status.SUPERSEDED.value,))
EXPIRED = AnyOf(Field.STATUS, (Status.EXPIRED.value,))
NOW = AsOf()
USUAL_MICROS = 50_000
"""The present moment of a request without a filter is rounded up to this many microseconds: what is made of its
conditions, which name that moment, serves all requests until then."""

_MICROS = 1_000_000
_EARLIEST = MIN_SECONDS * _MICROS
"""The microseconds of the earliest moment."""
_DAY_MICROS = 86_400 * _MICROS
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NUMBERS = frozenset({Field.IMPORTANCE, Field.CONFIDENCE, Field.TRUST})
_COMPARABLE = TIMES | _NUMBERS | {Field.METADATA}
_SCALARS = frozenset({"string_value", "number_value", "bool_value", "null_value"})
_COMPARISONS: Mapping[int, str] = {
    filters_pb.FILTER_OPERATOR_LESS: "below",
    filters_pb.FILTER_OPERATOR_LESS_OR_EQUAL: "at_most",
    filters_pb.FILTER_OPERATOR_GREATER: "above",
    filters_pb.FILTER_OPERATOR_GREATER_OR_EQUAL: "at_least",
}
_BETWEEN, _STARTS_WITH = filters_pb.FILTER_OPERATOR_BETWEEN, filters_pb.FILTER_OPERATOR_STARTS_WITH
_RANGES = frozenset(_COMPARISONS) | {_BETWEEN}
_OPERATORS = _RANGES | {
    filters_pb.FILTER_OPERATOR_EQUALS,
    filters_pb.FILTER_OPERATOR_NOT_EQUALS,
    filters_pb.FILTER_OPERATOR_IN,
    _STARTS_WITH,
}
_BOUNDS = {"greater_than": "above", "at_least": "at_least", "less_than": "below", "at_most": "at_most"}
"""The bounds of a range of metadata, and those of the domain."""
_NOTHING = Or(())
"""The placeholder of a condition that breaks a rule."""


def decode_as_of(decoder: RequestDecoder, as_of: types_pb.AsOf, now: datetime, *, field: str = "as_of") -> AsOf | None:
    """Return the moment of an as-of read, None when neither time is given."""
    valid = decoder.optional_time(f"{field}.valid_time", as_of, "valid_time")
    known = decoder.optional_time(f"{field}.known_time", as_of, "known_time")
    if known is not None and known > now:
        decoder.add(f"{field}.known_time", "must not be in the future")
    return None if valid is None and known is None else AsOf(valid, known)


def decode_selection(  # noqa: PLR0913 - a filter and the moment that it is evaluated at
    decoder: RequestDecoder,
    chosen: filters_pb.Filter,
    *,
    now: datetime,
    field: str = "filter",
    as_of: AsOf | None = None,
    time_range: types_pb.TimeRange | None = None,
    untestable: Mapping[Field, str] | None = None,
    with_archived: bool = False,
) -> Selection:
    """Return the selection of a filter, with the default conditions on status, tier, expiry and validity.

    *time_range* is that of a search: by event time, or by create time where a memory has none. With *as_of* the
    selection is that of another moment. *untestable* are the fields that the expression must not test, with the reason.
    *with_archived* adds the selection of archived memories, if the filter tests neither status nor tier, and the moment
    is the present.
    """
    moment = as_of or NOW
    now = moment.known_time or now
    if not chosen.ListFields():
        # Most requests have no filter.
        if as_of is None and time_range is None:
            usual = _usual_selection(-(-to_micros(now) // USUAL_MICROS))
            return usual if with_archived else replace(usual, archived=None)
        asked: list[Filter | None] = []
        where, tested = None, frozenset[Field]()
        visibility, sessions = Visibility.PROJECT_AND_GLOBAL, SessionVisibility.CURRENT
    else:
        asked = list(_value_conditions(decoder, chosen, field))
        sessions = decoder.enum(
            f"{field}.session_visibility", chosen.session_visibility, SESSION_VISIBILITY, SessionVisibility.CURRENT
        )
        asked += _time_conditions(decoder, chosen, now, field)
        asked += _number_conditions(decoder, chosen, field)
        visibility = decoder.enum(
            f"{field}.project_visibility", chosen.project_visibility, VISIBILITY, Visibility.PROJECT_AND_GLOBAL
        )
        asked += _metadata_conditions(decoder, chosen, field)
        asked += _metadata_ranges(decoder, chosen, field)
        expression = ExpressionDecoder(decoder)
        where = expression.decode(chosen.where, f"{field}.where", depth=1) if chosen.HasField("where") else None
        tested = frozenset(expression.tested)
        for name, reason in (untestable or {}).items():
            if name in tested:
                decoder.add(f"{field}.where", f"must not test {name.name}: {reason}")
    happened = None if time_range is None else _happened_within(decoder, time_range)
    defaults = tuple(_defaults(chosen, now, moment, tested))
    archived = _of_archived(defaults) if with_archived and as_of is None else None
    return Selection(
        conjunction(*defaults, *asked, happened, where),
        visibility,
        sessions,
        None if archived is None else conjunction(*archived, *asked, happened, where),
    )


@lru_cache(maxsize=4)
def _usual_selection(tick: int) -> Selection:
    """Return the selection of a request without a filter at a moment in units of `USUAL_MICROS`."""
    defaults = tuple(_defaults(filters_pb.Filter(), from_micros(tick * USUAL_MICROS), NOW, frozenset()))
    return Selection(conjunction(*defaults), archived=conjunction(*(_of_archived(defaults) or ())))


def _of_archived(defaults: Sequence[Filter]) -> list[Filter] | None:
    """Return default conditions with those of archived memories for those of active ones, None if they lack them."""
    if ONLY_ACTIVE not in defaults or NOT_ARCHIVED not in defaults:
        return None
    return [ARCHIVED, *(one for one in defaults if one not in (ONLY_ACTIVE, NOT_ARCHIVED))]


def default_conditions(now: datetime, as_of: AsOf) -> Filter | None:
    """Return the conditions that hold at another moment when nothing is asked for."""
    moment = as_of.known_time or now
    return conjunction(*_defaults(filters_pb.Filter(), moment, as_of, frozenset()))


def _defaults(chosen: filters_pb.Filter, now: datetime, moment: AsOf, tested: frozenset[Field]) -> Iterator[Filter]:
    if not chosen.statuses and Field.STATUS not in tested:
        yield _in_force(moment)
    if not chosen.tiers and Field.TIER not in tested:
        yield NOT_ARCHIVED
    if not (chosen.include_expired or types_pb.MEMORY_STATUS_EXPIRED in chosen.statuses):
        current = Not(Range(Field.EXPIRE_TIME, at_most=to_micros(now)))
        # A status of EXPIRED that the expression asks for would find nothing if its time had to lie ahead.
        yield Or((current, EXPIRED)) if Field.STATUS in tested else current
    if not chosen.include_not_valid:
        valid = to_micros(moment.valid_time or now)
        still = Not(Range(Field.VALID_TO, at_most=valid))
        wants_superseded = types_pb.MEMORY_STATUS_SUPERSEDED in chosen.statuses or Field.STATUS in tested
        # A superseded memory ceased to be valid by that: to ask for the status alone would find nothing.
        yield Or((still, SUPERSEDED)) if wants_superseded and moment.valid_time is None else still
        yield Begun.at(valid) if moment.valid_time is None else Not(Range(Field.VALID_FROM, above=valid))


def _in_force(moment: AsOf) -> Filter:
    """Return the default test of the status: at another valid time a memory superseded since may have been true."""
    if moment.valid_time is None:
        return ONLY_ACTIVE
    return Or((ONLY_ACTIVE, And((SUPERSEDED, Range(Field.VALID_TO, above=to_micros(moment.valid_time))))))


def _value_conditions(decoder: RequestDecoder, chosen: filters_pb.Filter, field: str) -> Iterator[Filter | None]:
    for enum_field, name, table in (
        (Field.LAYER, "layers", LAYER),
        (Field.KIND, "kinds", KIND),
        (Field.TIER, "tiers", TIER),
        (Field.STATUS, "statuses", STATUS),
        (Field.ORIGIN, "origins", ORIGIN),
    ):
        if numbers := getattr(chosen, name):
            values = decoder.enums(f"{field}.{name}", numbers, table.from_proto, count=VALUES)
            yield _any_of(enum_field, (value.value for value in values))
    for text_field, name in (
        (Field.CATEGORY, "categories"),
        (Field.TAGS, "tags_any"),
        (None, "tags_all"),
        (Field.AGENT_ID, "agent_ids"),
        (Field.SESSION_ID, "session_ids"),
        (Field.SPEAKER, "speakers"),
    ):
        if texts := getattr(chosen, name):
            found = decoder.texts(f"{field}.{name}", texts, count=VALUES, most=VALUE_CHARS)
            if text_field is not None:
                yield AnyOf(text_field, found)
            else:
                yield from (AnyOf(Field.TAGS, (tag,)) for tag in found)
    if chosen.key_prefix:
        prefix = decoder.text(f"{field}.key_prefix", chosen.key_prefix, most=limits.KEY)
        yield AnyOf(Field.KEY, (prefix,), Match.PREFIX)
    if chosen.ids:
        yield AnyOf(Field.ID, decoder.uuids(f"{field}.ids", chosen.ids, count=VALUES))


def _time_conditions(decoder: RequestDecoder, chosen: filters_pb.Filter, now: datetime, field: str) -> Iterator[Filter]:
    for name in ("create_time", "update_time", "access_time", "event_time", "valid_from", "valid_to"):
        if chosen.HasField(name) and decoder.is_time_range(f"{field}.{name}", getattr(chosen, name)):
            yield _within(Field[name.upper()], getattr(chosen, name))
    days = decoder.integer(f"{field}.last_days", chosen.last_days, least=1, most=limits.LAST_DAYS, zero="any time")
    if chosen.last_days_field and chosen.last_days_field not in TIME_FIELDS:
        decoder.add(f"{field}.last_days_field", "must be a value of the enum")
    if days:
        tested = TIME_FIELDS.get(chosen.last_days_field, Field.CREATE_TIME)
        # Only an event may lie in the future; for the other times an upper bound would race with writes.
        latest = to_micros(now) if tested is Field.EVENT_TIME else None
        yield Range(tested, at_least=max(_EARLIEST, to_micros(now) - days * _DAY_MICROS), at_most=latest)


def _number_conditions(decoder: RequestDecoder, chosen: filters_pb.Filter, field: str) -> Iterator[Filter]:
    least, most = limits.IMPORTANCE_MIN, limits.IMPORTANCE_MAX
    lower = decoder.integer(f"{field}.min_importance", chosen.min_importance, least=least, most=most, zero="no bound")
    upper = decoder.integer(f"{field}.max_importance", chosen.max_importance, least=least, most=most, zero="no bound")
    if upper and upper < lower:
        decoder.add(f"{field}.max_importance", "must not be below min_importance")
    if lower or upper:
        yield Range(Field.IMPORTANCE, at_least=lower or None, at_most=upper or None)
    bounds: dict[str, float | None] = dict.fromkeys(("min_confidence", "max_confidence", "min_trust"))
    for name in bounds:
        if chosen.HasField(name):  # type: ignore[arg-type] # the name of an optional number
            bounds[name] = decoder.number(f"{field}.{name}", getattr(chosen, name), most=1.0)
    lowest, highest, trust = bounds.values()
    if lowest is not None and highest is not None and highest < lowest:
        decoder.add(f"{field}.max_confidence", "must not be below min_confidence")
    if lowest is not None or highest is not None:
        yield Range(Field.CONFIDENCE, at_least=lowest, at_most=highest)
    if trust is not None:
        yield Range(Field.TRUST, at_least=trust)


def _metadata_conditions(decoder: RequestDecoder, chosen: filters_pb.Filter, field: str) -> Iterator[Filter]:
    decoder.count(f"{field}.metadata", chosen.metadata, most=VALUES)
    for index, test in enumerate(chosen.metadata[:VALUES]):
        path = f"{field}.metadata[{index}]"
        decoder.text(f"{path}.path", test.path, most=limits.FILTER_PATH, least=1)
        _check_scalar(decoder, f"{path}.value", test.value)
        yield AnyOf(Field.METADATA, (metadata_term(test.path, scalar_from_proto(test.value)),))


def _metadata_ranges(decoder: RequestDecoder, chosen: filters_pb.Filter, field: str) -> Iterator[Filter]:
    decoder.count(f"{field}.metadata_ranges", chosen.metadata_ranges, most=VALUES)
    for index, test in enumerate(chosen.metadata_ranges[:VALUES]):
        path = f"{field}.metadata_ranges[{index}]"
        decoder.text(f"{path}.path", test.path, most=limits.FILTER_PATH, least=1)
        bounds: dict[str, float] = {}
        for name, bound in _BOUNDS.items():
            if test.HasField(name):  # type: ignore[arg-type] # the name of an optional number
                bounds[bound] = getattr(test, name)
                if not math.isfinite(bounds[bound]):
                    decoder.add(f"{path}.{name}", "must be a finite number")
        if not bounds:
            decoder.add(path, f"must have one of {', '.join(_BOUNDS)}")
        lower = max(bounds.get("above", -math.inf), bounds.get("at_least", -math.inf))
        upper = min(bounds.get("below", math.inf), bounds.get("at_most", math.inf))
        if upper < lower:
            decoder.add(path, "must not have an upper bound below the lower one")
        yield Range(Field.METADATA, path=test.path, **bounds)


def _happened_within(decoder: RequestDecoder, span: types_pb.TimeRange) -> Filter | None:
    """Return the test that a memory's event time, or without one its create time, is in *span*."""
    if not decoder.is_time_range("time_range", span) or not (span.HasField("start") or span.HasField("end")):
        return None
    unknown = Not(Range(Field.EVENT_TIME, at_least=_EARLIEST))
    return Or((_within(Field.EVENT_TIME, span), And((unknown, _within(Field.CREATE_TIME, span)))))


def _within(field: Field, span: types_pb.TimeRange) -> Range:
    """Return the test that a time is set and in *span*, its end left out."""
    return Range(
        field,
        at_least=_micros_not_before(span.start) if span.HasField("start") else _EARLIEST,
        below=_micros_not_before(span.end) if span.HasField("end") else None,
    )


def _micros_not_before(stamp: Timestamp) -> int:
    """Return the first microsecond that is not before the moment: bounds are finer than stored times."""
    return stamp.seconds * _MICROS - (-stamp.nanos // 1000)


def _any_of(field: Field, values: Iterable[str]) -> AnyOf | None:
    distinct = tuple(dict.fromkeys(values))
    return AnyOf(field, distinct) if distinct else None


@dataclass(frozen=True, slots=True)
class _Condition:
    """One condition of an expression: its field, operator and values, and its path in the request."""

    tested: Field
    operator: int
    path: str
    values: Sequence[Value]
    field: str


class ExpressionDecoder:
    """One walk through a `where` expression. Its values are counted: the whole of it has a limit.

    Attributes:
        tested: The fields of all conditions so far.
    """

    def __init__(self, decoder: RequestDecoder) -> None:
        self._decoder = decoder
        self._values = 0
        self.tested: set[Field] = set()

    def decode(self, expression: filters_pb.FilterExpression, field: str, *, depth: int) -> Filter:
        """Return the filter tree of an expression at *depth*, counted from 1."""
        node = expression.WhichOneof("node")
        if depth > limits.FILTER_DEPTH:
            self._decoder.add(field, f"must be nested at most {limits.FILTER_DEPTH} deep")
        elif node is None:
            self._decoder.add(field, "must have one of all_of, any_of, negated, condition")
        elif node == "negated":
            return Not(self.decode(expression.negated, f"{field}.negated", depth=depth + 1))
        elif node == "condition":
            return self._condition(expression.condition, f"{field}.condition")
        else:
            group = getattr(expression, node)
            children = tuple(self._group(group, f"{field}.{node}.expressions", depth=depth + 1))
            return And(children) if node == "all_of" else Or(children)
        return _NOTHING

    def _group(self, group: filters_pb.FilterGroup, field: str, *, depth: int) -> Iterator[Filter]:
        self._decoder.count(field, group.expressions, least=1, most=VALUES)
        for index, child in enumerate(group.expressions[:VALUES]):
            if self._values > VALUES:
                return
            yield self.decode(child, f"{field}[{index}]", depth=depth)

    def _condition(self, condition: filters_pb.FilterCondition, field: str) -> Filter:
        before = self._values
        self._values += max(1, len(condition.values))
        tested, operator, add = FILTER_FIELDS.get(condition.field), condition.operator, self._decoder.add
        if tested is not None:
            self.tested.add(tested)
        if before <= VALUES < self._values:
            add(f"{field}.values", f"must hold at most {VALUES} values, together with all other conditions")
            return _NOTHING
        self._check_operator(tested, operator, field)
        if tested is None:
            return _NOTHING
        if tested is Field.METADATA:
            self._decoder.text(f"{field}.metadata_path", condition.metadata_path, most=limits.FILTER_PATH, least=1)
        elif condition.metadata_path:
            add(f"{field}.metadata_path", "must be empty unless field is METADATA")
        self._check_count(condition, field)
        return self._test(_Condition(tested, operator, condition.metadata_path, condition.values, f"{field}.values"))

    def _check_count(self, condition: filters_pb.FilterCondition, field: str) -> None:
        count = len(condition.values)
        if condition.operator == filters_pb.FILTER_OPERATOR_IN:
            self._decoder.count(f"{field}.values", condition.values, least=1, most=VALUES)
        elif condition.operator == _BETWEEN and count != len(("lower", "upper")):
            self._decoder.add(f"{field}.values", "must hold exactly 2 values with BETWEEN: the lower and the upper one")
        elif condition.operator != _BETWEEN and count != 1:
            self._decoder.add(f"{field}.values", "must hold exactly 1 value, except with IN and BETWEEN")

    def _check_operator(self, tested: Field | None, operator: int, field: str) -> None:
        if tested is None:
            self._decoder.add(f"{field}.field", "must be a value of the enum, and not UNSPECIFIED")
        if operator not in _OPERATORS:
            self._decoder.add(f"{field}.operator", "must be a value of the enum, and not UNSPECIFIED")
        elif operator in _RANGES and tested is not None and tested not in _COMPARABLE:
            self._decoder.add(f"{field}.operator", "compares importance, confidence, trust, metadata and times only")
        elif operator == _STARTS_WITH and tested is not None and tested is not Field.KEY:
            self._decoder.add(f"{field}.operator", "STARTS_WITH compares keys only")

    def _test(self, condition: _Condition) -> Filter:
        operands = [
            self._operand(f"{condition.field}[{index}]", value, condition)
            for index, value in enumerate(condition.values[:VALUES])
        ]
        if not operands:
            return _NOTHING
        if condition.operator in _RANGES:
            return self._range(condition, [number for number in operands if isinstance(number, int | float)])
        if condition.operator == _STARTS_WITH:
            prefix = str(operands[0])
            if not prefix:
                self._decoder.add(f"{condition.field}[0]", "must not be empty with STARTS_WITH")
            return AnyOf(Field.KEY, (prefix,), Match.PREFIX) if prefix else _NOTHING
        found = _equal_to_any(condition.tested, operands)
        return Not(found) if condition.operator == filters_pb.FILTER_OPERATOR_NOT_EQUALS else found

    def _range(self, condition: _Condition, numbers: Sequence[float]) -> Filter:
        """Return the test of a comparison, or of BETWEEN with its two numbers; nothing when one is missing."""
        tested, path = condition.tested, condition.path
        if bound := _COMPARISONS.get(condition.operator):
            return _comparison(tested, bound, numbers[0], path) if numbers else _NOTHING
        if len(numbers) != len(("lower", "upper")):
            return _NOTHING
        lower, upper = numbers
        if upper < lower:
            self._decoder.add(condition.field, "must have the lower value first with BETWEEN")
        if tested is Field.IMPORTANCE:
            return And((_comparison(tested, "at_least", lower), _comparison(tested, "at_most", upper)))
        return Range(tested, at_least=lower, at_most=upper, path=path)

    def _operand(self, field: str, value: Value, condition: _Condition) -> str | float:
        """Return the operand of a comparison: a number, microseconds for a time, a term of metadata, or a text."""
        kind, tested, add = value.WhichOneof("kind"), condition.tested, self._decoder.add
        if tested is Field.METADATA and condition.operator not in _RANGES:
            _check_scalar(self._decoder, field, value)
            return metadata_term(condition.path, scalar_from_proto(value))
        if tested in _NUMBERS or tested is Field.METADATA:
            if kind == "number_value" and math.isfinite(value.number_value):
                return value.number_value
            add(field, "must be a finite number")
            return 0.0
        text = value.string_value
        if kind != "string_value":
            add(field, "must be a string")
        elif tested in TIMES:
            micros = _micros_from_text(text)
            if micros is None:
                add(field, "must be an RFC 3339 time such as '2026-02-06T08:00:00Z'")
            return micros or 0
        elif tested in ENUM_FIELDS:
            if text not in ENUM_FIELDS[tested]:
                add(field, f"must be one of {', '.join(sorted(ENUM_FIELDS[tested]))}")
        else:
            self._decoder.text(field, text, most=VALUE_CHARS)
        return 0.0 if tested in TIMES else text


def _check_scalar(decoder: RequestDecoder, field: str, value: Value) -> None:
    kind = value.WhichOneof("kind")
    if kind not in _SCALARS:
        decoder.add(field, "must be a string, a number, a boolean or null")
    elif kind == "number_value" and not math.isfinite(value.number_value):
        decoder.add(field, "must be a finite number")
    elif kind == "string_value":
        decoder.text(field, value.string_value, most=VALUE_CHARS)


def _micros_from_text(text: str) -> int | None:
    """Return the microseconds of an RFC 3339 time, None for any other text or a year out of range."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        micros = to_micros(datetime.fromisoformat(text.upper()))
    except ValueError:
        return None
    return micros if _EARLIEST <= micros < (MAX_SECONDS + 1) * _MICROS else None


def _equal_to_any(field: Field, operands: Sequence[str | float]) -> Filter:
    numbers = [operand for operand in operands if not isinstance(operand, str)]
    if not numbers:
        return AnyOf(field, tuple(dict.fromkeys(str(operand) for operand in operands)))
    tests = tuple(_equal_number(field, number) for number in numbers)
    return tests[0] if len(tests) == 1 else Or(tests)


def _equal_number(field: Field, number: float) -> Filter:
    if field is Field.IMPORTANCE:
        if not float(number).is_integer():
            return Or(())
        number = _importance(number)
    return Range(field, at_least=number, at_most=number)


def _comparison(field: Field, bound: str, number: float, path: str = "") -> Filter:
    if field is not Field.IMPORTANCE:
        return Range(
            field,
            path=path,
            above=number if bound == "above" else None,
            at_least=number if bound == "at_least" else None,
            below=number if bound == "below" else None,
            at_most=number if bound == "at_most" else None,
        )
    if bound in {"above", "at_least"}:
        whole = math.floor(number) + 1 if bound == "above" else math.ceil(number)
        return Range(field, at_least=_importance(whole))
    whole = math.ceil(number) - 1 if bound == "below" else math.floor(number)
    return Range(field, at_most=_importance(whole))


def _importance(number: float) -> int:
    return int(max(-IMPORTANCE_BOUND, min(IMPORTANCE_BOUND, number)))
