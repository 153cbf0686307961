"""Files are found by words, and by the memories that refer to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from memsvc.domain.files import File, FileCategory
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Memory, Status
from memsvc.domain.scope import Reach
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, reach_of
from memsvc.text.analysis import query_terms

ALL = frozenset(FileCategory)
A, B, C = (FileRef("chart", "a"), FileRef("chart", "b"), FileRef("report", "a"))


def keep(store: MetadataStore, *files: File) -> list[File]:
    """Insert files in one transaction."""
    with store.transaction() as transaction:
        return [transaction.files.insert(file) for file in files]


def found(
    store: MetadataStore, query: str, *, reach: Reach = ADA, categories: Iterable[FileCategory] = ALL, limit: int = 9
) -> list[str]:
    """Return the names of what a search finds."""
    hits = store.files.search(query_terms(query), reach=reach, categories=frozenset(categories), now=NOW, limit=limit)
    assert all(0 < hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return [hit.file.name for hit in hits]


def change(store: MetadataStore, before: Memory, **fields: object) -> Memory:
    """Write the next revision of a memory."""
    after = replace(before, revision=before.revision + 1, **fields)  # type: ignore[arg-type]  # fields of the memory
    with store.transaction() as transaction:
        transaction.update(before, Record(after), ChangeAction.UPDATED)
    return after


class StoreFileFindingContract(StoreSeams):
    """What a store promises of finding files."""

    def test_files_are_found_by_words(self, store: MetadataStore) -> None:
        """Of the name first, then of the category and the metadata, in Chinese and in English."""
        keep(
            store,
            factories.file(b"1", name="销售数据_2024-q1.xlsx", category=FileCategory.UPLOAD),
            factories.file(b"2", name="GMV 趋势图.png", category=FileCategory.CHART, media_type="image/png"),
            factories.file(b"3", name="weekly.pdf", category=FileCategory.REPORT, metadata={"标题": ["上周的销售"]}),
        )

        assert found(store, "销售数据") == ["销售数据_2024-q1.xlsx", "weekly.pdf"]
        assert found(store, "sales charts") == found(store, "图表") == ["GMV 趋势图.png"]
        assert found(store, "weekly reports") == found(store, "上周 报告") == ["weekly.pdf"]
        assert found(store, "gmv") == found(store, "PNG") == ["GMV 趋势图.png"]
        assert found(store, "q1 XLSX") == ["销售数据_2024-q1.xlsx"]
        assert found(store, "nothing") == found(store, "") == found(store, "销售", limit=0) == []
        assert found(store, "销售", categories=[FileCategory.REPORT]) == ["weekly.pdf"]
        assert found(store, "销售", categories=[]) == []

    def test_equal_files_are_found_newest_first(self, store: MetadataStore) -> None:
        """And as many as are wanted."""
        keep(store, *(factories.file(name=f"report {number}", metadata={"n": str(number)}) for number in range(3)))

        assert found(store, "report") == ["report 2", "report 1", "report 0"]
        assert found(store, "report", limit=2) == ["report 2", "report 1"]

    def test_files_out_of_reach_are_not_found(self, store: MetadataStore) -> None:
        """Another owner's or project's, expired and removed ones."""
        gone, *_ = keep(
            store,
            factories.file(name="plan gone"),
            factories.file(name="plan", user_id="bob"),
            factories.file(name="plan web", project_id="web"),
            factories.file(name="plan over", expire_time=NOW - timedelta(seconds=1)),
            factories.file(name="plan here", expire_time=NOW + timedelta(seconds=1)),
        )
        with store.transaction() as transaction:
            assert transaction.files.delete([gone]) == 1

        assert found(store, "plan", reach=reach_of(projects=("",))) == ["plan here"]
        assert found(store, "plan", reach=reach_of(projects=("web", ""))) == ["plan here", "plan web"]
        assert found(store, "plan", reach=Reach(OWNER, ())) == []

    def test_what_memories_refer_to_is_known(self, store: MetadataStore) -> None:
        """By the whole reference, of any project and status, and never another owner's."""
        insert(
            store,
            factories.memory("1", project_id="web", file_refs=(A, A)),
            factories.memory("2", status=Status.DELETED, file_refs=(C,)),
            factories.memory("3", user_id="bob", file_refs=(B,)),
        )

        assert store.files.referred_to(OWNER, [A, B, C]) == {A, C}
        assert store.files.referred_to(OWNER, []) == set()
        with store.transaction() as transaction:
            assert transaction.files.referred_to(OWNER, [A, B, B]) == {A}

    def test_references_follow_the_memory(self, store: MetadataStore) -> None:
        """Through changes, and until it is removed for good."""
        [memory] = insert(store, factories.memory("1", file_refs=(A, B)))

        changed = change(store, memory, file_refs=(B, C))
        assert store.files.referred_to(OWNER, [A, B, C]) == {B, C}
        purge(store, changed)
        assert store.files.referred_to(OWNER, [A, B, C]) == set()

    def test_files_exist_for_their_owner(self, store: MetadataStore) -> None:
        """By category and id, in any project, until they expire; another owner's do not."""
        mine, over, theirs = keep(
            store,
            factories.file(project_id="web", category=FileCategory.CHART),
            factories.file(category=FileCategory.CHART, expire_time=NOW),
            factories.file(user_id="bob", category=FileCategory.CHART),
        )
        refs = [FileRef("chart", file.id) for file in (mine, over, theirs)]

        assert store.files.existing(OWNER, [*refs, FileRef("report", mine.id), A], now=NOW) == {refs[0]}
        assert store.files.existing(OWNER, [], now=NOW) == set()
