"""What the Tantivy index does when something beneath it, or the program above it, fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tantivy
from pydantic import ValidationError

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.filters import Field, Not, Range
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import REACH
from memsvc.testing.lexical import lexical_entry
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings
from memsvc_backends.tantivy.schema import build_schema, open_index, translate

TOO_LARGE = 2**70


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LexicalIndex]:
    """Open an index with an empty generation."""
    context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
    with TANTIVY.open(TantivySettings(), context) as index:
        made = index.begin(LexicalManifest(1, 0, "test"))
        made.seal()
        index.switch(made)
        yield index


def tea(row: int) -> list[LexicalEntry]:
    """Return the entries of a memory about tea."""
    return [lexical_entry(factories.attributes(row), ["tea"])]


def refused(row: int) -> list[LexicalEntry]:
    """Return entries that Tantivy refuses."""
    return [lexical_entry(factories.attributes(row)._replace(importance=TOO_LARGE), ["tea"])]


def rows(index: LexicalIndex) -> list[int]:
    """Return the memories about tea."""
    return sorted(hit.entry_id >> 16 for hit in index.search(["tea"], reach=REACH, limit=100, deadline=Deadline()))


def test_failed_change_is_undone_as_a_whole(index: LexicalIndex) -> None:
    """When one entry is refused nothing of the change is kept, and the index takes the next one."""
    index.replace({1: tea(1), 2: tea(2)})

    with pytest.raises(OverflowError):
        index.replace({1: (), 3: tea(3), 4: refused(4), 5: tea(5)})
    index.replace({6: tea(6)})

    assert rows(index) == [1, 2, 6]


def test_generation_that_lost_entries_cannot_go_live(index: LexicalIndex) -> None:
    """A failure that takes earlier entries with it makes every later step fail, so that no hole goes live."""
    index.replace({1: tea(1)})
    made = index.begin(LexicalManifest(2, 0, "test"))
    made.replace({2: tea(2)})
    with pytest.raises(OverflowError):
        made.replace({3: refused(3)})

    with pytest.raises(BackendUnavailableError):
        made.replace({3: tea(3)})
    with pytest.raises(BackendUnavailableError):
        made.seal()
    with pytest.raises(BackendUnavailableError):
        index.switch(made)
    made.discard()

    assert rows(index) == [1]


def test_generation_whose_first_change_failed_goes_on(index: LexicalIndex) -> None:
    """A failure that takes only the failed change with it can be repeated."""
    made = index.begin(LexicalManifest(2, 0, "test"))
    with pytest.raises(OverflowError):
        made.replace({3: refused(3)})
    made.replace({3: tea(3)})
    made.seal()
    index.switch(made)

    assert rows(index) == [3]


def test_failed_switch_leaves_the_live_generation(index: LexicalIndex, tmp_path: Path) -> None:
    """When the manifest cannot be written the old generation stays, and the switch can be repeated."""
    index.replace({1: tea(1)})
    made = index.begin(LexicalManifest(2, 0, "test"))
    made.replace({2: tea(2)})
    made.seal()
    obstacle = tmp_path / "manifest.json.tmp"
    obstacle.mkdir()

    with pytest.raises(BackendUnavailableError):
        index.switch(made)

    assert (rows(index), index.manifest) == ([1], LexicalManifest(1, 0, "test"))

    obstacle.rmdir()
    index.switch(made)
    index.replace({3: tea(3)})

    assert (rows(index), index.manifest) == ([2, 3], LexicalManifest(2, 0, "test"))


def test_lock_held_by_another_writer_is_unavailability(index: LexicalIndex, tmp_path: Path) -> None:
    """While somebody else writes the generation, changes fail; searches go on; later changes work."""
    other = open_index(tmp_path / "gen-000001", build_schema()).writer(15_000_000, 1)

    with pytest.raises(BackendUnavailableError) as caught:
        index.replace({1: tea(1)})

    assert isinstance(caught.value.__cause__, ValueError)
    assert rows(index) == []

    other.wait_merging_threads()
    index.replace({1: tea(1)})

    assert rows(index) == [1]


def test_files_damaged_while_open_are_unavailability(index: LexicalIndex, tmp_path: Path) -> None:
    """A search that cannot read its files raises the domain's error and keeps the cause."""
    index.replace({1: tea(1)})
    for path in (tmp_path / "gen-000001").glob("*.term"):
        with path.open("r+b") as file:
            file.write(b"\xa5" * path.stat().st_size)

    with pytest.raises(BackendUnavailableError) as caught:
        rows(index)

    assert isinstance(caught.value.__cause__, ValueError)


def test_panic_of_native_code_is_unavailability(tmp_path: Path) -> None:
    """A panic, which derives from BaseException, does not pass through the port."""
    searcher = open_index(tmp_path, build_schema()).searcher()

    with pytest.raises(BackendUnavailableError), translate():
        searcher.search(tantivy.Query.all_query(), 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError])
def test_other_errors_pass(error: type[BaseException]) -> None:
    """An interrupt or a fault of the program is not taken for unavailability."""
    with pytest.raises(error), translate():
        raise error


def test_misuse_is_refused(tmp_path: Path) -> None:
    """Numbers that do not grow, foreign generations and changes without a generation are faults of the program."""
    context = BackendContext(directory=tmp_path, now=lambda: datetime.now(UTC))
    with TANTIVY.open(TantivySettings(), context) as index:
        with pytest.raises(ValueError, match="no generation"):
            index.replace({1: tea(1)})
        made = index.begin(LexicalManifest(3, 0, "test"))
        index.switch(made)
        with pytest.raises(ValueError, match="does not follow"):
            index.begin(LexicalManifest(3, 0, "test"))
        with pytest.raises(ValueError, match="not the one"):
            index.switch(made)


def test_range_with_a_bound_that_is_no_number_matches_nothing(index: LexicalIndex) -> None:
    """Not-a-number is neither above nor below anything."""
    index.replace({1: tea(1)})
    nan = float("nan")

    for field in (Field.ROW, Field.CONFIDENCE):
        wheres = (Range(field, at_least=nan), Not(Range(field, below=nan)))
        found = [index.search(["tea"], reach=REACH, where=where, limit=9, deadline=Deadline()) for where in wheres]
        assert [len(hits) for hits in found] == [0, 1]


def test_settings_are_checked() -> None:
    """A misspelt option or too little memory is refused by name."""
    with pytest.raises(ValidationError, match="writer_heap"):
        TantivySettings.model_validate({"writer_heap": 1})
    with pytest.raises(ValidationError, match="writer_heap_bytes"):
        TantivySettings(writer_heap_bytes=1_000_000)
