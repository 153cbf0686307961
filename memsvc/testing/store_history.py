"""History: revisions, reads as of a moment, checkpoints, and tombstones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from memsvc.domain.history import Checkpoint, Revision, Tombstone
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.ports.change_feed import ChangePage
from memsvc.ports.metadata import MetadataStore, Record, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, Clock, StoreSeams, insert, purge, reach_of, revise
from memsvc.testing.store_writes import full_memory


def at(seconds: float) -> datetime:
    """Return a moment after the clock's first."""
    return NOW + timedelta(seconds=seconds)


def checkpoint(name: str, seconds: float, *, project_id: str = "", owner: str = OWNER) -> Checkpoint:
    """Return a checkpoint that was made then, of half a second before."""
    return Checkpoint(owner, project_id, name, at(seconds - 0.5), at(seconds), f"笔记 {name}")


def add(store: MetadataStore, *checkpoints: Checkpoint) -> None:
    """Keep checkpoints in one transaction."""
    with store.transaction() as transaction:
        for one in checkpoints:
            transaction.add_checkpoint(one)


class StoreHistoryContract(StoreSeams):
    """Contract of revisions and checkpoints."""

    def line(self, store: MetadataStore) -> list[Memory]:
        """Store a memory with three revisions: at 0, 10 and 20 seconds."""
        [one] = insert(store, factories.memory("第一", valid_from=at(-5), valid_to=at(5)))
        two = revise(store, one, content="second", content_hash="2", update_time=at(10), valid_to=None)
        three = revise(store, two, ChangeAction.DELETED, status=Status.DELETED, update_time=at(20))
        return [one, two, three]

    def test_revisions_are_listed_newest_first(self, store: MetadataStore) -> None:
        """Each with its action and the time of the next one; the present one has none."""
        one, two, three = self.line(store)
        every = [
            Revision(three, ChangeAction.DELETED, None),
            Revision(two, ChangeAction.UPDATED, at(20)),
            Revision(one, ChangeAction.CREATED, at(10)),
        ]
        reads = store.memories

        assert reads.revisions(one.id, reach=ADA, before=None, limit=9) == every
        assert reads.revisions(one.id, reach=ADA, before=None, limit=1) == every[:1]
        assert reads.revisions(one.id, reach=ADA, before=3, limit=1) == every[1:2]
        assert reads.revisions(one.id, reach=ADA, before=2**70, limit=2) == every[:2]
        assert reads.revisions(one.id, reach=ADA, before=1, limit=9) == []
        assert reads.revisions(one.id, reach=ADA, before=None, limit=0) == []
        assert reads.revisions("nobody", reach=ADA, before=None, limit=9) == []
        assert reads.revisions(one.id, reach=reach_of("bob"), before=None, limit=9) == []

    def test_what_was_known_at_a_moment(self, store: MetadataStore) -> None:
        """A revision is known from its own time, that microsecond included, until that of the next one."""
        one, two, three = self.line(store)
        [other] = insert(store, factories.memory("other", update_time=at(15), create_time=at(15)))
        tick = timedelta(microseconds=1)
        rows = [other.row, one.row, 99, one.row]
        expected = {
            at(0) - tick: {},
            at(0): {one.row: one},
            at(10) - tick: {one.row: one},
            at(10): {one.row: two},
            at(15): {one.row: two, other.row: other},
            at(99): {one.row: three, other.row: other},
        }

        for moment, known in expected.items():
            assert store.memories.known_at(rows, moment, reach=ADA) == known
            assert store.memories.known_at(rows, moment, reach=reach_of("bob")) == {}
            assert store.memories.known_at(rows, moment, reach=reach_of(projects=("web",))) == {}
        assert store.memories.known_at([], at(99), reach=ADA) == {}

    def test_thousands_are_looked_back_at_at_once(self, store: MetadataStore) -> None:
        """One call may name more memories than a statement may have parameters."""
        written = insert(store, *(factories.memory(f"{number}") for number in range(1_200)))
        revise(store, written[7], title="T", update_time=at(1))

        assert store.memories.known_at([memory.row for memory in written], NOW, reach=ADA) == {
            memory.row: memory for memory in written
        }

    def test_where_the_clock_ran_backwards_no_revision_is_earlier_than_the_one_before(
        self, store: MetadataStore
    ) -> None:
        """It has the same time, and counts from then on, also within one transaction and for a status of many."""
        [one] = insert(store, factories.memory("1"))
        two = revise(store, one, title="2", update_time=at(10))
        with store.transaction() as transaction:
            three = replace(two, title="3", update_time=at(5), revision=3)
            transaction.update(two, Record(three), ChangeAction.UPDATED)
            four = replace(three, title="4", update_time=at(6), revision=4)
            transaction.update(three, Record(four), ChangeAction.UPDATED)
        stored = replace(four, update_time=at(10))

        assert store.memories.known_at([one.row], at(5), reach=ADA) == {one.row: one}
        assert store.memories.known_at([one.row], at(10), reach=ADA) == {one.row: stored}
        line = store.memories.revisions(one.id, reach=ADA, before=None, limit=9)
        assert [each.memory.update_time for each in line] == [at(10), at(10), at(10), one.update_time]
        with store.transaction() as transaction:
            [expired] = transaction.set_status([stored], Status.EXPIRED)
        assert expired.update_time >= stored.update_time

    def test_what_is_written_after_a_checkpoint_is_later_than_it(self, store: MetadataStore) -> None:
        """Whatever the clock says; not in other projects, and not once the checkpoint is deleted."""
        [one] = insert(store, factories.memory("1"))
        add(store, checkpoint("c", 60.5))
        [two, other] = insert(store, factories.memory("2"), factories.memory("2", project_id="web"))
        assert (two.update_time > at(60), other.update_time) == (True, NOW)
        assert two.create_time == NOW
        revise(store, one, title="T", update_time=at(5))
        assert store.memories.known_at([one.row, two.row], at(60), reach=ADA) == {one.row: one}
        assert store.memories.get([one.id], reach=ADA)[one.id].update_time > at(60)

        with store.transaction() as transaction:
            transaction.delete_checkpoint(OWNER, "", "c")
        [three] = insert(store, factories.memory("3"))
        assert three.update_time == NOW

    def test_checkpoints_are_known_by_their_whole_names(self, store: MetadataStore) -> None:
        """Owner, project and name; within a transaction as outside."""
        made = checkpoint("前", 1)
        add(store, made, checkpoint("前", 2, project_id="web"), checkpoint("前", 3, owner="\x1fada-2"))

        assert store.checkpoints.get(OWNER, "", "前") == made
        assert store.checkpoints.get(OWNER, "web", "前") == checkpoint("前", 2, project_id="web")
        assert store.checkpoints.get(OWNER, "web-2", "前") is None
        assert store.checkpoints.get(OWNER, "", "前 ") is None
        with store.transaction() as transaction:
            assert transaction.find_checkpoint(OWNER, "", "前") == made
            assert transaction.find_checkpoint(OWNER, "", "后") is None

    def test_a_name_is_taken_once(self, store: MetadataStore) -> None:
        """A second checkpoint of a name voids its transaction."""
        add(store, checkpoint("a", 1))
        with pytest.raises(UniquenessRaceError):
            add(store, checkpoint("b", 2), checkpoint("a", 3))

        assert store.checkpoints.get(OWNER, "", "a") == checkpoint("a", 1)
        assert store.checkpoints.get(OWNER, "", "b") is None

    def test_a_deleted_checkpoint_is_gone_alone(self, store: MetadataStore) -> None:
        """By its whole name; its name is free, and deleting none does nothing."""
        add(store, checkpoint("a", 1), checkpoint("a", 2, project_id="web"), checkpoint("a", 3, owner="\x1fada-2"))
        with store.transaction() as transaction:
            transaction.delete_checkpoint(OWNER, "", "a")
            transaction.delete_checkpoint(OWNER, "", "b")
            assert transaction.find_checkpoint(OWNER, "", "a") is None

        assert store.checkpoints.get(OWNER, "web", "a") == checkpoint("a", 2, project_id="web")
        assert store.checkpoints.get("\x1fada-2", "", "a") == checkpoint("a", 3, owner="\x1fada-2")
        add(store, checkpoint("a", 4))
        assert store.checkpoints.get(OWNER, "", "a") == checkpoint("a", 4)

    def test_checkpoints_are_listed_newest_first(self, store: MetadataStore) -> None:
        """Equal times by name; a page goes on where the one before ended."""
        names = {"b": 1, "c": 2, "a": 2, "d": 3}
        add(
            store, *(checkpoint(name, seconds) for name, seconds in names.items()), checkpoint("x", 9, project_id="web")
        )
        whole = [checkpoint(name, names[name]) for name in ("d", "a", "c", "b")]

        assert store.checkpoints.page(OWNER, "", after=None, limit=9) == whole
        assert store.checkpoints.page(OWNER, "", after=None, limit=0) == []
        for place, one in enumerate(whole, start=1):
            after = (one.create_time, one.name)
            assert store.checkpoints.page(OWNER, "", after=after, limit=2) == whole[place : place + 2]
        assert store.checkpoints.page("\x1fbob", "", after=None, limit=9) == []

    def test_of_the_purged_it_is_known_that_they_were(self, store: MetadataStore, clock: Clock) -> None:
        """From creation to purge, whose they were and where; nothing of what they said, and no revisions."""
        [one, private, web] = insert(
            store,
            factories.memory("1"),
            factories.memory("2", session_id="s", layer=Layer.SESSION, create_time=at(5), update_time=at(5)),
            factories.memory("3", session_id="s", project_id="web"),
        )
        clock.moment = at(10)
        purge(store, one, private, web)

        def left(
            seconds: float, after_row: int = 0, limit: int = 9, projects: tuple[str, ...] = ("",)
        ) -> list[Tombstone]:
            reach = reach_of(projects=projects)
            return store.checkpoints.tombstones(reach=reach, moment=at(seconds), after_row=after_row, limit=limit)

        first = Tombstone(one.row, one.id, "", "", NOW, at(10))
        second = Tombstone(private.row, private.id, "", "s", at(5), at(10))
        assert left(5) == [first, second]
        assert left(4) == left(5, limit=1) == [first]
        assert left(5, after_row=one.row) == [second]
        assert left(10) == left(-1) == left(5, projects=()) == []
        assert left(5, projects=("web",)) == [Tombstone(web.row, web.id, "web", "", NOW, at(10))]
        assert store.checkpoints.tombstones(reach=reach_of("bob"), moment=at(5), after_row=0, limit=9) == []
        assert store.memories.known_at([one.row], at(5), reach=ADA) == {}

    def test_deleted_contents_are_known_by_their_hash(self, store: MetadataStore, clock: Clock) -> None:
        """Those of the owner and the projects, of memories that are deleted now; not of messages."""
        [one, again, web, said, kept] = insert(
            store,
            factories.memory("The code is 17."),
            factories.memory("The code is 18."),
            factories.memory("The code is 19.", project_id="web"),
            factories.memory("The code is 20.", kind=Kind.MESSAGE, session_id="s", layer=Layer.SESSION),
            factories.memory("The code is 21."),
        )
        for seconds, memory in ((10, one), (20, web), (20, said)):
            clock.moment = at(seconds)
            revise(store, memory, status=Status.DELETED, update_time=at(seconds))
        purge(store, again)
        hashes = [memory.content_hash for memory in (one, again, web, said, kept)]
        assert store.memories.has_deleted(reach=ADA)
        assert not store.memories.has_deleted(reach=reach_of("bob"))
        assert not store.memories.has_deleted(reach=reach_of(projects=("docs",)))

        times = store.memories.deletion_times
        assert times(hashes, reach=reach_of(projects=("",))) == {one.content_hash: at(10)}
        assert times(hashes, reach=ADA) == {one.content_hash: at(10), web.content_hash: at(20)}
        assert times(hashes, reach=reach_of("bob")) == times([], reach=ADA) == {}

    def test_history_outlives_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """Revisions, checkpoints and tombstones are there when the store is opened again."""
        one, two, three = self.line(store)
        add(store, checkpoint("a", 1))
        purge(store, *insert(store, factories.memory("gone", create_time=at(-9))))
        again = reopen()

        assert [found.memory for found in again.memories.revisions(one.id, reach=ADA, before=None, limit=9)] == [
            three, two, one,
        ]  # fmt: skip
        assert again.checkpoints.get(OWNER, "", "a") == checkpoint("a", 1)
        assert len(again.checkpoints.tombstones(reach=ADA, moment=at(-1), after_row=0, limit=9)) == 1


# Change feed of watchers: changes within a reach, and memories as they were.


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
            change for change in store.feed.changes_after(0, limit=99) if change.position in _positions(page)
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
        assert (store.changes.after(0, reach=ADA, limit=9).kept_after, store.feed.head_position()) == (0, 0)
        insert(store, factories.memory("1"), factories.memory("2"))
        clock.moment = NOW + timedelta(days=1)
        insert(store, factories.memory("3"))
        store.feed.mark_applied(store.feed.pending_changes(limit=9))

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
        second = revise(store, first, title="T", content="other", content_hash="h", derived_from_ids=())
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
