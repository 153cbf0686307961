"""Single lines of an import: what is right and what is wrong with their values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.secrets import redact
from memsvc.engine.user_data.decode import read_line
from memsvc.engine.user_data.schema import MemoryLine

MEMORY: dict[str, Any] = {
    "record": "memory", "id": "00000000-0000-7000-8000-000000000001", "content": "one", "layer": "LONG_TERM",
    "kind": "FACT", "tier": "CONTEXTUAL", "status": "ACTIVE", "origin": "USER", "importance": 3, "confidence": 1,
    "trust": 0.5, "revision": 1, "create_time": "2026-02-06T10:00:00+08:00", "update_time": "2026-02-06T10:00:00Z",
    "action": "CREATED",
}  # fmt: skip


def read(**fields: Any) -> MemoryLine:
    """Return the memory of a line with these fields."""
    line = read_line(1, json.dumps(MEMORY | fields).encode())
    assert isinstance(line, MemoryLine)
    return line


@pytest.mark.parametrize(
    "number",
    ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 309, "[{}, [-1" + "0" * 400],
    ids=["NaN", "Infinity", "-Infinity", "1e999", "large", "deep"],
)
def test_numbers_that_are_no_doubles_are_refused(number: str) -> None:
    """However deep they lie; also those that are no JSON but that parsers take."""
    closing = "]]" if number.startswith("[") else ""
    line = json.dumps(MEMORY)[:-1] + f', "metadata": {{"a": {number}{closing}}}}}'

    with pytest.raises(InvalidRequestError) as caught:
        read_line(7, line.encode())

    assert ["data.lines[7].metadata"] == [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": 2**80, "b": -(2**1023), "c": 1.7976931348623157e308},
        {"a": "9" * 400, "9" * 400: 1, "b": "\\u0000"},
        {f"{number:04}": number for number in range(1_300)},
        {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}},
    ],
    ids=["large", "digits in texts", "as long as it may be", "as deep as it may be"],
)
def test_metadata_that_a_write_takes_is_taken(metadata: dict[str, Any]) -> None:
    """Its length is that of JSON without spaces."""
    assert metadata == read(metadata=metadata).metadata


def test_what_grew_when_a_secret_was_replaced_is_taken() -> None:
    """An export of such a memory can be imported; without such a secret the limit holds."""
    tag, _ = redact("pwd=Abc123! " * 5)
    title, _ = redact("https://u:p@h " * 36)
    metadata = {"a": redact("https://u:p@h " * 1_100)[0]}

    assert (len(tag) > limits.TAG, len(title) > limits.TITLE) == (True, True)
    line = read(tags=[tag], title=title, metadata=metadata)
    assert ([tag], title, metadata) == (line.tags, line.title, line.metadata)
    with pytest.raises(InvalidRequestError):
        read(tags=["t" * (limits.TAG + 1)])


def test_all_that_is_wrong_together_is_told() -> None:
    """Each with its field."""
    times = {"valid_from": "2026-01-02T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}
    with pytest.raises(InvalidRequestError) as caught:
        read(layer="SESSION", supersedes_id=MEMORY["id"], superseded_by_id=MEMORY["id"], **times)

    names = ("valid_to", "layer", "supersedes_id", "superseded_by_id")
    assert [f"data.lines[1].{name}" for name in names] == [one.field for one in caught.value.violations]
