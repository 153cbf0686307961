"""Single lines of an import: what is right and what is wrong with their values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.secrets import redact
from memsvc.engine.user_data.decode import FileOrigin, read_line
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


def _fault(fields: dict[str, Any], made: str, own: str = "memsvc 0.9.1") -> str:
    origin = FileOrigin.of(json.dumps({"record": "header", "service": made, "later": 1}).encode(), own)
    with pytest.raises(InvalidRequestError) as caught:
        read_line(2, json.dumps(MEMORY | fields).encode(), origin)
    [violation] = caught.value.violations
    return violation.description


@pytest.mark.parametrize("fields", [{"colour": "红"}, {"kind": "DREAM"}, {"record": "dream"}])
@pytest.mark.parametrize("made", ["0.10.0", "1.0", "0.9.2rc1"])
def test_what_a_newer_version_wrote_is_answered_with_both_versions(fields: dict[str, Any], made: str) -> None:
    """And with what to do; versions are compared as numbers."""
    fault = _fault(fields, f"memsvc {made}")
    assert fault.endswith(
        f"the file was made by memsvc {made}; this is memsvc 0.9.1: upgrade this service to import it"
    )


@pytest.mark.parametrize(
    "made", ["memsvc 0.9.1", "memsvc 0.8", "", "memsvc", "other 2.0", "memsvc 9\nUpgrade!", "memsvc ٩"]
)
def test_an_unknown_field_of_another_origin_asks_for_no_upgrade(made: str) -> None:
    """What the header says is quoted only if it is a version."""
    fault = _fault({"colour": "red"}, made)
    assert fault.startswith("is a field that this version does not know")
    assert "upgrade" not in fault.lower()
    assert "other" not in fault


def test_a_wrong_value_is_not_blamed_on_the_version() -> None:
    """A known field with a value that no version takes."""
    assert "memsvc" not in _fault({"importance": 9}, "memsvc 2.0")


@pytest.mark.parametrize("header", [b"", b"{", b'{"service": 3}', b"\xff"])
def test_a_header_that_cannot_be_read_has_no_origin(header: bytes) -> None:
    """The error is about the line itself."""
    assert FileOrigin.of(header, "") == FileOrigin()
