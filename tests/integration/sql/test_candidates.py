"""What ranking needs is kept only while it is what the database holds, and is read ahead after a start."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memsvc.domain.filter_evaluation import matches
from memsvc.domain.filters import And, AnyOf, Field, Filter
from memsvc.domain.index_entries import ChangeAction, attributes_of, row_of
from memsvc.domain.memory import Keyword, Layer, Memory, Status, Tier
from memsvc.domain.scope import Reach
from memsvc.domain.search import Candidate, candidate_of
from memsvc.domain.visibility import is_default_visible
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW, memory
from memsvc.testing.store_harness import ADA, insert, purge, reach_of, revise
from memsvc.text.ranking_cues import pack_cues
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc_backends.sql import SQL, SqlSettings, reads
from memsvc_backends.sql.ranking_columns import COLUMNS, CandidateColumns, row_of_memory
from memsvc_backends.sql.reads import SqlMemoryReads
from memsvc_backends.sql.store import SqlMetadataStore
from tests.support.selections import selection_of

# Several have the same place in a table of eight.
ROWS = st.sampled_from((1, 2, 3, 8, 9, 16, 17, 1_000_000_001))


def stored(row: int, importance: int = 3) -> Memory:
    """Return a memory of the database; every third has an event time, every other a line before it."""
    before = row - 1 if row % 2 else None
    return memory(
        "tea", id=f"m{row}", row=row, importance=importance, previous_row=before, event_time=None if row % 3 else NOW
    )


def _candidate(stored: Memory) -> Candidate:
    """Return what ranking needs of a memory, the cues of its content included."""
    return candidate_of(stored, pack_cues(stored.content))


class Readers(RuleBasedStateMachine):
    """Readers that begin and end at any moment, beside a writer."""

    @initialize(capacity=st.sampled_from((8, 2048)))
    def empty(self, capacity: int) -> None:
        """Begin with a database of eight rows."""
        self.columns = CandidateColumns(capacity)
        self.stored = {row: stored(row) for row in (1, 2, 3, 8, 9, 16, 17, 1_000_000_001)}
        self.reading: list[tuple[int, list[Memory]]] = []
        self.committed: set[int] = set()
        self.counted: list[tuple[int, dict[int, int]]] = []

    @rule(rows=st.sets(ROWS))
    def begin_reading(self, rows: set[int]) -> None:
        """Read, and have the values still in hand."""
        self.reading.append((self.columns.version, [self.stored[row] for row in rows]))

    @rule(place=st.integers(0, 9), is_asked_for=st.booleans())
    def end_reading(self, place: int, *, is_asked_for: bool) -> None:
        """Keep what was read, maybe a good while later."""
        if self.reading:
            version, values = self.reading.pop(place % len(self.reading))
            self.columns.keep([row_of_memory(value) for value in values], version, is_asked_for=is_asked_for)

    @rule(rows=st.sets(ROWS), importance=st.integers(1, 5))
    def commit(self, rows: set[int], importance: int) -> None:
        """Change rows, and tell nobody yet."""
        self.stored |= {row: replace(self.stored[row], importance=importance) for row in rows}
        self.committed |= rows

    @rule()
    def acknowledge(self) -> None:
        """Tell of what was committed."""
        self.columns.forget(self.committed)
        self.committed = set()

    @rule(rows=st.sets(ROWS, min_size=1))
    def commit_counts(self, rows: set[int]) -> None:
        """Count accesses, and tell nobody yet."""
        counts = {row: self.stored[row].access_count + 1 for row in rows}
        self.stored |= {row: replace(self.stored[row], access_count=count) for row, count in counts.items()}
        self.counted.append((self.columns.version, counts))

    @rule(place=st.integers(0, 9))
    def acknowledge_counts(self, place: int) -> None:
        """Tell of them, which writers need not do in their order."""
        if self.counted:
            version, counts = self.counted.pop(place % len(self.counted))
            self.columns.recount(counts, version)

    @invariant()
    def nothing_acknowledged_is_missed(self) -> None:
        """What is kept is what is stored, unless its change is not acknowledged yet; nothing else is found."""
        found, missing = self.columns.get_many(list(self.stored), ADA)

        assert sorted([*(one.row for one in found), *missing]) == sorted(self.stored)
        assert len(self.columns) == len(found)
        for one in found:
            is_told = one.row not in self.committed.union(*(counts for _, counts in self.counted))
            assert one == _candidate(self.stored[one.row]) or not is_told
        assert self.columns.get_many(list(self.stored), reach_of("bob"))[0][:] == []


TestReaders = Readers.TestCase


def test_the_table_grows_and_keeps_what_it_has() -> None:
    """Up to its capacity; then the latest rows push out those at their places."""
    columns = CandidateColumns(4096)
    for first in range(1, 6001, 500):
        columns.keep([row_of_memory(stored(row)) for row in range(first, first + 500)], columns.version)

    found, missing = columns.get_many(range(1, 6001), ADA)

    assert sorted(missing) == list(range(1, 6001 - 4096))
    assert sorted(found) == sorted(_candidate(stored(row)) for row in range(6001 - 4096, 6001))


def test_of_two_at_one_place_one_is_kept_whole() -> None:
    """Also when they are kept at once."""
    columns = CandidateColumns(1024)
    columns.keep([row_of_memory(stored(row)) for row in (5, 5 + 1024, 5 + 2048)], columns.version)

    found, missing = columns.get_many([5, 5 + 1024, 5 + 2048], ADA)

    assert ([*found], missing) == ([_candidate(stored(5 + 2048))], [5, 5 + 1024])


def test_the_latest_have_their_places_whichever_is_kept_first() -> None:
    """Also where rows have gaps, and are read from the latest on."""
    columns = CandidateColumns(1024)
    rows = list(range(2, 4098, 2))
    for last in range(len(rows), 0, -256):
        columns.keep([row_of_memory(stored(row)) for row in rows[last - 256 : last]], columns.version)
    columns.keep([row_of_memory(stored(rows[0]))], columns.version)

    found, _ = columns.get_many(rows, ADA)

    assert sorted(one.row for one in found) == rows[-512:]


def test_what_a_search_asks_for_displaces_later_rows() -> None:
    """The memories of those who search are kept, and not those that were written last."""
    columns = CandidateColumns(1024)
    columns.keep([row_of_memory(stored(row)) for row in range(1, 4097)], columns.version)

    columns.keep([row_of_memory(stored(row)) for row in (5, 6)], columns.version, is_asked_for=True)

    found, missing = columns.get_many([5, 6, 5 + 3072, 7 + 3072], ADA)
    assert sorted(one.row for one in found) == [5, 6, 7 + 3072]
    assert missing == [5 + 3072]
    assert len(columns) == 1024


def test_a_full_table_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count a table of half a million took 5 ms for every search and every write."""
    columns = CandidateColumns(4096)
    columns.keep([row_of_memory(stored(row)) for row in range(1, 8193)], columns.version)
    counted: list[int] = []
    count = np.count_nonzero

    def noted(values: npt.NDArray[np.bool_]) -> int:
        counted.append(len(values))
        return int(count(values))

    monkeypatch.setattr(np, "count_nonzero", noted)
    columns.keep([row_of_memory(stored(row)) for row in (5, 6)], columns.version, is_asked_for=True)
    columns.forget([5])

    assert max(counted, default=0) <= 2
    assert len(columns) == 4095


