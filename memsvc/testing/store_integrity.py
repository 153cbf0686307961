"""A store tells what is wrong with what it keeps, and mends it."""

from __future__ import annotations

from dataclasses import replace

from memsvc.domain.diagnostics import CheckPart
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Keyword, Kind, Layer, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import MessageRecord, Role, Session
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.operations import LostMessage, RowCursor, StoredRow
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_conflicts import conflict
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, reach_of

CHUNKS = (Chunk(0, "One.", (), 1, 1), Chunk(1, "Two.", (), 2, 2))


class StoreIntegrityContract(StoreSeams):
    """Contract of integrity reads."""

    def test_places_are_listed_page_by_page(self, store: MetadataStore) -> None:
        """Those of memories of any status, and of sessions without memories, each once, in order."""
        places = (("ada", "web"), ("ada", ""), ("bob", ""))
        for text in ("1", "2"):
            insert(store, *(factories.memory(text, user_id=user, project_id=project) for user, project in places))
        insert(store, factories.memory("gone", user_id="eve", status=Status.DELETED))
        with store.transaction() as transaction:
            transaction.sessions.insert(Session(Scope("ada", "talks", session_id="s"), NOW, NOW, 1_000))
        bob, eve = (reach_of(user).owner for user in ("bob", "eve"))
        everything = [
            RowCursor(OWNER, ""),
            RowCursor(OWNER, "talks"),
            RowCursor(OWNER, "web"),
            RowCursor(bob, ""),
            RowCursor(eve, ""),
        ]

        assert store.integrity.places(after=None, limit=9) == everything
        assert store.integrity.places(after=everything[1], limit=2) == everything[2:4]
        assert store.integrity.places(after=everything[-1], limit=9) == []

    def test_known_ids_are_those_of_one_owner(self, store: MetadataStore) -> None:
        """In any project and of any status, but never another owner's."""
        mine, deleted, theirs = insert(
            store,
            factories.memory("1", project_id="web"),
            factories.memory("2", status=Status.DELETED),
            factories.memory("3", user_id="ada2"),
        )
        ids = [mine.id, deleted.id, theirs.id, "01890000-0000-7000-8000-ffffffffffff"]

        assert store.integrity.known_ids(OWNER, ids) == {mine.id, deleted.id}
        assert store.integrity.known_ids(OWNER, []) == set()

    def test_a_memory_that_is_whole_is_told_so(self, store: MetadataStore) -> None:
        """With chunks, with terms of all sorts (some twice), deleted or not; and after they were entered again."""
        fields = {"tags": ("a", "b", "a"), "keywords": (Keyword("茶", 0.5), Keyword("tea", 0.1)), "metadata": {"x": 1}}
        whole, deleted = insert(
            store,
            Record(factories.memory("One.\nTwo.", **fields), CHUNKS),
            factories.memory("2", status=Status.DELETED, **fields),
        )
        unknown = replace(whole, row=whole.row + 1_000)
        expected = {one.row: StoredRow(has_chunks=True, has_terms=True) for one in (whole, deleted)}

        assert store.integrity.stored_rows([whole, deleted, unknown]) == expected
        with store.transaction() as transaction:
            transaction.reenter(whole, CHUNKS)
        assert store.integrity.stored_rows([whole, deleted]) == expected
        assert store.integrity.stored_rows([]) == {}
        [document] = store.feed.documents([whole.row])
        assert document.chunks == CHUNKS
        assert [hit.entry_id for hit in store.memories.keyword_hits(["tea"], reach=ADA, where=None, limit=9)]

    def test_nothing_remains_of_purged_memories(self, store: MetadataStore) -> None:
        """A purge leaves nothing behind, and existing content is never taken for remains."""
        gone, kept = insert(
            store,
            Record(factories.memory("One.\nTwo.", tags=("a",), metadata={"x": 1}), CHUNKS, given_vector=b"1234"),
            Record(factories.memory("Three.\nFour.", tags=("a",), metadata={"x": 1}), CHUNKS),
        )
        purge(store, gone)

        for part in CheckPart:
            assert store.integrity.remains(part, owner=None, after=-1, limit=9) == []
            assert store.integrity.remains(part, owner=OWNER, after=-1, limit=9) == []
            with store.transaction() as transaction:
                assert transaction.discard_remains(part, [gone.row, kept.row]) == 0
        assert store.integrity.stored_rows([kept]) == {kept.row: StoredRow(has_chunks=True, has_terms=True)}

    def test_messages_without_a_session_are_lost(self, store: MetadataStore) -> None:
        """They are reported to their owner alone, and only they are removed; the content stays."""
        with store.transaction() as transaction:
            session = transaction.sessions.insert(
                Session(Scope("ada", session_id="s"), NOW, NOW, 1_000, last_ordinal=1)
            )
        [whole, lost] = insert(
            store,
            *(
                Record(factories.memory(text, kind=Kind.MESSAGE, layer=Layer.SESSION, session_id="s"), is_unique=False)
                for text in ("1", "2")
            ),
        )
        with store.transaction() as transaction:
            transaction.sessions.append(session, [MessageRecord(whole.row, 1, Role.USER, 3)])
            transaction.sessions.append(
                replace(session, row=session.row + 99), [MessageRecord(lost.row, 2, Role.USER, 3)]
            )
        expected = [LostMessage(lost.row, OWNER, "", lost.id)]

        def told(reach: Reach | None) -> list[LostMessage]:
            return store.integrity.lost_messages(reach=reach, after=0, limit=9)

        assert told(None) == told(ADA) == expected
        assert told(reach_of("bob")) == told(reach_of(projects=("web",))) == []
        with store.transaction() as transaction:
            assert transaction.discard_messages([whole.row, lost.row]) == 1
        assert told(None) == []
        assert store.memories.get([lost.id], reach=ADA)

    def test_sessions_that_lost_all_messages_are_told(self, store: MetadataStore) -> None:
        """One that never had any, or still has some, is not among them."""
        with store.transaction() as transaction:
            empty, filled, _ = (
                transaction.sessions.insert(
                    Session(Scope("ada", session_id=name), NOW, NOW, 1_000, last_ordinal=ordinal)
                )
                for name, ordinal in (("emptied", 2), ("filled", 1), ("fresh", 0))
            )
        [message] = insert(
            store, Record(factories.memory("1", kind=Kind.MESSAGE, session_id="filled"), is_unique=False)
        )
        with store.transaction() as transaction:
            transaction.sessions.append(filled, [MessageRecord(message.row, 1, Role.USER, 3)])

        assert store.integrity.emptied_sessions(reach=ADA, after=0, limit=9) == [empty]
        assert store.integrity.emptied_sessions(reach=None, after=0, limit=9) == [empty]
        assert store.integrity.emptied_sessions(reach=reach_of("bob"), after=0, limit=9) == []
        assert store.integrity.emptied_sessions(reach=ADA, after=empty.row, limit=9) == []

    def test_conflicts_that_lack_a_memory_are_told_and_removed(self, store: MetadataStore) -> None:
        """Also when the memory is another owner's; whole ones stay."""
        one, two, theirs = insert(
            store, factories.memory("1"), factories.memory("2"), factories.memory("3", user_id="bob")
        )
        whole, half, foreign = conflict(one, two), conflict(one, factories.memory("4")), conflict(one, theirs)
        with store.transaction() as transaction:
            transaction.add_conflicts([whole, half, foreign])

        assert store.integrity.dangling_conflicts(reach=ADA, after="", limit=9) == [half, foreign]
        assert store.integrity.dangling_conflicts(reach=None, after=half.id, limit=9) == [foreign]
        assert store.integrity.dangling_conflicts(reach=reach_of("bob"), after="", limit=9) == []
        with store.transaction() as transaction:
            assert transaction.discard_conflicts([whole, half, foreign]) == 2
        assert store.integrity.dangling_conflicts(reach=None, after="", limit=9) == []
        assert list(store.conflicts.get([whole.id, half.id], reach=ADA)) == [whole.id]
