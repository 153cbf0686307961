"""What the values in the lines of an exported user may be."""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from datetime import UTC
from typing import Annotated

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

LARGEST = (1 << 62) - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


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


def _small(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not value:
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        message = "must hold finite numbers only"
        raise ValueError(message) from None
    if len(text.encode()) > limits.METADATA_BYTES:
        message = f"must take at most {limits.METADATA_BYTES} bytes as JSON"
        raise ValueError(message)
    if "\\u0000" in text:
        message = "must not contain NUL"
        raise ValueError(message)
    if _depth(value) > limits.METADATA_DEPTH:
        message = f"must be nested at most {limits.METADATA_DEPTH} deep"
        raise ValueError(message)
    return value


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
Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]
Plain = AfterValidator(_plain)
Named = AfterValidator(_named)
ScopeId = Annotated[str, StringConstraints(max_length=limits.SCOPE_ID), Named]
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=limits.SCOPE_ID), Named]
CheckpointName = Annotated[str, StringConstraints(min_length=1, max_length=limits.CHECKPOINT), Named]
Note = Annotated[str, StringConstraints(max_length=limits.CHECKPOINT_NOTE), Plain]
FileCategory = Annotated[str, StringConstraints(max_length=limits.CATEGORY), Named]
FileId = Annotated[str, StringConstraints(max_length=limits.FILE_REF_ID), Plain]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=limits.FILE_NAME), Named]
MediaType = Annotated[str, StringConstraints(min_length=1, max_length=limits.MEDIA_TYPE), Named]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Content = Annotated[str, StringConstraints(min_length=1, max_length=limits.CONTENT), Plain]
Key = Annotated[str, StringConstraints(max_length=limits.KEY), Plain]
Category = Annotated[str, StringConstraints(max_length=limits.CATEGORY), Plain]
Speaker = Annotated[str, StringConstraints(max_length=limits.SPEAKER), Plain]
Title = Annotated[str, StringConstraints(max_length=limits.TITLE), Plain]
Summary = Annotated[str, StringConstraints(max_length=limits.SUMMARY), Plain]
Source = Annotated[str, StringConstraints(max_length=limits.SOURCE), Plain]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG), Plain]
Term = Annotated[str, StringConstraints(min_length=1, max_length=limits.KEYWORD), Plain]
Data = Annotated[bytes, BeforeValidator(_vector)]
"""The float32 bytes of a vector; in base64 in the line."""