def test_the_table_is_no_larger_than_what_it_has() -> None:
    """However often the same memories are kept and forgotten."""
    columns = CandidateColumns(1 << 16)
    rows = [row_of_memory(stored(row)) for row in range(100)]
    for _ in range(300):
        columns.keep(rows, columns.version)
        columns.forget(range(50))

    assert columns.places == 1024


def test_texts_of_memories_that_are_gone_do_not_pile_up() -> None:
    """Each of them was in a session of its own, and all of them are forgotten again."""
    columns = CandidateColumns(1 << 16)
    place, plain = COLUMNS.index("session_id"), row_of_memory(stored(1))
    for first in range(0, 200_000, 1000):
        rows = [(row, *plain[1:place], f"s{first + row}", *plain[place + 1 :]) for row in range(1000)]
        columns.keep(rows, columns.version)
        columns.forget(range(1000))

    columns.keep([row_of_memory(stored(7))], columns.version)

    found, _ = columns.get_many([7], ADA)
    assert [*found] == [_candidate(stored(7))]
    assert len(found.names) < 100_000


@pytest.fixture
def context(tmp_path: Path) -> BackendContext:
    return BackendContext(tmp_path, lambda: NOW)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def kept(store: MetadataStore, rows: list[int], reach: Reach = ADA) -> list[Candidate]:
    """Return what is known of memories without asking the database."""
    assert isinstance(store.memories, SqlMemoryReads)
    return [*store.memories.ranking_columns.get_many(rows, reach)[0]]


