"""Memories are written, changed and removed: the store gives back what it was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from memsvc.domain.index_entries import ChangeAction, Chunk
from memsvc.domain.memory import (
    FileRef,
    Keyword,
    Kind,
    Layer,
    Memory,
    Origin,
    Recurrence,
    Reminder,
    Review,
    Slot,
    Status,
    Tier,
)
from memsvc.domain.search import Candidate
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, StoreSeams, insert, purge, reach_of, revise
from memsvc.text.ranking_cues import pack_cues

ODD = 'it\'s "odd" \\ % _ \t\n你好，世界 🙂👩‍👩‍👧 \u202eltr ｆｕｌｌ'
CHUNKS = (Chunk(0, "# 标题\nfirst", ("标题",), 1, 2), Chunk(1, "second", ("标题", 'a "b"'), 2, 3))


def full_memory() -> Memory:
    """Return a memory that has something unusual in every field."""
    return factories.memory(
        ODD,
        tenant_id="租户",
        user_id="ada@example.org",
        project_id="web",
        agent_id="coder",
        session_id="s-1",
        create_time=NOW + timedelta(microseconds=1),
        update_time=NOW.astimezone(timezone(timedelta(hours=8))) + timedelta(days=400),
        previous_row=7,
        key="daily/2026-02-06",
        layer=Layer.SHORT_TERM,
        kind=Kind.EXPERIENCE,
        category="工作",
        speaker="Anna",
        title=f"t {ODD}",
        summary=f"s {ODD}",
        tags=("b", "a", "标签", "it's"),
        keywords=(Keyword("世界", 0.3), Keyword("odd", 1.0), Keyword("a", 0.1 + 0.2)),
        related_ids=("01890000-0000-7000-8000-00000000000a", "x"),
        file_refs=(FileRef("report", "r1"), FileRef("图", "🙂")),
        importance=5,
        tier=Tier.ACTIVE,
        confidence=0.1 + 0.2,
        status=Status.CONFLICTED,
        access_count=2**40,
        access_time=NOW - timedelta(days=20000),
        event_time=NOW - timedelta(microseconds=1),
        expire_time=NOW + timedelta(days=100_000),
        valid_from=NOW - timedelta(days=10_000),
        valid_to=NOW + timedelta(days=1_000, microseconds=3),
        work_in_progress=True,
        source="chat",
        metadata={"a": {"b": [1, 2.5, "x", None, True, {"c": []}]}, "e": {}, ODD: ODD, "": -(2**50)},
        supersedes_id="old",
        superseded_by_id="new",
        revision=3,
        origin=Origin.DOCUMENT,
        trust=0.123457,
        derived_from_ids=("01890000-0000-7000-8000-00000000000b", "源"),
        review=Review.APPROVED,
        reminder=Reminder(2, 29, 1988, Recurrence.YEARLY, 0, "亚洲/上海", Slot.AFTERNOON, f"p {ODD}"),
    )


class StoreWritesContract(StoreSeams):
    """Insert, update and purge."""

    def test_every_field_comes_back(self, store: MetadataStore) -> None:
        """A memory is read as it was written, in every field."""
        memory = full_memory()
        [written] = insert(store, memory)
        reach = reach_of("ada@example.org", tenant_id="租户")

        assert written == replace(memory, row=written.row)
        assert store.memories.get([memory.id], reach=reach) == {memory.id: written}
        assert store.memories.by_rows([written.row], reach=reach) == {written.row: written}
        assert store.memories.get_by_key(memory.key, reach=reach) == written

    def test_plain_memory_comes_back(self, store: MetadataStore) -> None:
        """Empty and absent fields stay empty and absent."""
        [written] = insert(store, factories.memory(""))

        assert store.memories.get([written.id], reach=ADA) == {written.id: written}

    def test_candidate_has_the_fields_that_ranking_needs(self, store: MetadataStore) -> None:
        """A candidate says of a memory what the memory says."""
        [written] = insert(store, Record(full_memory(), chunks=CHUNKS))
        reach = reach_of("ada@example.org", tenant_id="租户")

        assert [*store.memories.candidates([written.row, 99, written.row], reach=reach)] == [
            Candidate(
                row=written.row,
                memory_id=written.id,
                previous_row=7,
                session_id="s-1",
                speaker="Anna",
                layer="SHORT_TERM",
                status="CONFLICTED",
                importance=5,
                access_count=2**40,
                create_time=1770370200000001,
                event_time=1770370199999999,
                cues=pack_cues(ODD),
            )
        ]

    def test_cues_are_those_of_the_content(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """Of each revision, also when nothing but the title is changed, and when the store is opened again."""
        told, kept = insert(store, factories.memory("I like tea."), factories.memory("我喜欢喝茶。"))
        told = revise(store, told, content="Yesterday my sister was in Rome.")
        kept = revise(store, kept, title="T")
        expected = [pack_cues(one.content) for one in (told, kept)]

        def found(store: MetadataStore) -> list[int]:
            candidates = store.memories.candidates([told.row, kept.row], reach=ADA)
            return [candidate.cues for candidate in sorted(candidates)]

        assert found(store) == expected
        assert found(reopen()) == expected

    def test_large_content_comes_back(self, store: MetadataStore) -> None:
        """A content of a megabyte is kept whole."""
        [written] = insert(store, factories.memory("长文🙂\n" * 70_000))

        assert store.memories.get([written.id], reach=ADA)[written.id].content == "长文🙂\n" * 70_000

    def test_rows_ascend_in_the_order_given(self, store: MetadataStore) -> None:
        """Rows grow with every memory, within a call and from call to call."""
        first = insert(store, *(factories.memory(f"a{number}") for number in range(20)))
        second = insert(store, factories.memory("b"))
        rows = [memory.row for memory in first + second]

        assert rows == sorted(set(rows))
        assert rows[0] > 0
        assert [memory.content for memory in first] == [f"a{number}" for number in range(20)]

    def test_lines_of_a_session_are_tied_in_one_call(self, store: MetadataStore) -> None:
        """A memory after another of its session gets that one's row; the first of a session keeps what it came with."""
        session, other = {"session_id": "s"}, {"session_id": "s", "project_id": "web"}
        one, two, three, four, five, six = insert(
            store,
            factories.memory("1", previous_row=77, **session),
            factories.memory("2", **other),
            factories.memory("3", previous_row=78),
            factories.memory("4", previous_row=79, **session),
            factories.memory("5"),
            factories.memory("6", user_id="bob", **session),
        )

        found = store.memories.by_rows([m.row for m in (one, two, three, four, five)], reach=ADA)
        assert [found[m.row].previous_row for m in (one, two, three, four, five)] == [77, None, 78, one.row, None]
        assert (one.previous_row, four.previous_row, six.previous_row) == (77, one.row, None)

    def test_rows_are_never_used_again(self, store: MetadataStore) -> None:
        """The row of a purged memory is not given to another, not even when it was the last."""
        [gone] = insert(store, factories.memory())
        purge(store, gone)
        [other] = insert(store, factories.memory())

        assert other.row > gone.row

    def test_inserting_nothing_is_no_change(self, store: MetadataStore) -> None:
        """No records: no memories, and no change in the outbox."""
        with store.transaction() as transaction:
            assert transaction.insert([]) == []
            assert transaction.position == 0

        assert store.feed.head_position() == 0

    def test_update_replaces_every_field(self, store: MetadataStore) -> None:
        """After an update the memory is the new revision; tags, metadata and keywords too."""
        [before] = insert(store, factories.memory(tags=("old",), keywords=(Keyword("old", 0.5),), metadata={"o": 1}))
        full = full_memory()
        after = revise(
            store,
            before,
            **{
                name: getattr(full, name) for name in Memory.__slots__ if name not in {"id", "row", "revision", "scope"}
            },
        )

        assert store.memories.get([before.id], reach=ADA) == {before.id: after}

    def test_earlier_revisions_stay_readable(self, store: MetadataStore) -> None:
        """Every revision is read as it was, the current one too; others are None."""
        one = insert(store, replace(full_memory(), scope=factories.memory().scope, revision=1))[0]
        two = revise(store, one, title="second", tags=("x",))
        three = revise(store, two, ChangeAction.DELETED, status=Status.DELETED)

        found = [store.memories.revision(one.id, number, reach=ADA) for number in (0, 1, 2, 3, 4, -1, 2**70)]

        assert found == [None, one, two, three, None, None, None]
        assert store.memories.revision("nobody", 1, reach=ADA) is None

    def test_forgotten_revisions_are_gone(self, store: MetadataStore) -> None:
        """Those before the current one, of that memory alone; later ones are kept again."""
        one, other = insert(store, factories.memory("first"), factories.memory("other"))
        two, other_two = revise(store, one, title="second"), revise(store, other, title="O")
        with store.transaction() as transaction:
            transaction.forget_revisions(two)
        three = revise(store, two, title="third")

        found = [store.memories.revision(one.id, number, reach=ADA) for number in (1, 2, 3)]
        assert found == [None, two, three]
        assert [store.memories.revision(other.id, number, reach=ADA) for number in (1, 2)] == [other, other_two]

    def test_update_of_status_keeps_chunks_and_vector(self, store: MetadataStore) -> None:
        """While the content stays, chunks and a given vector stay when none are given."""
        record = Record(factories.memory("long"), chunks=CHUNKS, given_vector=b"\x00\x01", given_model="m")
        [before] = insert(store, record)
        after = revise(store, before, importance=5)

        [document] = store.feed.documents([before.row])
        assert (document.memory, document.chunks) == (after, CHUNKS)
        assert (document.given_vector, document.given_model) == (b"\x00\x01", "m")

    def test_update_of_content_replaces_chunks_and_vector(self, store: MetadataStore) -> None:
        """With new content, the old chunks and the old vector go."""
        record = Record(factories.memory("long"), chunks=CHUNKS, given_vector=b"\x00\x01", given_model="m")
        [before] = insert(store, record)
        after = revise(store, before, content="short\nnew", content_hash="another")

        [document] = store.feed.documents([before.row])
        assert document.chunks == (Chunk(0, "short\nnew", (), 1, 2),)
        assert (document.memory, document.given_vector, document.given_model) == (after, b"", "")
        assert store.memories.chunks([(before.row, 0), (before.row, 1)]) == {}

    def test_update_can_bring_chunks_and_vector(self, store: MetadataStore) -> None:
        """Chunks and a vector that an update brings replace those there."""
        [before] = insert(store, Record(factories.memory("long"), chunks=CHUNKS, given_vector=b"1", given_model="m"))
        after = replace(before, revision=2)
        chunks = (CHUNKS[0], replace(CHUNKS[1], text="third"), Chunk(2, "fourth", (), 9, 9))
        with store.transaction() as transaction:
            record = Record(after, chunks=chunks, given_vector=b"2", given_model="n")
            transaction.update(before, record, ChangeAction.UPDATED)

        [document] = store.feed.documents([before.row])
        assert (document.given_vector, document.given_model) == (b"2", "n")
        assert document.chunks == chunks
        assert store.feed.expected_entries(after_row=0, limit=1)[0].chunk_count == 3

    def test_deleted_memory_is_found_by_id_alone(self, store: MetadataStore) -> None:
        """A memory with the status DELETED is still there by id and row, but not by key or keyword."""
        [before] = insert(store, factories.memory(key="k", keywords=(Keyword("word", 1.0),)))
        gone = revise(store, before, ChangeAction.DELETED, status=Status.DELETED)

        assert store.memories.get([gone.id], reach=ADA) == {gone.id: gone}
        assert store.memories.by_rows([gone.row], reach=ADA) == {gone.row: gone}
        assert store.memories.get_by_key("k", reach=ADA) is None
        assert store.memories.keyword_hits(["word"], reach=ADA, where=None, limit=9) == []

    def test_restored_memory_is_found_again(self, store: MetadataStore) -> None:
        """A memory that is deleted no longer has its key and its keywords back."""
        [before] = insert(store, factories.memory(key="k", keywords=(Keyword("word", 1.0),)))
        gone = revise(store, before, ChangeAction.DELETED, status=Status.DELETED)
        back = revise(store, gone, ChangeAction.RESTORED, status=Status.ACTIVE)

        assert store.memories.get_by_key("k", reach=ADA) == back
        assert len(store.memories.keyword_hits(["word"], reach=ADA, where=None, limit=9)) == 1

    def test_purge_removes_everything(self, store: MetadataStore) -> None:
        """Nothing of a purged memory can be read; only the outbox still names it."""
        record = Record(factories.memory(key="k", tags=("t",), keywords=(Keyword("word", 1.0),)), chunks=CHUNKS)
        [first] = insert(store, record)
        second = revise(store, first, title="T")
        purge(store, second)

        assert store.memories.get([first.id], reach=ADA) == {}
        assert store.memories.revision(first.id, 1, reach=ADA) is None
        assert store.memories.chunks([(first.row, 0)]) == {}
        assert store.feed.documents([first.row]) == []
        assert store.memories.counts(reach=ADA).by_status == {}
        assert store.memories.keyword_hits(["word"], reach=ADA, where=None, limit=9) == []
        assert [(c.action, c.row, c.memory_id) for c in store.feed.changes_after(2, limit=9)] == [
            (ChangeAction.PURGED, first.row, first.id)
        ]

    def test_purge_of_what_is_gone_is_a_no_op(self, store: MetadataStore) -> None:
        """Purging a second time changes nothing and is no change."""
        [memory] = insert(store, factories.memory())
        purge(store, memory, memory)
        purge(store, memory)

        assert store.feed.head_position() == 2

    def test_key_of_a_purged_memory_is_free(self, store: MetadataStore) -> None:
        """Key and content of a purged memory can be used by another."""
        [memory] = insert(store, factories.memory(key="k"))
        purge(store, memory)
        [other] = insert(store, factories.memory(key="k"))

        assert store.memories.get_by_key("k", reach=ADA) == other

    def test_accesses_add_up(self, store: MetadataStore) -> None:
        """Access counts are raised and access times set, without a new revision or change; gone ids are passed over."""
        one, two = insert(store, factories.memory("1", access_count=3), factories.memory("2"))
        for moment in (NOW, NOW + timedelta(seconds=1)):
            with store.transaction() as transaction:
                transaction.add_accesses({one.id: (2, moment), "gone": (1, NOW)})
                transaction.add_accesses({})

        found = store.memories.get([one.id, two.id], reach=ADA)
        assert found[one.id] == replace(one, access_count=7, access_time=NOW + timedelta(seconds=1))
        assert found[two.id] == two
        assert store.feed.head_position() == 2

    def test_update_leaves_accesses_made_meanwhile(self, store: MetadataStore) -> None:
        """An update of other fields keeps accesses that were counted after the memory was read."""
        [before] = insert(store, factories.memory())
        with store.transaction() as transaction:
            transaction.add_accesses({before.id: (2, NOW)})
        revise(store, before, title="T")

        found = store.memories.get([before.id], reach=ADA)[before.id]
        assert (found.title, found.access_count, found.access_time) == ("T", 2, NOW)

    @pytest.mark.parametrize("count", [2, 40])
    def test_chunks_are_read_by_row_and_ordinal(self, store: MetadataStore, count: int) -> None:
        """Each chunk comes back whole under its row and ordinal; those of memories of one chunk are left out."""
        chunks = tuple(Chunk(n, f"{ODD} {n}", (ODD,) * (n % 3), n + 1, n + 2) for n in range(count))
        long, short = insert(store, Record(factories.memory("long"), chunks=chunks), Record(factories.memory("short")))
        wanted = [(long.row, count - 1), (long.row, 0), (long.row, 0), (long.row, count), (short.row, 0), (99, 0)]

        assert store.memories.chunks(wanted) == {(long.row, 0): chunks[0], (long.row, count - 1): chunks[-1]}
        assert store.memories.chunks([]) == {}
