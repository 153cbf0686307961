"""Free JSON: google.protobuf.Struct and plain Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from memsvc.domain.memory import Json

EXACT_INTEGERS = 2.0**53
"""Doubles below this that have no fraction are written as whole numbers, since that is what they were."""


def struct_from_proto(struct: Struct) -> dict[str, Json]:
    """Return the members, whole numbers as int."""
    return {name: json_from_proto(value) for name, value in struct.fields.items()}


def json_from_proto(value: Value) -> Json:
    """Return one value; one that is nothing at all counts as null."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < EXACT_INTEGERS else number
    if kind == "struct_value":
        return struct_from_proto(value.struct_value)
    if kind == "list_value":
        return [json_from_proto(child) for child in value.list_value.values]
    if kind == "string_value":
        return value.string_value
    return value.bool_value if kind == "bool_value" else None


def struct_to_proto(members: Mapping[str, Json]) -> Struct:
    """Return the members as a Struct; numbers become doubles."""
    return Struct(fields={name: json_to_proto(value) for name, value in members.items()})


def json_to_proto(value: Json) -> Value:
    """Return one value; numbers become doubles."""
    if value is None:
        return Value(null_value=NULL_VALUE)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, int | float):
        return Value(number_value=_double(value))
    if isinstance(value, dict):
        return Value(struct_value=struct_to_proto(value))
    return Value(list_value=ListValue(values=[json_to_proto(child) for child in value]))


def _double(number: float) -> float:
    """Return the double that is nearest: of whole numbers beyond them all, the last one."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max
