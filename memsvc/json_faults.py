"""Faults of JSON that is no message: the syntax, or the first value that does not fit its field.

The errors of the parsers quote Python, depend on its version, and omit places in lists.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.errors import Violation

MOST_NESTED = 100
NESTED_TOO_DEEP = "it is nested too deep"
_SYNTAX = {
    "Expecting value": "a value is missing or is not JSON",
    "Expecting property name enclosed in double quotes": "a field name in double quotes is missing",
    "Illegal trailing comma": "the comma before the bracket must be removed",
    "Expecting ':' delimiter": "a colon is missing",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Unterminated string": "the string has no closing quote",
    "Invalid control character": "a tab or another control character must be escaped, or a quote is missing",
    "Invalid \\": "the backslash begins no escape of JSON",
    "Extra data": "there is text after the end",
}
"""Beginnings of the messages of Python's parser, and what they mean."""


def syntax_fault(text: str | bytes) -> str | None:
    """Return why a text is no JSON, with its place; None if it is JSON in which no name occurs twice in an object."""
    try:
        json.loads(text, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        return parser_fault(error)
    except UnicodeDecodeError:
        return "it is no UTF-8 text"
    except _RepeatedNameError as error:
        return str(error)
    except RecursionError:
        return NESTED_TOO_DEEP
    except ValueError:
        return "it has a number with too many digits"
    return None


def parser_fault(error: json.JSONDecodeError) -> str:
    """Return what an error of Python's parser means, and its place."""
    said = next((meaning for start, meaning in _SYNTAX.items() if error.msg.startswith(start)), error.msg)
    if error.pos >= len(error.doc.rstrip()):
        return "it ends in the middle of a value"
    place = f"column {error.colno}"
    return f"{said}, at {place}" if error.lineno == 1 else f"{said}, at line {error.lineno}, {place}"


class _RepeatedNameError(Exception):
    """An object has a name twice."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            message = f"the field {name!r} occurs twice in one object"
            raise _RepeatedNameError(message)
        found[name] = value
    return found


def is_spelt_twice(names: Mapping[str, Any]) -> bool:
    """Return whether two names of an object may be one field: as in the .proto file, and in camelCase."""
    return any("_" in name for name in names) and len({name.replace("_", "").lower() for name in names}) < len(names)


# The first value that does not fit its field.


_Check: TypeAlias = Callable[[Any], bool]
_JSON_OBJECT = "must be a JSON object"
TOO_DEEP = Violation("request", f"must not be nested more than {MOST_NESTED} deep")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNICODE = "must be valid Unicode, without unpaired surrogates"
_FREE_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value"})


def json_fault(value: Any, described: Descriptor) -> Violation | None:
    """Return the first value of a JSON object that its field cannot take, in the order of the text.

    None when all fit, as far as types tell, or when an unknown name comes first. Takes time in proportion to *value*.
    """
    return next(_faults(value, described, "", 1), None)


def _faults(value: Any, described: Descriptor, path: str, depth: int) -> Iterator[Violation | None]:
    """Yield what does not fit in a message at *path*, the *depth*-th from outside; None for a name that is no field."""
    if depth > MOST_NESTED:
        yield TOO_DEEP
        return
    if not isinstance(value, Mapping):
        yield Violation(path, _JSON_OBJECT)
        return
    fields = described.fields_by_name
    names = {field.json_name: field for field in described.fields}
    given: dict[int, str] = {}
    for name, each in value.items():
        if _has_surrogate(name):
            # Descriptors cannot be asked for such a name, and no path can hold it.
            yield Violation(path or "request", _UNICODE)
            return
        field = names.get(name) or fields.get(name)
        if field is None:
            yield None
            return
        if (other := given.setdefault(field.number, name)) != name:
            # Parsers differ in which of them they take.
            yield Violation(f"{path}.{name}" if path else name, f"is given twice, also as {other}")
        if each is not None:
            yield from _faults_of_field(each, field, f"{path}.{name}" if path else name, depth)


def _faults_of_field(value: Any, field: FieldDescriptor, path: str, depth: int) -> Iterator[Violation | None]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            yield Violation(path, _JSON_OBJECT)
            return
        for key, each in value.items():
            yield from _faults_of_value(each, field.message_type.fields_by_name["value"], f"{path}.{key}", depth)
    elif not field.is_repeated:
        yield from _faults_of_value(value, field, path, depth)
    elif not isinstance(value, list):
        yield Violation(path, "must be a JSON list")
    else:
        for place, each in enumerate(value):
            yield from _faults_of_value(each, field, f"{path}[{place}]", depth)


def _faults_of_value(value: Any, field: FieldDescriptor, path: str, depth: int) -> Iterator[Violation | None]:
    described = field.message_type
    is_free = described is not None and described.full_name in _FREE_JSON
    if (isinstance(value, str) or is_free) and _has_surrogate(value):
        yield Violation(path, _UNICODE)
        return
    if described is None:
        fits, expected = _scalar(field)
    elif described.full_name in _WELL_KNOWN:
        fits, expected = _WELL_KNOWN[described.full_name]
    elif is_free:
        return
    else:
        yield from _faults(value, described, path, depth + 1)
        return
    if not fits(value):
        yield Violation(path, expected)


def _has_surrogate(value: Any) -> bool:
    """Return whether a text, or a name or text within free JSON, has an unpaired surrogate."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _SURROGATE.search(text) is not None


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "===")
    except (AttributeError, ValueError, binascii.Error):
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _whole(least: int, most: int) -> tuple[_Check, str]:
    def fits(value: Any) -> bool:
        try:
            # Protocol Buffers takes a number in a string, but not with the spaces that Python takes.
            is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
            number = int(value) if is_number and not (isinstance(value, str) and " " in value) else None
            return number is not None and (isinstance(value, str) or number == value) and least <= number <= most
        except (ValueError, OverflowError):
            return False

    return fits, f"must be a whole number from {least} to {most}"