def test_what_is_written_is_kept_and_what_is_changed_is_not(context: BackendContext, opened: ExitStack) -> None:
    """A search right behind a write needs no look at the database; one behind a change takes one."""
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()
    one, other, gone = insert(store, memory("tea"), memory("harbour"), memory("kettle"))
    rows = [one.row, other.row, gone.row]
    assert [each.row for each in kept(store, rows)] == rows

    revised = revise(store, one, title="T")
    purge(store, gone)

    assert [each.row for each in kept(store, rows)] == [other.row]
    assert {each.row for each in store.memories.candidates(rows, reach=ADA)} == {one.row, other.row}
    assert sorted(kept(store, rows)) == sorted([_candidate(revised), _candidate(other)])


def test_what_is_read_is_kept_with_its_new_count(context: BackendContext, opened: ExitStack) -> None:
    """A search counts what it shows, and the next one need not read that again."""
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()
    one, other = insert(store, memory("tea"), memory("harbour"))
    rows = [one.row, other.row]

    with store.transaction() as transaction:
        transaction.add_accesses({one.id: (2, NOW), "nobody": (1, NOW)})

    counted = replace(one, access_count=2)
    assert kept(store, rows) == [_candidate(counted), _candidate(other)]
    assert store.memories.by_rows(rows, reach=ADA)[one.row].access_count == 2


def test_a_count_that_was_taken_back_is_not_kept(context: BackendContext, opened: ExitStack) -> None:
    """Neither that of a part of a transaction, nor that of a whole one; nor one of a memory that was changed, too."""
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()
    memories = insert(store, memory("tea"), memory("harbour"), memory("kettle"))
    part, whole, changed = memories
    with store.transaction() as transaction:
        with suppress(KeyError), transaction.savepoint():
            transaction.add_accesses({part.id: (1, NOW)})
            raise KeyError
        transaction.add_accesses({changed.id: (1, NOW)})
        after = replace(changed, revision=2, importance=5, access_count=1)
        transaction.update(changed, Record(after), ChangeAction.UPDATED)
    with suppress(KeyError), store.transaction() as transaction:
        transaction.add_accesses({whole.id: (1, NOW)})
        raise KeyError

    found = store.memories.candidates([one.row for one in memories], reach=ADA)
    assert [*found] == [_candidate(one) for one in (part, whole, after)]


def test_after_a_start_everything_is_read_ahead(context: BackendContext, opened: ExitStack) -> None:
    """As it is then, and for the owner of each."""
    with SQL.open(SqlSettings(), context) as store:
        written = insert(store, *(memory(f"tea {number}") for number in range(1500)))
        changed = revise(store, written[7], importance=5)
        purge(store, written[9])

    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()

    expected = {one.row: _candidate(one) for one in (*written, changed) if one != written[9]}
    rows = [one.row for one in written]
    assert {one.row: one for one in kept(store, rows)} == expected
    assert kept(store, rows, replace(ADA, owner="bob")) == []


