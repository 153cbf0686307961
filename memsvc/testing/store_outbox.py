"""Feed of the indexer: the outbox and documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from memsvc.domain.clock import to_micros
from memsvc.domain.index_entries import Change, ChangeAction, Chunk, Document, ExpectedEntries
from memsvc.domain.memory import Memory, Status, fingerprint
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import Clock, StoreSeams, insert, purge, revise
from memsvc.testing.store_writes import CHUNKS


def _delete(store: MetadataStore, memory: Memory) -> Memory:
    return revise(store, memory, ChangeAction.DELETED, status=Status.DELETED)


def _insert_many(store: MetadataStore, count: int) -> list[Memory]:
    return insert(store, *(factories.memory(f"{number}") for number in range(count)))


class StoreFeedContract(StoreSeams):
    """`feed`."""

    def test_every_change_is_in_the_outbox(self, store: MetadataStore, clock: Clock) -> None:
        """Each insert, update and purge is a change with the store's time, in order, without gaps, of every owner."""
        one, two = insert(store, factories.memory("1"), factories.memory("2", user_id="bob"))
        clock.moment = NOW + timedelta(seconds=1)
        gone = _delete(store, one)
        back = revise(store, gone, ChangeAction.RESTORED, status=Status.ACTIVE)
        purge(store, back)

        now, later = to_micros(NOW), to_micros(NOW) + 1_000_000
        assert store.feed.changes_after(0, limit=99) == [
            Change(1, one.row, one.id, ChangeAction.CREATED, 1, now),
            Change(2, two.row, two.id, ChangeAction.CREATED, 1, now),
            Change(3, one.row, one.id, ChangeAction.DELETED, 2, later),
            Change(4, one.row, one.id, ChangeAction.RESTORED, 3, later),
            Change(5, one.row, one.id, ChangeAction.PURGED, 3, later),
        ]
        assert store.feed.head_position() == 5

    def test_changes_after_a_position(self, store: MetadataStore) -> None:
        """Changes come from after the position, ascending, at most as many as asked for."""
        _insert_many(store, 6)

        def positions(after: int, limit: int) -> list[int]:
            return [change.position for change in store.feed.changes_after(after, limit=limit)]

        assert positions(0, 3) == [1, 2, 3]
        assert positions(3, 99) == [4, 5, 6]
        assert positions(6, 99) == positions(99, 1) == positions(0, 0) == []

    def test_pending_changes_are_the_oldest_not_applied(self, store: MetadataStore) -> None:
        """Applied changes are no longer pending, in whatever order they are marked; the rest comes oldest first."""
        _insert_many(store, 6)
        changes = store.feed.pending_changes(limit=99)
        assert changes == store.feed.changes_after(0, limit=99)

        store.feed.mark_applied([changes[3], changes[0], changes[1]])
        store.feed.mark_applied([changes[0]])
        store.feed.mark_applied([])

        assert [change.position for change in store.feed.pending_changes(limit=99)] == [3, 5, 6]
        assert [change.position for change in store.feed.pending_changes(limit=2)] == [3, 5]
        assert store.feed.pending_changes(limit=0) == []
        assert store.feed.pending_count() == 3
        assert [change.position for change in store.feed.changes_after(0, limit=99)] == [1, 2, 3, 4, 5, 6]

    def test_applied_changes_after_a_position(self, store: MetadataStore) -> None:
        """Only marked ones come, ascending, in whatever order they were marked, at most as many as asked for."""
        _insert_many(store, 6)
        changes = store.feed.pending_changes(limit=99)
        assert store.feed.applied_changes(0, limit=9) == []

        store.feed.mark_applied([changes[4], changes[1], changes[2]])

        for _ in range(2):
            assert store.feed.applied_changes(0, limit=9) == [changes[1], changes[2], changes[4]]
            assert store.feed.applied_changes(2, limit=1) == [changes[2]]
            assert store.feed.applied_changes(5, limit=9) == store.feed.applied_changes(0, limit=0) == []
            store.feed.settle()

    def test_claimed_changes_are_those_wanted_or_the_oldest(self, store: MetadataStore) -> None:
        """Only pending ones are claimed, ascending; wanted ones ahead of the rest, unless there are none."""
        _insert_many(store, 6)
        changes = store.feed.pending_changes(limit=99)

        def lent(*wanted: int, limit: int = 9) -> list[Change]:
            with store.feed.claim(wanted, limit=limit) as found:
                return list(found)

        assert lent() == changes
        assert lent(limit=2) == changes[:2]
        assert lent(limit=0) == []
        assert lent(5, 2, 99) == [changes[1], changes[4]]
        with store.feed.claim((4, 2), limit=9) as found:
            store.feed.mark_applied(found)
            assert store.feed.applied_among([1, 2, 4, 6]) == {2, 4}
        assert lent(2, 3) == [changes[2]]
        assert lent(2, limit=2) == [changes[0], changes[2]]
        assert store.feed.applied_among([]) == set()

    def test_changes_are_claimed_without_some(self, store: MetadataStore) -> None:
        """Those left out stay pending; the others come in their place."""
        _insert_many(store, 4)
        changes = store.feed.pending_changes(limit=9)

        with store.feed.claim((), limit=2, without={1, 3}) as found:
            assert list(found) == [changes[1], changes[3]]
        with store.feed.claim((2, 3), limit=9, without={3}) as found:
            assert list(found) == [changes[1]]
        assert store.feed.pending_count() == 4

    def test_pending_changes_of_one_owner(self, store: MetadataStore) -> None:
        """They are the oldest of this owner, up to a position; applied ones are left out."""
        ours, theirs = factories.memory("1"), factories.memory("2", user_id="bob")
        insert(store, ours, theirs, factories.memory("3"), factories.memory("4"), factories.memory("5"))
        owner = ours.scope.owner
        assert store.feed.pending_of(owner, up_to=4, limit=9) == [1, 3, 4]
        assert store.feed.pending_of(owner, up_to=9, limit=2) == [1, 3]

        store.feed.mark_applied(store.feed.pending_changes(limit=3))

        assert store.feed.pending_of(owner, up_to=9, limit=9) == [4, 5]
        assert store.feed.pending_of(theirs.scope.owner, up_to=9, limit=9) == []

    def test_turns_give_every_owner_a_change_before_any_has_two(self, store: MetadataStore) -> None:
        """The oldest of each owner come first, then the second ones; only the newest changes are looked at."""
        first = [factories.memory(f"a{number}") for number in range(4)]
        others = [factories.memory(f"b{number}", user_id="bob") for number in range(2)]
        insert(store, *first, *others, factories.memory("c", user_id="cy"))

        assert store.feed.turns(newest=99, limit=99) == [1, 5, 7, 2, 6, 3, 4]
        assert store.feed.turns(newest=99, limit=3) == [1, 5, 7]
        assert store.feed.turns(newest=4, limit=99) == [4, 5, 7, 6]
        store.feed.mark_applied(store.feed.pending_changes(limit=5))
        assert store.feed.turns(newest=99, limit=99) == [6, 7]

    def test_long_memories_are_those_of_more_chunks(self, store: MetadataStore) -> None:
        """Each comes with its owner; unknown rows and deleted memories are left out."""
        [long] = insert(store, Record(factories.memory("long"), chunks=CHUNKS))
        [short] = insert(store, factories.memory("short"))
        rows = [long.row, short.row, 999]

        assert store.feed.long_memories(rows, chunks=len(CHUNKS) - 1) == {long.row: long.scope.owner}
        assert store.feed.long_memories(rows, chunks=len(CHUNKS)) == {}
        assert store.feed.long_memories([], chunks=0) == {}

    def test_applied_is_the_position_below_the_first_gap(self, store: MetadataStore) -> None:
        """Everything up to the position is applied, and it reaches the head when nothing is pending."""
        assert (store.feed.applied_position(), store.feed.head_position(), store.feed.pending_count()) == (0, 0, 0)
        _insert_many(store, 4)
        first, second, third, fourth = store.feed.pending_changes(limit=9)

        seen = [store.feed.applied_position()]
        for change in (first, third, second, fourth):
            store.feed.mark_applied([change])
            seen.append(store.feed.applied_position())

        assert seen == [0, 1, 1, 3, 4]
        assert store.feed.pending_count() == 0

    def test_trim_removes_old_applied_changes(self, store: MetadataStore, clock: Clock) -> None:
        """Only changes that are applied and older than the moment go; positions go on after them."""
        _insert_many(store, 3)
        clock.moment = NOW + timedelta(seconds=1)
        insert(store, factories.memory("later"))
        changes = store.feed.pending_changes(limit=9)
        store.feed.mark_applied(changes)

        assert store.feed.trim(before=NOW) == 0
        assert store.feed.trim(before=clock.moment) == 3
        assert [change.position for change in store.feed.changes_after(0, limit=9)] == [4]
        assert (store.feed.applied_position(), store.feed.head_position()) == (4, 4)

    def test_trim_leaves_no_gap(self, store: MetadataStore, clock: Clock) -> None:
        """A change that must stay, being young or not applied, keeps all that come after it."""
        _insert_many(store, 2)
        clock.moment = NOW + timedelta(seconds=1)
        insert(store, factories.memory("after the clock was set back"))
        clock.moment = NOW
        insert(store, factories.memory("3"))
        changes = store.feed.pending_changes(limit=9)
        store.feed.mark_applied([changes[0], changes[2], changes[3]])
        late = NOW + timedelta(seconds=1)

        assert store.feed.trim(before=late) == 1
        store.feed.mark_applied([changes[1]])
        assert store.feed.trim(before=late) == 1
        assert [change.position for change in store.feed.changes_after(0, limit=9)] == [3, 4]

    def test_positions_go_on_after_everything_was_trimmed(self, store: MetadataStore, clock: Clock) -> None:
        """With an empty outbox head and applied stay where they were, and the next change follows them."""
        written = _insert_many(store, 3)
        purge(store, *written)
        store.feed.mark_applied(store.feed.pending_changes(limit=9))
        clock.moment = NOW + timedelta(days=1)

        assert store.feed.trim(before=clock.moment) == 6
        assert (store.feed.applied_position(), store.feed.head_position(), store.feed.pending_count()) == (6, 6, 0)
        insert(store, factories.memory("next"))
        assert [change.position for change in store.feed.pending_changes(limit=9)] == [7]
        assert (store.feed.applied_position(), store.feed.head_position()) == (6, 7)

    def test_document_has_all_that_indexing_needs(self, store: MetadataStore) -> None:
        """A document holds the memory, its chunks, the one before it, and the given vector."""
        [first] = insert(store, factories.memory("line one\nline two", session_id="s"))
        long = factories.memory("long", session_id="s", previous_row=first.row, user_id="bob", project_id="other")
        [second] = insert(store, Record(long, chunks=CHUNKS, given_vector=b"\x00\x80\xff", given_model="模型"))

        found = {
            document.memory.row: document for document in store.feed.documents([second.row, 99, first.row, first.row])
        }

        assert found == {
            first.row: Document(first, (Chunk(0, "line one\nline two", (), 1, 2),)),
            second.row: Document(second, CHUNKS, first, b"\x00\x80\xff", "模型"),
        }
        assert store.feed.documents([]) == []

    def test_deleted_memories_are_no_documents(self, store: MetadataStore) -> None:
        """A deleted memory is neither a document nor the one before another."""
        [first] = insert(store, factories.memory("1"))
        [second] = insert(store, factories.memory("2", previous_row=first.row))
        [third] = insert(store, factories.memory("3", previous_row=second.row))
        _delete(store, first)
        purge(store, second)

        assert store.feed.documents([first.row, second.row, third.row]) == [Document(third, (Chunk(0, "3", (), 1, 1),))]
        assert store.feed.scan(after_row=0, limit=9) == store.feed.documents([third.row])
        assert store.feed.indexable() == 1

    def test_chunks_of_neighbours_are_kept_apart(self, store: MetadataStore) -> None:
        """Each document has its own chunks, by ordinal, and all of them."""
        many = [
            tuple(Chunk(n, f"{size} {n}", ("h",), n + 1, n + 1) for n in range(size)) if size > 1 else ()
            for size in (3, 1, 200, 2)
        ]
        written = insert(store, *(Record(factories.memory(f"{n}"), chunks=chunks) for n, chunks in enumerate(many)))

        found = store.feed.scan(after_row=0, limit=9)

        assert [document.memory for document in found] == written
        assert [len(document.chunks) for document in found] == [3, 1, 200, 2]
        assert [document.chunks for document in found if len(document.chunks) > 1] == [c for c in many if c]

    def test_scan_walks_through_all(self, store: MetadataStore) -> None:
        """From row to row, every memory that is not deleted comes once, in the order of rows."""
        written = _insert_many(store, 7)
        _delete(store, written[2])
        found: list[int] = []
        while documents := store.feed.scan(after_row=found[-1] if found else 0, limit=2):
            assert len(documents) <= 2
            found += [document.memory.row for document in documents]

        assert found == [memory.row for memory in written if memory is not written[2]]
        assert store.feed.scan(after_row=0, limit=0) == []

    def test_histories_are_of_memories_of_any_status(self, store: MetadataStore) -> None:
        """With their earlier revisions and the message before them, by ascending row."""
        first, second, third = insert(store, *(factories.memory(name, user_id=name) for name in ("ada", "bob", "甲")))
        changed = revise(store, first, content="later")
        deleted = _delete(store, second)

        page = store.feed.histories(after_row=0, limit=2)
        assert [one.document.memory for one in page] == [changed, deleted]
        assert [[memory.content for memory in one.earlier] for one in page] == [["ada"], ["bob"]]
        [last] = store.feed.histories(after_row=second.row, limit=2)
        assert (last.document.memory, last.earlier) == (third, ())
        assert store.feed.histories(after_row=third.row, limit=2) == []

    def test_purges_are_known(self, store: MetadataStore) -> None:
        """Since a moment, and after a position."""
        kept, gone = insert(store, factories.memory("kept"), factories.memory("gone"))
        _delete(store, kept)
        before = store.feed.head_position()
        assert not store.feed.has_purges(after=0, since=NOW - timedelta(days=1))

        purge(store, gone)
        assert store.feed.has_purges(after=before, since=NOW)
        assert not store.feed.has_purges(after=before, since=NOW + timedelta(seconds=1))
        assert not store.feed.has_purges(after=store.feed.head_position(), since=NOW)

    def test_expected_entries(self, store: MetadataStore) -> None:
        """Of each memory that is not deleted: its row, its fingerprint as of now, and the number of its chunks."""
        one, two, three = insert(store, *(factories.memory(f"{n}") for n in range(3)))
        [four] = insert(store, Record(factories.memory("long"), chunks=CHUNKS))
        changed = revise(store, one, title="T")
        _delete(store, two)

        expected = [
            ExpectedEntries(one.row, fingerprint(changed), 1),
            ExpectedEntries(three.row, fingerprint(three), 1),
            ExpectedEntries(four.row, fingerprint(four), 2),
        ]
        assert store.feed.expected_entries(after_row=0, limit=9) == expected
        assert store.feed.expected_entries(after_row=one.row, limit=1) == expected[1:2]
        assert store.feed.expected_entries(after_row=four.row, limit=9) == []
        assert store.feed.indexable() == 3

    def test_fingerprint_follows_the_content(self, store: MetadataStore) -> None:
        """A changed memory is expected with another fingerprint; counting accesses changes none."""
        [one] = insert(store, factories.memory())
        before = store.feed.expected_entries(after_row=0, limit=1)
        with store.transaction() as transaction:
            transaction.add_accesses({one.id: (1, NOW)})
        assert store.feed.expected_entries(after_row=0, limit=1) == before

        revise(store, replace(one, access_count=1, access_time=NOW), title="T")
        assert store.feed.expected_entries(after_row=0, limit=1) != before
