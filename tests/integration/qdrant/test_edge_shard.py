"""One shard of the embedded engine, without the child process that usually holds it."""

from __future__ import annotations

import marshal
import shutil
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc_backends.qdrant_edge import shard as shard_module
from memsvc_backends.qdrant_edge.shard import ROW_SHIFT, Shard

DIMENSION = 4
UP, SIDE = (1.0, 0.0, 0.0, 0.0), (0.6, 0.8, 0.0, 0.0)


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    """An empty shard without a graph."""
    opened = Shard.create(str(tmp_path / "shard"), DIMENSION, None)
    yield opened
    opened.close()


def entry(row: int, ordinal: int = 0) -> int:
    return row << ROW_SHIFT | ordinal


def payload(row: int, **fields: Any) -> dict[str, Any]:
    """Return what is stored with an entry."""
    return {"owner": "ada", "row": row, "view": 0, "importance": row, "terms": f"t{row} all", **fields}


def write(shard: Shard, rows: Sequence[int], *, vector: Sequence[float] = UP, ordinals: int = 1, **fields: Any) -> None:
    """Write memories of some entries each, all with the same vector."""
    ids = [entry(row, ordinal) for row in rows for ordinal in range(ordinals)]
    payloads = [payload(row, **fields) for row in rows for _ in range(ordinals)]
    kept = [(row, [entry(row, ordinal) for ordinal in range(ordinals)]) for row in rows]
    shard.write(ids, payloads, kept, array("f", [*vector] * len(ids)).tobytes())


def found(
    shard: Shard,
    where: dict[str, Any],
    *,
    limit: int = 10,
    width: int | None = None,
    least: dict[str, Any] | None = None,
) -> list[int]:
    """Return the rows that a search finds, best first."""
    packed = None if least is None else marshal.dumps(least)
    ids, scores = shard.search(array("f", UP).tobytes(), marshal.dumps(where), limit, width, packed)
    values = array("d", scores).tolist()
    assert values == sorted(values, reverse=True)
    return [one >> ROW_SHIFT for one in array("q", ids)]


def test_an_empty_shard_answers(shard: Shard) -> None:
    """Nothing is found, nobody owns most of it, and warming it up does nothing."""
    shard.warm()

    assert shard.count(None) == 0
    assert shard.largest_owner() == ("", 0)
    assert found(shard, {}) == []
    assert shard.page(0, 10, "row") == ([], [], None)


def test_the_nearest_come_first_and_equal_ones_by_id(shard: Shard) -> None:
    """Also where the limit cuts through equal scores."""
    write(shard, [3, 1, 2])
    write(shard, [9, 8], vector=SIDE)

    assert found(shard, {}) == [1, 2, 3, 8, 9]
    assert found(shard, {}, limit=2) == [1, 2]
    assert found(shard, {}, limit=4) == [1, 2, 3, 8]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"key": "owner", "match": {"value": "ada"}}, [1, 2, 3]),
        ({"key": "owner", "match": {"any": ["ben", "cleo"]}}, [7]),
        ({"key": "terms", "match": {"text_any": "t1 t3"}}, [1, 3]),
        ({"key": "importance", "range": {"gte": 2, "lt": 7}}, [2, 3]),
        ({"has_id": [entry(2), entry(7)]}, [2, 7]),
        ({"must": [{"key": "owner", "match": {"value": "ada"}}], "must_not": [{"has_id": [entry(1)]}]}, [2, 3]),
        ({"should": [{"has_id": [entry(1)]}, {"must": [{"key": "row", "match": {"value": 7}}]}]}, [1, 7]),
        ({"has_id": [entry(row) for row in range(2, 400)]}, [2, 3, 7]),
    ],
)
def test_filters_narrow_a_search(shard: Shard, where: dict[str, Any], rows: list[int]) -> None:
    """Every form that the index sends, the long list that is not cached among them; counts agree."""
    write(shard, [1, 2, 3])
    write(shard, [7], owner="ben")

    assert found(shard, where) == rows
    assert found(shard, where) == rows
    assert shard.count(where) == len(rows)


def test_a_rewritten_memory_loses_its_other_entries(shard: Shard) -> None:
    """However many there are; those of its neighbours stay, and one that is deleted loses all."""
    write(shard, [1, 2, 3], ordinals=30)
    write(shard, [2])
    assert shard.count(None) == 61

    shard.write([], [], [(1, [])], b"")

    assert shard.count(None) == 31
    assert sorted(set(found(shard, {}, limit=100))) == [2, 3]


def test_pages_lead_through_all_entries(shard: Shard) -> None:
    """By ascending id, each with the number that is asked for."""
    write(shard, [1, 2, 3])

    ids, rows, following = shard.page(0, 2, "row")

    assert (ids, rows) == ([entry(1), entry(2)], [1, 2])
    assert following == entry(3)
    assert shard.page(following, 2, "row") == ([entry(3)], [3], None)