def _enum(field: FieldDescriptor) -> tuple[_Check, str]:
    assert field.enum_type is not None  # noqa: S101 - the type of the field says so
    names = field.enum_type.values_by_name
    listed = ", ".join(name for name in names if not name.endswith("_UNSPECIFIED"))

    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number or (isinstance(value, str) and (value in names or value.lstrip("-").isdecimal()))

    return fits, f"must be one of {listed}"


def _scalar(field: FieldDescriptor) -> tuple[_Check, str]:
    """Return what tells whether a field can take a value, and the form that it expects."""
    if field.enum_type is not None:
        return _enum(field)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _is_base64, "must be a string in base64"
    return _SCALARS[field.cpp_type]


_SCALARS: Mapping[int, tuple[_Check, str]] = {
    FieldDescriptor.CPPTYPE_STRING: (lambda value: isinstance(value, str), "must be a JSON string"),
    FieldDescriptor.CPPTYPE_BOOL: (lambda value: isinstance(value, bool), "must be true or false"),
    FieldDescriptor.CPPTYPE_INT32: _whole(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _whole(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: _whole(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _whole(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: (_is_number, "must be a finite number"),
    FieldDescriptor.CPPTYPE_DOUBLE: (_is_number, "must be a finite number"),
}


def _parsed(kind: type[Duration | Timestamp | FieldMask]) -> _Check:
    """Return what tells whether a well-known message can be read from a JSON string."""

    def fits(value: Any) -> bool:
        try:
            kind().FromJsonString(value)
        except (TypeError, ValueError, AttributeError):
            return False
        return True

    return fits


_WELL_KNOWN: Mapping[str, tuple[_Check, str]] = {
    "google.protobuf.Duration": (
        _parsed(Duration),
        'must be a duration in seconds, such as "3.5s"',
    ),
    "google.protobuf.Timestamp": (
        _parsed(Timestamp),
        'must be a time with its zone, such as "2026-03-01T09:30:00Z"',
    ),
    "google.protobuf.FieldMask": (
        _parsed(FieldMask),
        'must be a string of field names, such as "content,eventTime"',
    ),
    "google.protobuf.Struct": (lambda value: isinstance(value, Mapping), _JSON_OBJECT),
}
