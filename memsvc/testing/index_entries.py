"""The promises of `memsvc.ports.indexes` about entries, for both index contracts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import ListedEntry
from memsvc.testing import factories
from memsvc.testing.derived_index import REACH, E, FullIndex, IndexSeams, M, chunk, placed


class EntriesContract(IndexSeams[E, M]):
    """Entries come and go by memory, are seen at once, and only within reach."""

    def test_replace_is_visible_when_it_returns(self, live: FullIndex[E, M]) -> None:
        """A search that starts after `replace` returned finds the entries."""
        live.replace(self.changes(factories.attributes(1)))

        assert [hit.entry_id for hit in self.hits(live)] == [chunk(1)]

    def test_replace_takes_many_memories_at_once(self, live: FullIndex[E, M]) -> None:
        """One call may add, change and remove memories."""
        live.replace(self.changes(*(factories.attributes(row) for row in range(1, 51))))
        live.replace({1: (), **self.changes(factories.attributes(2), factories.attributes(99))})

        assert self.rows(live) == [*range(2, 51), 99]

    def test_replace_with_nothing_changes_nothing(self, live: FullIndex[E, M]) -> None:
        """No changes are no error."""
        live.replace({})

        assert live.count() == 0

    def test_replace_overwrites(self, live: FullIndex[E, M]) -> None:
        """A memory's old attributes are gone when new ones are given."""
        before, after = factories.attributes(1), factories.attributes(1)
        live.replace(self.changes(before))
        live.replace(self.changes(after))

        assert list(live.inventory()) == [ListedEntry(chunk(1), after.fingerprint)]

    def test_replace_shrinks_and_grows(self, live: FullIndex[E, M]) -> None:
        """The entries of a memory are exactly those given last."""
        memory = factories.attributes(1)
        for count in (3, 1, 2):
            live.replace({1: [self.entry(memory, ordinal=ordinal) for ordinal in range(count)]})

            assert sorted(hit.entry_id for hit in self.hits(live)) == [chunk(1, n) for n in range(count)]
            assert live.count() == count

    def test_replace_is_idempotent(self, live: FullIndex[E, M]) -> None:
        """Repeating a change leaves the index as it is."""
        change = self.changes(factories.attributes(1), factories.attributes(2))
        live.replace(change)
        live.replace(change)

        assert self.rows(live) == [1, 2]
        assert live.count() == 2

    def test_replace_with_no_entries_removes_the_memory(self, live: FullIndex[E, M]) -> None:
        """A memory with no entries is not found, counted or listed."""
        live.replace(self.changes(factories.attributes(1), factories.attributes(2)))
        live.replace({1: ()})

        assert self.rows(live) == [2]
        assert live.count() == 1
        assert [listed.entry_id for listed in live.inventory()] == [chunk(2)]

    def test_removal_of_an_unknown_memory_is_a_no_op(self, live: FullIndex[E, M]) -> None:
        """Removing what is not there is no error and removes nothing else."""
        live.replace(self.changes(factories.attributes(1)))
        live.replace({11: ()})

        assert self.rows(live) == [1]

    def test_large_rows_are_kept_exactly(self, live: FullIndex[E, M]) -> None:
        """Rows far beyond 32 bits come back exactly."""
        rows = [1, 2**31, 2**40 + 1, 2**40 + 2]
        live.replace(self.changes(*(factories.attributes(row) for row in rows)))

        assert self.rows(live) == rows

    def test_search_is_held_to_the_owner(self, live: FullIndex[E, M]) -> None:
        """Owners are compared whole: neither prefixes nor a shifted separator match."""
        owners = ["\x1facme", "\x1facme-corp", "\x1fac", "acme\x1f", "a\x1fcme", "\x1fACME", "\x1facme corp"]
        live.replace(self.changes(*(placed(row, owner) for row, owner in enumerate(owners))))

        assert [self.rows(live, reach=Reach(owner, ("",))) for owner in owners] == [[row] for row in range(len(owners))]
        assert self.rows(live, reach=Reach("\x1facm", ("",))) == []

    def test_search_is_held_to_the_projects(self, live: FullIndex[E, M]) -> None:
        """Projects are compared whole; the empty project is one of its own, not all of them."""
        projects = ["", "web", "web-2", "we", "WEB", "项目"]
        memories = [placed(row, "\x1fada", project) for row, project in enumerate(projects)]
        live.replace(self.changes(*memories, placed(9, "\x1fbob", "web")))

        for row, project in enumerate(projects):
            assert self.rows(live, reach=Reach("\x1fada", (project,))) == [row]
        assert self.rows(live, reach=Reach("\x1fada", ("web", ""))) == [0, 1]
        assert self.rows(live, reach=Reach("\x1fada", ())) == []

    def test_limit_is_kept(self, live: FullIndex[E, M]) -> None:
        """Limits of none, one, as many as there are and far more are all in order."""
        live.replace(self.changes(*(factories.attributes(row) for row in range(1, 6))))

        found = [len(self.hits(live, limit=limit)) for limit in (0, 1, 5, 6, 2**31)]

        assert found == [0, 1, 5, 5, 5]

    def test_best_hits_come_first(self, live: FullIndex[E, M]) -> None:
        """Hits are ordered by score, largest first, and the limit cuts off the worst."""
        strengths = {3: 1.0, 1: 0.8, 4: 0.5, 2: 0.1}
        live.replace({row: [self.entry(factories.attributes(row), strength=s)] for row, s in strengths.items()})

        hits = self.hits(live)

        assert [hit.entry_id for hit in hits] == [chunk(row) for row in (3, 1, 4, 2)]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert self.hits(live, limit=2) == hits[:2]

    def test_equal_scores_are_ordered_by_entry(self, live: FullIndex[E, M]) -> None:
        """Entries of equal score come in the order of their numbers, however they were written."""
        for row in (5, 3, 1, 4, 2):
            live.replace({row: [self.entry(factories.attributes(row), ordinal=n) for n in (1, 0)]})

        assert [hit.entry_id for hit in self.hits(live)] == [chunk(row, n) for row in range(1, 6) for n in (0, 1)]

    def test_passed_deadline_stops_a_search(self, live: FullIndex[E, M]) -> None:
        """A search whose time is over says so."""
        live.replace(self.changes(factories.attributes(1)))

        with pytest.raises(DeadlineExceededError):
            self.hits(live, deadline=Deadline.after(0))

    def test_inventory_lists_every_entry(self, live: FullIndex[E, M]) -> None:
        """The inventory holds every entry of every owner once, with its memory's fingerprint."""
        memories = [placed(row, owner) for row, owner in enumerate(("\x1fada", "\x1fbob", "t\x1fada"), start=1)]
        live.replace({m.row: [self.entry(m, ordinal=n) for n in range(m.row)] for m in memories})

        listed = sorted(live.inventory(), key=lambda item: item.entry_id)

        assert listed == [ListedEntry(chunk(m.row, n), m.fingerprint) for m in memories for n in range(m.row)]

    def test_inventory_lists_many(self, live: FullIndex[E, M]) -> None:
        """No page of an inventory is lost."""
        live.replace(self.changes(*(factories.attributes(row) for row in range(1, 2501))))

        assert sorted(listed.entry_id for listed in live.inventory()) == [chunk(row) for row in range(1, 2501)]

    def test_count_is_of_all_or_of_a_reach(self, live: FullIndex[E, M]) -> None:
        """Entries are counted, not memories, of one reach or of all owners."""
        mine, ours, theirs = placed(1, "\x1fada"), placed(2, "\x1fada", "web"), placed(3, "\x1fbob")
        live.replace({1: [self.entry(mine), self.entry(mine, ordinal=1)], **self.changes(ours, theirs)})

        assert live.count() == 4
        assert live.count(reach=REACH) == 2
        assert live.count(reach=Reach("\x1fada", ("web", ""))) == 3
        assert live.count(reach=Reach("\x1fada", ())) == 0
        assert live.count(reach=Reach("\x1fnobody", ("",))) == 0

    def test_ping_of_an_open_index_returns(self, index: FullIndex[E, M]) -> None:
        """An open index answers, with a generation and without."""
        index.ping()
        self.renew(index, 1)
        index.ping()

        assert index.storage_bytes() >= 0

    def test_searches_go_on_while_entries_change(self, live: FullIndex[E, M]) -> None:
        """A search beside a writer always finds what is not being changed, and nothing twice."""
        live.replace(self.changes(factories.attributes(1)))
        seen: list[list[int]] = []
        done = threading.Event()

        def search() -> None:
            # Once at least, though the changes may be over before this thread has its turn.
            while True:
                seen.append([hit.entry_id >> 16 for hit in self.hits(live)])
                if done.is_set():
                    return

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(12):
            live.replace({2: (), **self.changes(factories.attributes(3 + turn % 2))})
            live.replace(self.changes(factories.attributes(2)))
        done.set()
        for thread in threads:
            thread.join()

        assert seen
        assert all(1 in rows and len(rows) == len(set(rows)) for rows in seen)

    def test_closed_index_says_so(self, live: FullIndex[E, M], close: Callable[[], None]) -> None:
        """Every use of a closed index is a fault of the program."""
        close()

        with pytest.raises(BackendClosedError):
            self.hits(live)
        with pytest.raises(BackendClosedError):
            live.replace(self.changes(factories.attributes(1)))
        with pytest.raises(BackendClosedError):
            list(live.inventory())
        with pytest.raises(BackendClosedError):
            live.count()
        with pytest.raises(BackendClosedError):
            live.begin(self.manifest_of(2))
        with pytest.raises(BackendClosedError):
            live.ping()