def test_what_is_less_than_most_of_an_owner_is_scanned(tmp_path: Path) -> None:
    """One of four projects of an owner: the links of the owner's graph do not join what passes."""
    random, width = np.random.default_rng(5), 32
    centres = random.normal(size=(64, width))
    vectors = np.repeat(centres / np.linalg.norm(centres, axis=1, keepdims=True), 40, axis=0)
    vectors = (vectors + random.normal(size=vectors.shape) * 0.03)[random.permutation(len(vectors))].astype(np.float32)
    shard = Shard.create(str(tmp_path / "shard"), width, (16, 100), scanned_kilobytes=10)
    for first in range(0, len(vectors), 512):
        rows = range(first, min(first + 512, len(vectors)))
        payloads = [payload(row, project_id=f"p{row % 4}") for row in rows]
        kept = [(row, [entry(row)]) for row in rows]
        shard.write([*map(entry, rows)], payloads, kept, vectors[first : first + 512].tobytes())
    shard.finish()

    owner = {"key": "owner", "match": {"value": "ada"}}
    where = marshal.dumps({"must": [owner, {"key": "project_id", "match": {"any": ["p1"]}}]})
    asked = range(1, len(vectors), 28)
    nearest = [
        array("q", shard.search(vectors[row].tobytes(), where, 1, 128, where)[0])[0] >> ROW_SHIFT for row in asked
    ]
    shard.close()

    assert nearest == [*asked]


def test_a_shard_is_loaded_as_it_was_closed(tmp_path: Path) -> None:
    """With its largest row, from which on entries are known to be new, and with its graph."""
    path = str(tmp_path / "shard")
    first = Shard.create(path, DIMENSION, (16, 100))
    write(first, [5, 6])
    first.finish()
    first.close()

    second = Shard.load(path, DIMENSION)

    second.warm()
    assert second.largest_owner() == ("ada", 2)
    assert found(second, {}, width=64, least={"must": [{"key": "owner", "match": {"value": "ada"}}]}) == [5, 6]
    write(second, [6], ordinals=2)
    write(second, [6])
    assert second.count(None) == 2
    second.close()


def test_a_shard_of_an_earlier_version_gets_the_indexes_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of validity were read from the payload of each point; what was stored before is found by the index."""
    path = str(tmp_path / "shard")
    with monkeypatch.context() as earlier:
        earlier.setattr(shard_module, "_RANGES", ("importance",))
        first = Shard.create(path, DIMENSION, (16, 100))
    write(first, [1], valid_from=100)
    write(first, [2], valid_from=300, valid_to=400)
    write(first, [3])
    first.finish()
    assert "valid_from" not in first._shard.info().payload_schema
    first.close()

    second = Shard.load(path, DIMENSION)

    write(second, [4], valid_from=200)
    for moment, rows in ((50, [3]), (250, [1, 3, 4]), (350, [1, 2, 3, 4]), (450, [1, 3, 4])):
        later = {"key": "valid_from", "range": {"gt": moment}}
        over = {"key": "valid_to", "range": {"lte": moment}}
        assert found(second, {"must_not": [later, over]}) == rows
    second.close()
    third = Shard.load(path, DIMENSION)
    assert {"valid_from", "valid_to"} <= set(third._shard.info().payload_schema)
    assert third._shard.info().payload_schema["valid_from"].points == 3
    third.close()


def test_a_locked_shard_is_awaited_and_then_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed a moment ago may still hold it; one that is not a shard is refused at once."""
    monkeypatch.setattr(shard_module, "_LOCK_PATIENCE_SECONDS", 0.05)
    holder = Shard.create(str(tmp_path / "shard"), DIMENSION, None)

    with pytest.raises(Exception, match="WouldBlock"):
        Shard.load(str(tmp_path / "shard"), DIMENSION)
    holder.close()
    with pytest.raises(Exception, match=r"."):
        Shard.load(str(tmp_path / "nothing"), DIMENSION)


def test_the_log_holds_what_was_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that is not closed has the rest in its segments, so that opening it replays little."""
    monkeypatch.setattr(shard_module, "FLUSHED_POINTS", 20)
    live = Shard.create(str(tmp_path / "live"), DIMENSION, None)
    for row in range(25):
        write(live, [row])
    for name, has_log in (("whole", True), ("without-log", False)):
        shutil.copytree(tmp_path / "live", tmp_path / name)
        if not has_log:
            shutil.rmtree(tmp_path / name / "wal")
        copy = Shard.load(str(tmp_path / name), DIMENSION)
        assert copy.count(None) == (25 if has_log else 20)
        copy.close()
    live.close()


def test_what_was_replayed_is_not_replayed_again(tmp_path: Path) -> None:
    """A shard is flushed with the first write after it was opened."""
    live = Shard.create(str(tmp_path / "live"), DIMENSION, None)
    write(live, range(5))
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    live.close()
    copy = Shard.load(str(tmp_path / "copy"), DIMENSION)
    write(copy, [1])
    shutil.copytree(tmp_path / "copy", tmp_path / "without-log")
    copy.close()
    shutil.rmtree(tmp_path / "without-log" / "wal")
    last = Shard.load(str(tmp_path / "without-log"), DIMENSION)
    assert last.count(None) == 5
    last.close()
