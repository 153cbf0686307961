"""Rules for free JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from google.protobuf.struct_pb2 import Struct, Value

from memsvc.domain import limits
from memsvc.server.convert.json import struct_from_proto
from memsvc.server.validate.violations import Violations


def check_metadata(found: Violations, field: str, struct: Struct) -> None:
    """Check metadata: finite numbers, no NUL, not too deep, not too long as JSON text."""
    if not struct.fields:
        return
    if faults := set(_struct_faults(struct, depth=1)):
        for fault in sorted(faults):
            found.add(field, fault)
        return
    text = json.dumps(struct_from_proto(struct), ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > limits.METADATA_BYTES:
        found.add(field, f"must take at most {limits.METADATA_BYTES} bytes as JSON text")


def _struct_faults(struct: Struct, *, depth: int) -> Iterator[str]:
    if depth > limits.METADATA_DEPTH:
        yield f"must be nested at most {limits.METADATA_DEPTH} deep"
        return
    for name, value in struct.fields.items():
        if "\0" in name:
            yield "must not contain NUL"
        yield from _faults(value, depth=depth)


def _faults(value: Value, *, depth: int) -> Iterator[str]:
    kind = value.WhichOneof("kind")
    if kind == "number_value" and not math.isfinite(value.number_value):
        yield "must hold finite numbers only"
    elif kind == "string_value" and "\0" in value.string_value:
        yield "must not contain NUL"
    elif kind == "struct_value":
        yield from _struct_faults(value.struct_value, depth=depth + 1)
    elif kind == "list_value":
        if depth >= limits.METADATA_DEPTH:
            yield f"must be nested at most {limits.METADATA_DEPTH} deep"
            return
        for child in value.list_value.values:
            yield from _faults(child, depth=depth + 1)
