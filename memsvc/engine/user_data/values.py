"""What the values in the lines of an exported user may be."""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    JsonValue,
    StringConstraints,
)  # fmt: skip

from memsvc.domain import limits
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.domain.limits import fits_json_number
from memsvc.domain.memory_keys import fault_of

LARGEST = (1 << 62) - 1
LARGEST_REVISION = 1 << 32
"""An export tells how many earlier revisions there are of all memories together, and reads no more than *LARGEST*."""
GROWTH = 4
"""A secret that was replaced before it was stored made its text longer, but never by more than so many times."""
_REDACTED = "[REDACTED:"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


_TYPE = "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
_SUSPECT = re.compile(r"\\u0000|[0-9]{309}")
"""In JSON: what may be NUL, or a number that is no double; or neither, but that takes a closer look."""


def _at_most(most: int) -> AfterValidator:
    """Return what checks a text of at most *most* characters: more are let pass where secrets were replaced."""

    def check(text: str) -> str:
        if len(text) > most and _REDACTED not in text:
            message = f"must have at most {most} characters"
            raise ValueError(message)
        return _plain(text)

    return AfterValidator(check)


def _plain(text: str) -> str:
    if "\0" in text:
        message = "must not contain NUL"
        raise ValueError(message)
    return text


def _named(text: str) -> str:
    if _CONTROL.search(text):
        message = "must not contain control characters"
        raise ValueError(message)
    return text


def _key(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(fault)
    return text


@lru_cache(maxsize=1_000)
def _zone(name: str) -> str:
    """Return the name of a time zone. One that is not known here is taken: where it comes from it may be known."""
    try:
        ZoneInfo(name or "UTC")
    except ZoneInfoNotFoundError:
        return name
    except (ValueError, OSError) as error:
        message = "must be the IANA name of a time zone such as 'Asia/Shanghai', or empty"
        raise ValueError(message) from error
    return name


def _moment(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = "must lie between the years 1 and 9999 in UTC"
        raise ValueError(message) from None


def _json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object that can be told again: its numbers are doubles, and there is no NUL in its texts."""
    if value:
        _told(value)
    return value


def _small(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not value:
        return value
    text = _told(value)
    most = limits.METADATA_BYTES * (GROWTH if _REDACTED in text else 1)
    if len(text.encode()) > most:
        message = f"must take at most {limits.METADATA_BYTES} bytes as JSON"
        raise ValueError(message)
    if _depth(value) > limits.METADATA_DEPTH:
        message = f"must be nested at most {limits.METADATA_DEPTH} deep"
        raise ValueError(message)
    return value


def _told(value: dict[str, JsonValue]) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        message = "must hold finite numbers only"
        raise ValueError(message) from None
    if _SUSPECT.search(text):
        _inspect(value)
    return text


def _inspect(value: JsonValue) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _plain(name)
            _inspect(inner)
    elif isinstance(value, list):
        for inner in value:
            _inspect(inner)
    elif isinstance(value, str):
        _plain(value)
    elif isinstance(value, int) and not fits_json_number(value):
        message = "must hold numbers within the range of doubles only"
        raise ValueError(message)


def _depth(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _vector(text: object) -> bytes:
    try:
        raw = a2b_base64(text, strict_mode=True) if isinstance(text, str) else b""
    except ValueError:
        raw = b""
    numbers = np.frombuffer(raw if len(raw) % 4 == 0 else b"", dtype="<f4")
    # Of no number all are finite; but there must be one that is not 0.
    if not (numbers.any() and np.isfinite(numbers).all()):
        message = "must be base64 of finite float32 numbers, not all of them 0"
        raise ValueError(message)
    return raw


Id = Annotated[str, StringConstraints(pattern=_UUID)]
IdOrNone = Annotated[str, StringConstraints(pattern=rf"^$|{_UUID}")]
Moment = Annotated[AwareDatetime, AfterValidator(_moment)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Number = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
Revision = Annotated[int, Field(strict=True, ge=1, le=LARGEST_REVISION)]
Importance = Annotated[int, Field(strict=True, ge=limits.IMPORTANCE_MIN, le=limits.IMPORTANCE_MAX)]
Zone = Annotated[str, StringConstraints(max_length=limits.CHECKPOINT_NOTE), AfterValidator(_zone)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]
Arguments = Annotated[dict[str, JsonValue], AfterValidator(_json)]
Plain = AfterValidator(_plain)
Named = AfterValidator(_named)
ScopeId = Annotated[str, StringConstraints(max_length=limits.SCOPE_ID), Named]
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=limits.SCOPE_ID), Named]
CheckpointName = Annotated[str, StringConstraints(min_length=1, max_length=limits.CHECKPOINT), Named]
Note = Annotated[str, StringConstraints(max_length=limits.CHECKPOINT_NOTE), Plain]
FileCategory = Annotated[str, StringConstraints(pattern=rf"^(?:{'|'.join(FILE_CATEGORIES)})$")]
FileId = Annotated[str, StringConstraints(min_length=1, max_length=limits.FILE_REF_ID), Named]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=limits.FILE_NAME), Named]
MediaType = Annotated[str, StringConstraints(pattern=f"^{_TYPE}/{_TYPE}$", max_length=limits.MEDIA_TYPE)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Content = Annotated[str, StringConstraints(min_length=1, max_length=GROWTH * limits.CONTENT), _at_most(limits.CONTENT)]
Key = Annotated[str, StringConstraints(max_length=limits.KEY), Named, AfterValidator(_key)]
Category = Annotated[str, StringConstraints(max_length=GROWTH * limits.CATEGORY), _at_most(limits.CATEGORY)]
Speaker = Annotated[str, StringConstraints(max_length=GROWTH * limits.SPEAKER), _at_most(limits.SPEAKER)]
Title = Annotated[str, StringConstraints(max_length=GROWTH * limits.TITLE), _at_most(limits.TITLE)]
Summary = Annotated[str, StringConstraints(max_length=GROWTH * limits.SUMMARY), _at_most(limits.SUMMARY)]
Source = Annotated[str, StringConstraints(max_length=GROWTH * limits.SOURCE), _at_most(limits.SOURCE)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=GROWTH * limits.TAG), _at_most(limits.TAG)]
Term = Annotated[str, StringConstraints(min_length=1, max_length=limits.KEYWORD), Plain]
Data = Annotated[bytes, BeforeValidator(_vector)]
"""The float32 bytes of a vector; in base64 in the line."""