def test_memories_displaced_by_later_ones_are_read_once(
    context: BackendContext, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user whose memories are older than as many as are kept searches as quickly as others."""
    monkeypatch.setattr(reads, "KEPT_CANDIDATES", 8)
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()
    written = insert(store, *(memory(f"tea {number}") for number in range(24)))
    first = [one.row for one in written[:4]]
    assert kept(store, first) == []

    store.memories.candidates(first, reach=ADA)

    assert [one.row for one in kept(store, first)] == first


def usual() -> Filter:
    """Return what a search tests that asks for nothing."""
    where = selection_of(filters_pb.Filter(), now=NOW).where
    assert where is not None
    return where


def every_kind() -> Iterator[Memory]:
    """Yield memories that differ in all that plain ones have in common."""
    times = (None, NOW - timedelta(days=1), NOW + timedelta(days=1))
    bounds = [(name, time) for name in ("expire_time", "valid_from", "valid_to") for time in times]
    for number, (status, tier, layer, (name, time)) in enumerate(product(Status, Tier, Layer, bounds)):
        words = (Keyword("tea", 0.5),)
        yield memory(f"tea {number}", tier=tier, layer=layer, status=status, keywords=words, **{name: time})


def test_of_plain_memories_it_is_known_that_they_match(context: BackendContext, opened: ExitStack) -> None:
    """Whether they were just written, read ahead after a start, or read when they were asked for."""
    with SQL.open(SqlSettings(), context) as store:
        assert isinstance(store, SqlMetadataStore)
        store.preloader.join()
        written = insert(store, *every_kind())
        changed = revise(store, written[0], status=Status.ARCHIVED)
        now = {one.row: one for one in (*written, changed)}
        expected = {row for row, one in now.items() if one.status is not Status.DELETED and is_default_visible(one)}
        matching = {row for row, one in now.items() if matches(usual(), attributes_of(one))}
        first = _found(store, [*now])
    again = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(again, SqlMetadataStore)
    again.preloader.join()
    ahead = _found(again, [*now])
    again.memories.ranking_columns.clear()
    nothing = _found(again, [*now])
    again.memories.candidates([*now], reach=ADA)

    assert 10 < len(expected) < len(matching) < len(now) - 10
    assert [first, ahead, nothing] == [(expected, matching), (expected, matching), (set(), matching)]
    assert _found(again, [*now]) == (expected, matching)
    assert again.memories.ranking_columns.plain([*now], replace(ADA, owner="bob")) == set()


def test_what_is_asked_for_is_asked_of_plain_memories_too(context: BackendContext, opened: ExitStack) -> None:
    """That they meet what holds without asking says nothing of the rest."""
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    words = (Keyword("tea", 0.5),)
    _, tagged = insert(store, memory("tea", keywords=words), memory("茶", keywords=words, tags=("cup",)))
    where = And((usual(), AnyOf(Field.TAGS, ("cup",))))

    [hit] = store.memories.keyword_hits(["tea"], reach=ADA, where=where, limit=9)

    assert row_of(hit.entry_id) == tagged.row


def _found(store: SqlMetadataStore, rows: list[int]) -> tuple[AbstractSet[int], AbstractSet[int]]:
    """Return the memories that are known to be plain, and those that a search for their keyword finds."""
    hits = store.memories.keyword_hits(["tea"], reach=ADA, where=usual(), limit=len(rows))
    return store.memories.ranking_columns.plain(rows, ADA), {row_of(hit.entry_id) for hit in hits}


def test_what_is_kept_of_erased_memories_goes_when_the_file_is_written_anew(
    context: BackendContext, opened: ExitStack
) -> None:
    """The texts, too: who spoke is nowhere in what later searches are told."""
    store = opened.enter_context(SQL.open(SqlSettings(), context))
    assert isinstance(store, SqlMetadataStore)
    store.preloader.join()
    other, gone = insert(store, memory("tea", speaker="Ben"), memory("harbour", speaker="Anna"))
    assert [one.speaker for one in kept(store, [other.row, gone.row])] == ["Ben", "Anna"]
    purge(store, gone)

    store.erasures.rewrite()

    assert kept(store, [other.row]) == []
    found = store.memories.candidates([other.row, gone.row], reach=ADA)
    assert [*found] == [_candidate(other)]
    assert found.names.find("Anna") == -1
