"""A user's data are read as one, and stored elsewhere as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.errors import CapabilityMissingError
from memsvc.domain.history import Checkpoint
from memsvc.domain.index_entries import ChangeAction, Chunk
from memsvc.domain.memory import FileRef, Keyword, Kind, Layer, Memory, Origin, Reminder, Review, Slot, Status
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import MessageRecord, Role, Session, SessionName, ToolCall
from memsvc.domain.use_feedback import UseCall, UseOutcome, UseReport
from memsvc.domain.user_data import RecordKind, StoredMemory, StoredRevision, said_by
from memsvc.ports.metadata import MetadataStore, Record, RestoredRecord, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_conflicts import conflict
from memsvc.testing.store_harness import OWNER, Clock, StoreSeams, insert, purge, reach_of, revise

BOB = Scope("bob").owner


def furnished(store: MetadataStore, user_id: str = "ada") -> list[Memory]:
    """Store something of every kind for a user: three memories, one of them revised, one a message."""
    scope = Scope(user_id, "web", "", "s")
    first, second = insert(
        store,
        Record(
            factories.memory(
                "小王喜欢爵士乐。", user_id=user_id, key="music", tags=("乐", "b"), keywords=(Keyword("jazz", 0.25),),
                metadata={"a": [1, 2.5, None], "b": {"c": True}}, file_refs=(FileRef("chart", "f"),),
                event_time=NOW - timedelta(days=3), origin=Origin.TOOL, trust=0.3, review=Review.APPROVED,
            ),
            given_vector=b"\0\0\x80?", given_model="m",
        ),
        Record(
            factories.memory("long", user_id=user_id, project_id="web", reminder=Reminder(2, 29, minute=0)),
            (Chunk(0, "lo", ("H",), 1, 1), Chunk(1, "ng", (), 2, 2)),
        ),
    )  # fmt: skip
    with store.transaction() as transaction:
        transaction.acknowledge(second, NOW.date(), Slot.AFTERNOON, NOW)
        reports = [UseReport(first.id, UseOutcome.USED, 1, 1), UseReport(second.id, UseOutcome.WRONG)]
        transaction.add_use(UseCall(scope, "谁喜欢爵士乐？", NOW, reports), [first.row, second.row])
    first = revise(store, first, content="小王喜欢摇滚乐。", content_hash="other", update_time=NOW + timedelta(hours=1))
    with store.transaction() as transaction:
        session = transaction.sessions.insert(Session(scope, NOW, NOW, 500, title="题", last_ordinal=1))
        memory = factories.memory(
            "hi", user_id=user_id, project_id="web", session_id="s", kind=Kind.MESSAGE, layer=Layer.SESSION
        )
        [message] = transaction.insert([Record(memory, is_unique=False)])
        said = MessageRecord(message.row, 1, Role.USER, 3, tool_calls=(ToolCall("1", "look", {"q": "雪"}),))
        transaction.sessions.append(session, [said])
        transaction.add_conflicts([conflict(first, second)])
        transaction.add_checkpoint(Checkpoint(first.scope.owner, "web", "start", NOW, NOW, "note"))
        transaction.add_accesses({first.id: (2, NOW)})
        transaction.files.insert(factories.file(user_id=user_id, project_id="web", metadata={"标": [1]}))
    purge(store, *insert(store, factories.memory("gone", user_id=user_id)))
    return [first, second, message]


def restored(
    stored: StoredMemory, owner: Scope, new_id: str, earlier: tuple[StoredRevision, ...] = ()
) -> RestoredRecord:
    """Return what stores a memory for another owner."""
    memory = replace(stored.memory, id=new_id, scope=replace(stored.memory.scope, user_id=owner.user_id))
    record = Record(memory, (), stored.is_unique, stored.given_vector, stored.given_model)
    return RestoredRecord(record, replace(stored, memory=memory), None, earlier)


class StoreTransferContract(StoreSeams):
    """Contract of export and import of users."""

    def test_everything_of_a_user_is_read(self, store: MetadataStore) -> None:
        """Every record of every kind, of exactly this user, in order, as it is stored."""
        first, second, message = furnished(store)
        furnished(store, "ada2")

        with store.users.snapshot(OWNER) as snapshot:
            stored = list(snapshot.memories())
            assert [first.id, second.id, message.id] == [one.memory.id for one in stored]
            assert store.memories.get([first.id], reach=reach_of())[first.id] == stored[0].memory
            assert (stored[0].is_unique, stored[0].action, stored[0].message) == (True, ChangeAction.UPDATED, None)
            assert stored[1].message is None
            assert stored[2].message is not None
            assert (stored[2].message.tool_calls[0].name, stored[2].message.ordinal) == ("look", 1)
            [earlier] = snapshot.earlier(stored[0].memory)
            assert (earlier.memory.content, earlier.action) == ("小王喜欢爵士乐。", ChangeAction.CREATED)
            assert list(snapshot.earlier(stored[1].memory)) == []
            assert [session.scope.session_id for session in snapshot.sessions()] == ["s"]
            assert [first.id] == [one.older_id for one in snapshot.conflicts()]
            assert [one.name for one in snapshot.checkpoints()] == ["start"]
            assert len(list(snapshot.tombstones())) == 1
            assert store.files.of_owner(OWNER, after=0, limit=9) == list(snapshot.files())
            assert dict.fromkeys(RecordKind, 1) | {RecordKind.MEMORY: 3} == dict(snapshot.counts())

    def test_a_snapshot_stands_still(self, store: MetadataStore) -> None:
        """An export neither sees nor misses memories that are written or purged while it reads."""
        memories = furnished(store)

        with store.users.snapshot(OWNER) as snapshot:
            before = dict(snapshot.counts())
            purge(store, memories[1])
            insert(store, factories.memory("later"))
            assert {memory.id for memory in memories} == {one.memory.id for one in snapshot.memories()}
            assert before == dict(snapshot.counts())
        with store.users.snapshot(BOB) as snapshot:
            assert {0} == set(snapshot.counts().values())

    def test_what_is_restored_is_what_was_stored(self, store: MetadataStore) -> None:
        """With its past, its numbers, its vector and its message, under ids that are free."""
        furnished(store)
        bob = Scope("bob", "web", "", "s")
        with store.users.snapshot(OWNER) as snapshot:
            stored = list(snapshot.memories())
            pasts = [tuple(snapshot.earlier(one.memory)) for one in stored]
        news = [restored(one, bob, f"b{number}", pasts[number]) for number, one in enumerate(stored)]
        with store.transaction() as transaction:
            session = transaction.sessions.insert(Session(bob, NOW, NOW, 500))
            news[2] = replace(news[2], session=session)
            written = transaction.restore(news)
            assert {1} == transaction.taken_ordinals(session, [1, 2])
            assert {"b0", "b1"} == transaction.ids_of_others(OWNER, ["b0", "b1", "b9", stored[0].memory.id])
            assert {"b0": written[0].row} == transaction.rows(BOB, ["b0", stored[0].memory.id])

        with store.users.snapshot(BOB) as snapshot:
            found = list(snapshot.memories())
            assert [said_by(one.stored) for one in news] == [said_by(one) for one in found]
            assert stored[0].memory.access_count == found[0].memory.access_count == 2
            [past] = snapshot.earlier(found[0].memory)
        assert ("小王喜欢爵士乐。", written[0].row) == (past.memory.content, past.memory.row)
        assert [one.memory.row for one in found] == sorted(memory.row for memory in written)
        name = SessionName.from_scope(bob)
        with store.transaction() as transaction:
            standing = transaction.sessions.status(name)
            assert standing is not None
            assert (written[2].row, 3) == (standing.newest_row, standing.live_tokens)
            assert said_by(news[0].stored) == said_by(transaction.get_many(BOB, ["b0"])["b0"])
            assert transaction.get_many(OWNER, ["b0"]) == {}

    def test_restored_memories_are_told_to_indexes(self, store: MetadataStore) -> None:
        """As new ones, at their own revision; and they can be revised."""
        [memory] = furnished(store)[:1]
        with store.users.snapshot(OWNER) as snapshot:
            stored = next(iter(snapshot.memories()))
        with store.transaction() as transaction:
            [new] = transaction.restore([restored(stored, Scope("bob"), "b0")])
            position = transaction.position

        [change] = store.feed.changes_after(position - 1, limit=9)
        assert (new.row, "b0", ChangeAction.CREATED, memory.revision) == (
            change.row, change.memory_id, change.action, change.revision,
        )  # fmt: skip
        assert [new.row] == [document.memory.row for document in store.feed.documents([new.row])]
        assert revise(store, new, title="t").revision == 3

    def test_missing_revisions_can_be_added_later(self, store: MetadataStore) -> None:
        """Once each; those that are here stay."""
        furnished(store)
        with store.users.snapshot(OWNER) as snapshot:
            stored = next(iter(snapshot.memories()))
            past = tuple(snapshot.earlier(stored.memory))
        with store.transaction() as transaction:
            [new] = transaction.restore([restored(stored, Scope("bob"), "b0")])
            assert transaction.restore_earlier(new, past) == 1
            assert transaction.restore_earlier(new, [replace(past[0], action=ChangeAction.DELETED)]) == 0

        [_, first] = store.memories.revisions("b0", reach=reach_of("bob"), before=None, limit=9)
        assert (
            first.memory.revision,
            first.action,
            first.memory.content,
        ) == (1, ChangeAction.CREATED, "小王喜欢爵士乐。")

    def test_lines_of_a_session_stay_neighbours(self, store: MetadataStore) -> None:
        """The line before is found within what is restored, else among what is here; other lines do not matter."""
        lines = [factories.memory(text, session_id="s", id=f"b{text}") for text in "1234"]
        stored = [StoredMemory(line, is_unique=True, action=ChangeAction.CREATED) for line in lines]
        news = [RestoredRecord(Record(one.memory), one) for one in stored]
        third = replace(stored[2], previous_id="b1")
        with store.transaction() as transaction:
            one, two, three = transaction.restore([*news[:2], RestoredRecord(Record(third.memory), third)])
            known = RestoredRecord(Record(replace(lines[3], previous_row=two.row)), stored[3])
            [four] = transaction.restore([known])
        assert [None, None, one.row, two.row] == [line.previous_row for line in (one, two, three, four)]

    def test_a_taken_id_is_refused(self, store: MetadataStore) -> None:
        """Nothing of anybody is overwritten."""
        [memory] = insert(store, factories.memory(user_id="bob"))
        stored = StoredMemory(factories.memory("mine", id=memory.id), is_unique=True, action=ChangeAction.CREATED)

        with pytest.raises(UniquenessRaceError), store.transaction() as transaction:
            transaction.restore([RestoredRecord(Record(stored.memory), stored)])
        assert memory == store.memories.get([memory.id], reach=reach_of("bob"))[memory.id]

    def test_deleted_memories_are_carried_too(self, store: MetadataStore) -> None:
        """They are here afterwards, and still deleted: their content can be stored again."""
        stored = StoredMemory(
            factories.memory("x", status=Status.DELETED), is_unique=False, action=ChangeAction.DELETED
        )
        with store.transaction() as transaction:
            [gone] = transaction.restore([RestoredRecord(Record(stored.memory, is_unique=False), stored)])

        assert store.feed.documents([gone.row]) == []
        assert Status.DELETED is store.memories.get([gone.id], reach=reach_of())[gone.id].status

    def test_tombstones_are_carried(self, store: MetadataStore, clock: Clock) -> None:
        """With new rows, found by their ids, of exactly their owner."""
        purge(store, *insert(store, factories.memory("x", id="gone")))
        with store.users.snapshot(OWNER) as snapshot:
            [left] = snapshot.tombstones()
        with store.transaction() as transaction:
            assert {"gone"} == transaction.find_tombstones(OWNER, ["gone", "b"])
            assert set() == transaction.find_tombstones(BOB, ["gone"])
            transaction.restore_tombstones(BOB, [left])

        with store.users.snapshot(BOB) as snapshot:
            [copy] = snapshot.tombstones()
        assert left == replace(copy, row=left.row)
        assert clock.moment == copy.time

    def test_a_copy_is_the_store_of_one_moment(
        self, store: MetadataStore, tmp_path: Path, reopen: Callable[[], MetadataStore]
    ) -> None:
        """Or copies cannot be made at all. What is opened after `renew` has a name of its own."""
        folder = tmp_path / "copy"
        folder.mkdir()
        furnished(store)
        try:
            progress = list(store.copies.copy(folder))
        except CapabilityMissingError:
            return
        assert progress[-1].done == progress[-1].total > 0
        assert [file for file in folder.iterdir() if file.is_file()]
        store.copies.verify()
        name = store.changes.identity
        store.copies.renew()
        assert name != reopen().changes.identity
