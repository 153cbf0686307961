"""The promises that both index contracts make about generations and about what a restart leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memsvc.ports.indexes import ListedEntry
from memsvc.testing import factories
from memsvc.testing.derived_index import E, FullIndex, IndexSeams, M, chunk


class GenerationsContract(IndexSeams[E, M]):
    """Generations are made unseen, go live in one step, and survive a restart."""

    def test_index_without_generation_is_empty(self, index: FullIndex[E, M]) -> None:
        """Before the first generation there is no manifest, and nothing is found, counted or listed."""
        assert index.manifest is None
        assert self.hits(index) == []
        assert index.count() == 0
        assert list(index.inventory()) == []

    def test_first_generation_goes_live(self, index: FullIndex[E, M]) -> None:
        """Entries given before and after sealing are there after the switch, and not before."""
        made = index.begin(self.manifest_of(1))
        made.replace(self.changes(factories.attributes(1), factories.attributes(2)))
        made.replace({2: ()})
        made.seal()
        made.replace(self.changes(factories.attributes(3)))
        before = self.hits(index), index.manifest

        index.switch(made)

        assert before == ([], None)
        assert self.rows(index) == [1, 3]
        assert index.manifest == self.manifest_of(1)

    def test_generation_is_unseen_until_the_switch(self, live: FullIndex[E, M]) -> None:
        """Searches, counts and inventories keep to the live generation, which goes on taking changes."""
        live.replace(self.changes(factories.attributes(1)))
        made = live.begin(self.manifest_of(2))
        made.replace(self.changes(factories.attributes(8), factories.attributes(9)))
        live.replace(self.changes(factories.attributes(2)))
        made.seal()

        assert self.rows(live) == [1, 2]
        assert live.count() == 2
        assert sorted(listed.entry_id for listed in live.inventory()) == [chunk(1), chunk(2)]
        assert live.manifest == self.manifest_of(1)

        live.switch(made)

        assert self.rows(live) == [8, 9]
        assert live.count() == 2
        assert live.manifest == self.manifest_of(2)

    def test_generation_overwrites_within_itself(self, live: FullIndex[E, M]) -> None:
        """A generation holds of each memory exactly what was given last, before and after sealing."""
        first, second, third = (factories.attributes(1) for _ in range(3))
        made = live.begin(self.manifest_of(2))
        made.replace({1: [self.entry(first, ordinal=n) for n in range(3)]})
        made.replace(self.changes(second))
        made.seal()
        made.replace(self.changes(third))
        live.switch(made)

        assert list(live.inventory()) == [ListedEntry(chunk(1), third.fingerprint)]
        assert self.rows(live) == [1]

    def test_changes_after_a_switch_go_to_the_new_generation(self, live: FullIndex[E, M]) -> None:
        """The index writes on where it now searches."""
        self.renew(live, 2, factories.attributes(1), factories.attributes(2))
        live.replace({1: (), **self.changes(factories.attributes(3))})

        assert self.rows(live) == [2, 3]

    def test_empty_generation_can_go_live(self, live: FullIndex[E, M]) -> None:
        """Switching to an empty generation empties the index."""
        live.replace(self.changes(factories.attributes(1)))
        self.renew(live, 2)

        assert self.hits(live) == []
        assert live.manifest == self.manifest_of(2)

    def test_discarded_generation_leaves_nothing(self, live: FullIndex[E, M]) -> None:
        """Discarding keeps the live generation, is harmless twice, and frees the number."""
        live.replace(self.changes(factories.attributes(1)))
        made = live.begin(self.manifest_of(2))
        made.replace(self.changes(factories.attributes(9)))
        made.discard()
        made.discard()

        assert self.rows(live) == [1]
        assert live.manifest == self.manifest_of(1)

        self.renew(live, 2, factories.attributes(5))

        assert self.rows(live) == [5]

    def test_discard_after_the_switch_is_harmless(self, live: FullIndex[E, M]) -> None:
        """A generation that is live already is not removed by `discard`."""
        made = live.begin(self.manifest_of(2))
        made.replace(self.changes(factories.attributes(1)))
        made.seal()
        live.switch(made)
        made.discard()
        live.replace(self.changes(factories.attributes(2)))

        assert self.rows(live) == [1, 2]

    def test_switch_is_one_step_for_searches(self, live: FullIndex[E, M]) -> None:
        """A search beside a switch sees one whole generation, never both, a part or neither."""
        self.renew(live, 2, *(factories.attributes(row) for row in (1, 2)))
        seen: set[tuple[int, ...]] = set()
        done = threading.Event()

        def search() -> None:
            # Once at least, though the switches may be over before this thread has its turn.
            while True:
                seen.add(tuple(self.rows(live)))
                if done.is_set():
                    return

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(3, 6):
            rows = (1, 2) if number % 2 == 0 else (7, 8, 9)
            self.renew(live, number, *(factories.attributes(row) for row in rows))
        done.set()
        for thread in threads:
            thread.join()

        assert seen
        assert seen <= {(1, 2), (7, 8, 9)}

    def test_reopened_index_keeps_entries_and_manifest(
        self, live: FullIndex[E, M], reopen: Callable[[], FullIndex[E, M]]
    ) -> None:
        """All that was replaced, and every field of the manifest, is there after a restart."""
        self.renew(live, 3, factories.attributes(1), factories.attributes(2))
        kept = factories.attributes(3)
        live.replace({1: (), 3: [self.entry(kept, ordinal=n) for n in range(2)]})

        again = reopen()

        assert again.manifest == self.manifest_of(3)
        assert self.rows(again) == [2, 3, 3]
        assert again.count() == 3
        assert ListedEntry(chunk(3, 1), kept.fingerprint) in list(again.inventory())
        assert again.storage_bytes() > 0

    def test_reopened_index_takes_changes(self, live: FullIndex[E, M], reopen: Callable[[], FullIndex[E, M]]) -> None:
        """After a restart entries are replaced and generations are made as before."""
        live.replace(self.changes(factories.attributes(1), factories.attributes(2)))

        again = reopen()
        again.replace({1: (), **self.changes(factories.attributes(3))})

        assert self.rows(again) == [2, 3]

        self.renew(again, 2, factories.attributes(4))

        assert self.rows(again) == [4]

    def test_reopened_index_without_generation_is_empty(
        self, index: FullIndex[E, M], reopen: Callable[[], FullIndex[E, M]]
    ) -> None:
        """An index that never had a generation has none after a restart."""
        assert index.manifest is None

        again = reopen()

        assert again.manifest is None
        assert self.hits(again) == []

    def test_generation_left_unfinished_is_gone_after_reopening(
        self, live: FullIndex[E, M], reopen: Callable[[], FullIndex[E, M]]
    ) -> None:
        """A generation that was not switched to is removed on the next opening, and its number is free."""
        live.replace(self.changes(factories.attributes(1)))
        made = live.begin(self.manifest_of(2))
        made.replace(self.changes(factories.attributes(9)))
        made.seal()

        again = reopen()

        assert again.manifest == self.manifest_of(1)
        assert self.rows(again) == [1]

        self.renew(again, 2)

        assert self.hits(again) == []
