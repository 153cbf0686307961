"""What an export tells, part by part and letter by letter."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from memsvc.domain.index_entries import ChangeAction, View
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import StoredMemory
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.services import Services
from memsvc.engine.user_data.encode import memory_line, vector_part
from memsvc.engine.user_data.export import PART_BYTES
from memsvc.testing import factories

ADA = Scope("ada")
CONTENTS = ["a", "é" * 60_000, "b" * (PART_BYTES - 700), "c" * (3 * PART_BYTES), "d", "e" * 100_000, "f" * 100_000]


def test_a_part_ends_with_a_line_unless_the_line_is_longer(application: Services) -> None:
    """No part is larger than it may be, none is a scrap, and each tells the records that it brings the file to."""
    for content in CONTENTS:
        application.memory_creator.create(ADA, Draft(content), WriteOptions(wait_for=WaitFor.STORED))

    parts = list(application.user_exporter.run(ADA, with_vectors=False))

    lines = b"".join(part.data for part in parts).splitlines()
    assert CONTENTS == [json.loads(line)["content"] for line in lines[1:-1]]
    assert all(len(part.data) <= PART_BYTES for part in parts)
    whole = [part for part in parts if part.data.startswith(b'{"record"') and part.data.endswith(b"}\n")]
    assert [2, 3, 7] == [part.records for part in whole]
    assert 7 == len(parts) == parts[-1].records
    for before, after in zip(whole, whole[1:], strict=False):
        assert len(before.data) + len(after.data.splitlines(keepends=True)[0]) > PART_BYTES


@pytest.mark.parametrize(
    "given",
    [(b"", ""), (b"\0\0\x80?", 'm "é"'), (bytes(range(256)) * 6, "m")],
    ids=["none", "one number", "many numbers"],
)
@pytest.mark.parametrize("views", [(), ((View.CHUNK, 0),), ((View.CHUNK, 1), (View.SENTENCES, 12))], ids=len)
def test_vectors_are_told_as_the_rest_of_the_line_is(
    given: tuple[bytes, str], views: tuple[tuple[View, int], ...]
) -> None:
    """The line is compact JSON throughout, and the vectors are where the format has them."""
    memory = factories.memory('"é"\n\u2028', tags=("a\\b",), metadata={"data": ""})
    vectors = [vector_part(b"\0\0\x80?", view, ordinal) for view, ordinal in views]

    line = memory_line(StoredMemory(memory, True, ChangeAction.CREATED, "", None, *given), vectors)

    told = json.loads(line.raw)
    assert f"{json.dumps(told, ensure_ascii=False, separators=(',', ':'))}\n".encode() == line.raw
    if given[0]:
        assert {"model": given[1], "data": given[0]} == told["given_vector"] | {
            "data": b64decode(told["given_vector"]["data"], validate=True)
        }
    assert bool(given[0]) == ("given_vector" in told)
    found = [(one["data"], one.get("view", "CHUNK"), one.get("ordinal", 0)) for one in told.get("vectors", ())]
    assert [("AACAPw==", view.name, ordinal) for view, ordinal in views] == found
