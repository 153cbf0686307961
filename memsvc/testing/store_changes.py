"""What watchers read: the changes within a reach, and memories as they were."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Status
from memsvc.ports.change_feed import ChangePage
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, Clock, StoreSeams, insert, purge, reach_of, revise
from memsvc.testing.store_writes import full_memory


def _positions(page: ChangePage) -> list[int]:
    return [logged.change.position for logged in page.changes]


class StoreChangesContract(StoreSeams):
    """`changes`, and the owners of a transaction."""

    def test_changes_of_a_reach_in_order(self, store: MetadataStore) -> None:
        """Each change of the reach's owner and projects comes once, ascending, and no other."""
        [one] = insert(store, factories.memory("1"))
        insert(store, factories.memory("2", user_id="ada-2"), factories.memory("3", tenant_id="t"))
        [four] = insert(store, factories.memory("4", project_id="web"))
        insert(store, factories.memory("5", project_id="web-2"))
        changed = revise(store, four, title="T")
        purge(store, changed)

        page = store.changes.after(0, reach=reach_of(projects=("web", "")), limit=99)

        assert [(c.change.position, c.change.memory_id, c.change.action, c.change.revision) for c in page.changes] == [
            (1, one.id, ChangeAction.CREATED, 1),
            (4, four.id, ChangeAction.CREATED, 1),
            (6, four.id, ChangeAction.UPDATED, 2),
            (7, four.id, ChangeAction.PURGED, 2),
        ]
        assert [logged.change for logged in page.changes] == [
            change for change in store.feed.since(0, limit=99) if change.position in _positions(page)
        ]
        assert (page.position, page.is_all, page.kept_after, page.head) == (7, True, 0, 7)

    def test_changes_come_page_by_page(self, store: MetadataStore) -> None:
        """A full page ends at its last change; the last page reaches to the head, whosever change that is."""
        insert(store, *(factories.memory(f"{n}", project_id=("", "web")[n % 2]) for n in range(5)))
        insert(store, factories.memory("other", user_id="bob"))

        first = store.changes.after(0, reach=ADA, limit=3)
        second = store.changes.after(first.position, reach=ADA, limit=3)
        third = store.changes.after(second.position, reach=ADA, limit=3)

        assert (_positions(first), first.position, first.is_all) == ([1, 2, 3], 3, False)
        assert (_positions(second), second.position, second.is_all) == ([4, 5], 6, True)
        assert (_positions(third), third.position, third.is_all) == ([], 6, True)
        assert [store.changes.count(n, reach=ADA) for n in (0, 3, 5, 99)] == [5, 2, 0, 0]
        assert store.changes.count(0, reach=reach_of(projects=("web",))) == 2

    def test_kept_after_tells_what_was_trimmed(self, store: MetadataStore, clock: Clock) -> None:
        """Changes up to the position are gone, also when none is left."""
        assert (store.changes.after(0, reach=ADA, limit=9).kept_after, store.feed.head()) == (0, 0)
        insert(store, factories.memory("1"), factories.memory("2"))
        clock.moment = NOW + timedelta(days=1)
        insert(store, factories.memory("3"))
        store.feed.mark_applied(store.feed.pending(limit=9))

        store.feed.trim(before=clock.moment)
        after_two = store.changes.after(0, reach=ADA, limit=9)
        store.feed.trim(before=clock.moment + timedelta(days=1))
        after_all = store.changes.after(0, reach=ADA, limit=9)

        assert (_positions(after_two), after_two.kept_after) == ([3], 2)
        assert (_positions(after_all), after_all.kept_after, after_all.head) == ([], 3, 3)

    def test_changes_of_private_memories_name_their_session(self, store: MetadataStore) -> None:
        """Only what was private before and after is for the session alone."""
        [private] = insert(store, factories.memory("1", layer=Layer.SESSION, session_id="s"))
        shared = revise(store, private, layer=Layer.SHORT_TERM)
        hidden = revise(store, shared, layer=Layer.SESSION)
        gone = revise(store, hidden, ChangeAction.DELETED, status=Status.DELETED)
        purge(store, gone)
        insert(store, factories.memory("2", session_id="s"))

        page = store.changes.after(0, reach=ADA, limit=9)

        assert [logged.private_session for logged in page.changes] == ["s", "", "", "s", "s", ""]

    def test_states_are_memories_as_they_were(self, store: MetadataStore) -> None:
        """Every revision is there in every field, until the memory is removed for good."""
        [first] = insert(store, full_memory())
        second = revise(store, first, title="T", content="other", content_hash="h", derived_from=())
        [kept] = insert(store, factories.memory("kept"))
        wanted = [(first.row, 3), (first.row, 4), (kept.row, 1), (first.row, 5), (first.row, 2), (99, 1)]

        before = store.changes.states(wanted)
        purge(store, second)
        after = store.changes.states(wanted)

        assert before == {(first.row, 3): first, (first.row, 4): second, (kept.row, 1): kept}
        assert after == {(kept.row, 1): kept}
        assert store.changes.states([]) == {}

    def test_identity_stays(self, store: MetadataStore) -> None:
        """The store has a name, and gives it again."""
        assert store.changes.identity == store.changes.identity != ""

    def test_identity_survives_reopening(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """The same data have the same name."""
        identity = store.changes.identity

        assert reopen().changes.identity == identity

    def test_a_transaction_names_the_owners_of_what_it_changed(self, store: MetadataStore) -> None:
        """Inserts, updates and purges count, reads do not."""
        one, two, three = insert(store, *(factories.memory(n, user_id=n) for n in ("ada", "bob", "cy")))
        with store.transaction() as transaction:
            assert transaction.get(three.id, reach=reach_of("cy")) is not None
            assert transaction.owners == set()
            transaction.insert([Record(factories.memory("4", user_id="dee"))])
            transaction.purge(two)
            transaction.update(one, Record(factories.memory("x", user_id="ada", id=one.id, revision=2)), _UPDATED)

            assert transaction.owners == {OWNER, "\x1fbob", "\x1fdee"}


_UPDATED = ChangeAction.UPDATED
