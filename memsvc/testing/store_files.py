"""Records of files and their visibility."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.errors import BackendClosedError, ErasureRunningError
from memsvc.domain.file_text import FilePassage, FileText, TextReason, TextState
from memsvc.domain.files import File, FileCategory, FileFilter, fold_text, format_ref
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Memory, Status
from memsvc.domain.scope import Reach
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.ports.metadata import MetadataStore, Record, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, Clock, StoreSeams, insert, purge, reach_of
from memsvc.text.analysis import query_terms
from memsvc.text.file_refs import passage_weights

ANY = FileFilter()
BOB = reach_of("bob")


def kept(store: MetadataStore, *files: File) -> list[File]:
    """Insert files in one transaction."""
    with store.transaction() as transaction:
        return [transaction.files.insert(file) for file in files]


def listed(store: MetadataStore, where: FileFilter = ANY, reach: Reach = ADA, **paging: Any) -> list[str]:
    """Return the names of a page of files."""
    wanted: dict[str, Any] = {"now": NOW, "before": None, "limit": 100} | paging
    return [file.name for file in store.files.page(reach=reach, where=where, **wanted)]


class StoreFilesContract(StoreSeams):
    """Contract of file records."""

    def test_a_file_comes_back_as_it_was_written(self, store: MetadataStore) -> None:
        """Every field, and its id alone distinguishes it from all others."""
        given = factories.file(
            b"\0", project_id="web", agent_id="a", session_id="s", category=FileCategory.CHART,
            name="../图表 🦭\\..\x01.png", media_type="image/png", metadata={"a": [1, 2.5, None], "b": {"c": True}},
            expire_time=NOW + timedelta(days=1), has_content=False, size_bytes=1 << 40,
        )  # fmt: skip
        file, _ = kept(store, given, factories.file())

        assert replace(given, row=file.row) == file
        assert {file.id: file} == store.files.get([file.id, "x"], reach=ADA, now=NOW)
        with store.transaction() as transaction:
            assert file == transaction.files.get(file.id, reach=ADA)
            assert {file.id: file} == transaction.files.get_many(OWNER, [file.id, "x"])

    def test_writing_files_is_part_of_the_transaction(self, store: MetadataStore) -> None:
        """A writer that is kept knows the files inserted since, and leaves nothing of a part that fails."""
        ref = FileRef(FileCategory.CHART.value, "f")
        with store.transaction() as transaction:
            files = transaction.files
            file = files.insert(factories.file())
            transaction.insert([Record(factories.memory(file_refs=(ref,)), is_unique=False)])
            assert files.referred_to(OWNER, [ref]) == {ref}
            with suppress(ZeroDivisionError), transaction.savepoint():
                files.delete([file])
                raise ZeroDivisionError

        assert [file.name] == listed(store)

    def test_files_stay_within_their_reach(self, store: MetadataStore) -> None:
        """Another owner or project is another place, whatever is asked for."""
        mine, other = kept(store, factories.file(project_id="web"), factories.file(user_id="bob", name="b"))
        foreign = [BOB, reach_of("ada-2"), reach_of(projects=("", "web-2")), reach_of(tenant_id="t")]
        for reach in foreign:
            assert mine.id not in store.files.get([mine.id, other.id], reach=reach, now=NOW)
            assert mine.name not in listed(store, reach=reach)
            with store.transaction() as transaction:
                assert transaction.files.get(mine.id, reach=reach) is None
        with store.transaction() as transaction:
            assert transaction.files.get_many(OWNER, [other.id]) == {}
            assert {other.id} == transaction.files.ids_of_others(OWNER, [mine.id, other.id, "x"])

        assert listed(store, reach=Reach(OWNER, ())) == []

    def test_an_id_is_taken_once(self, store: MetadataStore) -> None:
        """By whomever."""
        [mine] = kept(store, factories.file())

        with pytest.raises(UniquenessRaceError):
            kept(store, factories.file(user_id="bob", id=mine.id))
        assert store.files.of_owner(BOB.owner, after=0, limit=9) == []

    def test_files_are_listed_newest_first(self, store: MetadataStore) -> None:
        """Of all projects of the reach, page by page."""
        places = ["", "web", "web", "", "web-2"]
        files = kept(store, *(factories.file(name=str(n), project_id=place) for n, place in enumerate(places)))
        web = reach_of(projects=("web", ""))

        assert listed(store, reach=web) == ["3", "2", "1", "0"]
        assert listed(store, reach=web, limit=2) == ["3", "2"]
        assert listed(store, reach=web, before=files[2].row, limit=2) == ["1", "0"]
        assert listed(store, reach=web, limit=0) == []
        assert listed(store, reach=reach_of(projects=("web",))) == ["2", "1"]

    def test_files_are_found_by_what_is_known_of_them(self, store: MetadataStore) -> None:
        """Category, words of the name and the metadata, media type, hash; all that is said must hold."""
        kept(
            store,
            factories.file(b"1", name="Q1 Sales.XLSX", category=FileCategory.ARTIFACT, media_type="application/x"),
            factories.file(b"2", name="GMV 趋势图.png", category=FileCategory.CHART, media_type="image/png"),
            factories.file(b"3", name="周报.pdf", category=FileCategory.REPORT, metadata={"标题": ["上周的 GMV"]}),
            factories.file(b"4", name="100%_a.jpg", category=FileCategory.CHART, media_type="image/jpeg"),
        )

        def found(*words: str, **fields: Any) -> list[str]:
            return listed(store, FileFilter(words=tuple(fold_text(word) for word in words), **fields))

        assert found("sales") == ["Q1 Sales.XLSX"]
        assert found("ｓａｌｅｓ", "q1") == ["Q1 Sales.XLSX"]
        assert found("gmv") == ["周报.pdf", "GMV 趋势图.png"]
        assert found("gmv", "趋势") == ["GMV 趋势图.png"]
        assert found("%") == ["100%_a.jpg"]
        assert found("l_s") == found("标题") == found("gmv", "sales") == []
        assert found(media_type="image/*") == ["100%_a.jpg", "GMV 趋势图.png"]
        assert found(media_type="image/png") == ["GMV 趋势图.png"]
        assert found(media_type="image") == []
        both = frozenset({FileCategory.REPORT, FileCategory.CHART})
        assert found(categories=both) == ["100%_a.jpg", "周报.pdf", "GMV 趋势图.png"]
        assert found(categories=both, media_type="image/*", sha256=factories.file(b"2").sha256) == ["GMV 趋势图.png"]

    def test_an_expired_file_is_as_if_it_were_not_there(self, store: MetadataStore) -> None:
        """From its time on, for readers; who tidies up finds it."""
        hour = timedelta(hours=1)
        late, soon, _ = kept(
            store,
            factories.file(name="late", expire_time=NOW + hour),
            factories.file(name="soon", expire_time=NOW, category=FileCategory.TEMP),
            factories.file(name="never"),
        )

        assert listed(store) == ["never", "late"]
        assert listed(store, now=NOW + hour) == ["never"]
        assert store.files.get([soon.id], reach=ADA, now=NOW) == {}
        assert [soon] == store.files.expired_files(now=NOW, limit=9)
        assert [soon, late] == store.files.expired_files(now=NOW + hour, limit=9)
        assert [soon] == store.files.expired_files(now=NOW + hour, limit=1)
        with store.transaction() as transaction:
            assert soon == transaction.files.get(soon.id, reach=ADA)

    def test_a_blob_is_in_use_as_long_as_one_file_has_it(self, store: MetadataStore) -> None:
        """Of all owners; a record without content uses nothing until the content comes."""
        mine, other, lacking = kept(
            store,
            factories.file(b"x"),
            factories.file(b"x", user_id="bob", expire_time=NOW),
            factories.file(b"y", user_id="bob", has_content=False),
        )
        digests = [mine.sha256, lacking.sha256, "0"]
        assert {mine.sha256} == store.files.digests_in_use(digests)
        assert {mine.sha256} == store.files.digests_in_use(digests, apart_from=OWNER)
        with store.transaction() as transaction:
            assert transaction.files.delete([other]) == 1
        assert {mine.sha256} == store.files.digests_in_use(digests)
        assert set() == store.files.digests_in_use(digests, apart_from=OWNER)
        with store.transaction() as transaction:
            assert transaction.files.fill(OWNER, lacking.sha256) == 0
            assert transaction.files.fill(BOB.owner, lacking.sha256) == 1
            assert transaction.files.fill(BOB.owner, lacking.sha256) == 0
            assert transaction.files.digests_of_owner(BOB.owner, digests) == {lacking.sha256}
            assert transaction.files.delete([mine, mine]) == 1
            assert transaction.files.digests_of_owner(OWNER, digests) == set()

        assert {lacking.sha256} == store.files.digests_in_use(digests)
        assert store.files.get([lacking.id], reach=BOB, now=NOW)[lacking.id].has_content

    def test_all_files_can_be_walked_through(self, store: MetadataStore) -> None:
        """A few at a time, of one owner or of all."""
        one, two, three = kept(store, factories.file(expire_time=NOW), factories.file(user_id="bob"), factories.file())

        assert [one, two] == store.files.every(after=0, limit=2)
        assert [three] == store.files.every(after=two.row, limit=2)
        assert [one, three] == store.files.of_owner(OWNER, after=0, limit=9)
        assert [one] == store.files.of_owner(OWNER, after=0, limit=1)
        assert [three] == store.files.of_owner(OWNER, after=one.row, limit=9)

    def test_files_of_an_erased_user_are_gone(self, store: MetadataStore) -> None:
        """None can be stored while the erasure runs, and those of others stay."""
        kept(store, factories.file(project_id="p"), factories.file(), factories.file(user_id="bob", name="b"))
        assert store.erasures.traces(OWNER)["files"] == 2
        assert store.erasures.projects(OWNER) == ["", "p"]
        with store.transaction() as transaction:
            transaction.begin_erasure(Erasure(owner_digest(OWNER), OWNER, "r", NOW))
            assert transaction.erase_rest(OWNER, limit=9)["files"] == 2
        with pytest.raises(ErasureRunningError):
            kept(store, factories.file())

        assert store.files.of_owner(OWNER, after=0, limit=9) == []
        assert listed(store, reach=BOB) == ["b"]

    def test_files_outlive_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """File records survive a restart of the store."""
        [file] = kept(store, factories.file())

        assert {file.id: file} == reopen().files.get([file.id], reach=ADA, now=NOW)

    def test_files_of_a_closed_store(self, store: MetadataStore, close: Callable[[], None]) -> None:
        """Reading them is a fault of the program."""
        close()

        with pytest.raises(BackendClosedError):
            listed(store)


# Files are found by words, and by the memories that refer to them.


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
    """Contract of file search."""

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

    def test_references_of_summaries_count(self, store: MetadataStore) -> None:
        """Those in code spans and links, as in contents, until the summary changes or the memory is removed."""
        spans = [f"`{format_ref(ref)}`" for ref in (A, B, C)]
        first, second = insert(
            store,
            factories.memory("1", summary=f"It is in {spans[0]}.", file_refs=(A, B)),
            factories.memory("2", summary=f"It is in {spans[1]} and [there]({format_ref(C)})."),
        )
        assert store.files.referred_to(OWNER, [A, B, C]) == {A, B, C}
        second = change(store, second, summary=f"It is in {spans[0]}.")
        assert store.files.referred_to(OWNER, [A, B, C]) == {A, B}
        purge(store, first)
        assert store.files.referred_to(OWNER, [A, B, C]) == {A}
        assert store.integrity.stored_rows([second])[second.row].has_terms
        purge(store, second)
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

        assert store.files.existing_refs(OWNER, [*refs, FileRef("report", mine.id), A], now=NOW) == {refs[0]}
        assert store.files.existing_refs(OWNER, [], now=NOW) == set()


# Texts of files: the queue of extractions, passages and their words.


HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def claimed(store: MetadataStore, now: datetime = NOW, *, limit: int = 10) -> list[File]:
    """Claim texts for an hour."""
    with store.transaction() as transaction:
        return transaction.files.claim_texts(now=now, term=HOUR, limit=limit)


def index_text(store: MetadataStore, claim: File, *texts: str) -> bool:
    """Store texts as the passages of a claimed file, as the engine does; return whether the claim was valid."""
    passages = [FilePassage(at, text, at + 1, at + 1, at, "s") for at, text in enumerate(texts)]
    words: dict[str, list[tuple[int, float]]] = {}
    for passage in passages:
        for term, weight in passage_weights(passage).items():
            words.setdefault(term, []).append((passage.ordinal, weight))
    size = sum(map(len, texts))
    text = FileText(TextState.INDEXED, chars=size, size_bytes=size, passages=len(texts), attempts=claim.text.attempts)
    with store.transaction() as transaction:
        files = transaction.files
        return (
            files.store_text(claim, passages, {})
            and files.store_text(claim, (), words)
            and files.finish_text(claim, text)
        )


def passages_found(store: MetadataStore, query: str, reach: Reach = ADA, **options: Any) -> list[tuple[str, int]]:
    """Return the names and ordinals of passages."""
    asked: dict[str, Any] = {
        "categories": frozenset(FileCategory), "now": NOW, "limit": 10, "limit_per_file": 10
    } | options  # fmt: skip
    found = store.files.search_passages(query_terms(query), reach=reach, **asked)
    assert all(0 < one.score <= 1 for one in found)
    return [(one.file.name, one.passage.ordinal) for one in found]


class StoreFileTextsContract(StoreSeams):
    """Contract of the texts of files."""

    def test_texts_are_claimed_once_until_their_claim_ends(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """Oldest first; those without content, and those that have no text, are not."""
        unsupported = FileText(TextState.UNSUPPORTED, TextReason.UNSUPPORTED_TYPE)
        first, second, *_ = kept(
            store, factories.file(name="a"), factories.file(name="b"), factories.file(has_content=False),
            factories.file(text=unsupported),
        )  # fmt: skip
        assert store.files.pending_texts() == 2

        assert [(file.id, file.text.attempts) for file in claimed(store, limit=1)] == [(first.id, 1)]
        assert [file.id for file in claimed(store)] == [second.id]
        let_pass(HOUR - MINUTE)
        assert claimed(store, clock()) == []
        let_pass(MINUTE)
        again = [(file.id, file.text.attempts) for file in claimed(store, clock())]
        assert again == [(first.id, 2), (second.id, 2)]
        with store.transaction() as transaction:
            transaction.files.release_claims(now=clock())
        assert [file.text.attempts for file in claimed(store, clock())] == [3, 3]

    def test_a_text_that_stays_pending_is_due_after_its_pause(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """Not before, and with the attempts that were noted."""
        kept(store, factories.file())
        [claim] = claimed(store)
        with store.transaction() as transaction:
            assert transaction.files.finish_text(claim, FileText(attempts=1), pause=2 * MINUTE)
        let_pass(MINUTE)
        assert claimed(store, clock()) == []
        let_pass(MINUTE)
        assert [file.text.attempts for file in claimed(store, clock())] == [2]

    def test_a_text_is_found_by_its_words(self, store: MetadataStore) -> None:
        """Once it is indexed, the passages that cover most of the query first, in two languages."""
        file, _ = kept(store, factories.file(name="zoo"), factories.file(name="other"))
        claim, other = claimed(store)
        assert index_text(store, claim, "The walrus pool leaks.", "The walrus sleeps.", "海象池每周五漏水。")
        assert index_text(store, other, "The otter sleeps.")

        assert passages_found(store, "walrus leaking pools") == [("zoo", 0), ("zoo", 1)]
        assert passages_found(store, "sleeping") == [("other", 0), ("zoo", 1)]
        assert passages_found(store, "海象 漏水") == [("zoo", 2)]
        assert passages_found(store, "walrus sleeps", limit=1) == [("zoo", 1)]
        assert passages_found(store, "walrus", limit_per_file=1) == [("zoo", 0)]
        assert passages_found(store, "giraffe") == passages_found(store, "walrus", categories=frozenset()) == []
        assert passages_found(store, "walrus", categories={FileCategory.REPORT}) == []
        assert store.files.pending_texts() == 0
        [known] = store.files.get([file.id], reach=ADA, now=NOW).values()
        assert (known.text.state, known.text.passages, known.text.attempts) == (TextState.INDEXED, 3, 1)
        assert [one.text for one in store.files.passages(known, after=0)] == [
            "The walrus sleeps.",
            "海象池每周五漏水。",
        ]
        assert store.files.passages(known)[0] == FilePassage(0, "The walrus pool leaks.", 1, 1, 0, "s")

    def test_texts_stay_within_their_reach(self, store: MetadataStore) -> None:
        """Neither found nor counted from another owner, project or tenant."""
        kept(
            store, factories.file(name="web", project_id="web"), factories.file(name="bob", user_id="bob"),
            factories.file(name="all"),
        )  # fmt: skip
        for claim in claimed(store):
            assert index_text(store, claim, "The walrus sleeps.")
        assert passages_found(store, "walrus", reach_of(projects=("web",))) == [("web", 0)]
        assert passages_found(store, "walrus", reach_of(projects=("", "web"))) == [("all", 0), ("web", 0)]
        assert passages_found(store, "walrus", BOB) == [("bob", 0)]
        for reach in (reach_of("ada-2"), reach_of(projects=("web-2",)), reach_of(tenant_id="t"), reach_of(projects=())):
            assert passages_found(store, "walrus", reach) == []

    def test_the_text_goes_with_its_file(self, store: MetadataStore) -> None:
        """And while the file is expired, it is not found."""
        file, _ = kept(store, factories.file(expire_time=NOW + HOUR), factories.file())
        for claim in claimed(store):
            assert index_text(store, claim, "The walrus sleeps.")
        assert len(passages_found(store, "walrus")) == 2
        assert len(passages_found(store, "walrus", now=NOW + HOUR)) == 1
        with store.transaction() as transaction:
            transaction.files.delete([file])
        assert len(passages_found(store, "walrus")) == 1
        assert store.files.stray_texts(owner=None, after=-1, limit=10) == []
        assert store.files.passages(file) == []

    def test_an_outdated_claim_changes_nothing(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """Of a file that was claimed again, or that has its text; and a failed text leaves no passages."""
        kept(store, factories.file(name="a"))
        [first] = claimed(store)
        with store.transaction() as transaction:
            assert transaction.files.store_text(first, [FilePassage(0, "walrus", 1, 1)], {"walrus": [(0, 1.0)]})
        let_pass(HOUR)
        [second] = claimed(store, clock())
        assert store.files.passages(second) == []
        assert not index_text(store, first, "otter")
        assert index_text(store, second, "walrus")
        assert not index_text(store, second, "otter")
        assert passages_found(store, "otter walrus") == [("a", 0)]
        kept(store, factories.file(name="b"))
        [third] = claimed(store, clock())
        failed = FileText(TextState.FAILED, TextReason.MALFORMED, attempts=1)
        with store.transaction() as transaction:
            transaction.files.store_text(third, [FilePassage(0, "heron", 1, 1)], {"heron": [(0, 1.0)]})
            assert transaction.files.finish_text(third, failed)
        assert passages_found(store, "heron") == []
        assert store.files.get([third.id], reach=ADA, now=NOW)[third.id].text == failed

    def test_texts_wait_for_their_content_and_for_a_restart(self, store: MetadataStore) -> None:
        """A file that gets its content is due, and one whose reason a restart removes."""
        missing = FileText(TextState.UNSUPPORTED, TextReason.LIBRARY_MISSING)
        file, lacking = kept(store, factories.file(b"1", has_content=False), factories.file(text=missing))
        assert claimed(store) == []
        with store.transaction() as transaction:
            assert transaction.files.fill(OWNER, file.sha256) == 1
            assert transaction.files.retry_texts({TextReason.DISABLED}, now=NOW) == 0
        assert [one.id for one in claimed(store)] == [file.id]
        with store.transaction() as transaction:
            assert transaction.files.retry_texts({TextReason.LIBRARY_MISSING}, now=NOW) == 1
        assert [one.id for one in claimed(store)] == [lacking.id]

    def test_texts_of_an_erased_user_are_gone(self, store: MetadataStore) -> None:
        """Every passage and word, and a claim from before writes nothing more."""
        kept(store, factories.file(), factories.file(name="later"), factories.file(user_id="bob", name="bob"))
        first, second, third = claimed(store)
        assert index_text(store, first, "The walrus sleeps.")
        assert index_text(store, third, "The walrus sleeps.")
        assert store.files.passages_of_owner(OWNER, limit=5) == ["The walrus sleeps."]
        with store.transaction() as transaction:
            transaction.begin_erasure(Erasure(owner_digest(OWNER), OWNER, "", NOW + HOUR))
        with pytest.raises(ErasureRunningError):
            index_text(store, second, "The walrus wakes.")
        with store.transaction() as transaction:
            while transaction.erase_rest(OWNER, limit=2):
                pass
        traces = store.erasures.traces(OWNER)
        assert traces["file_passages"] == traces["file_words"] == traces["files"] == 0
        assert passages_found(store, "walrus") == []
        assert passages_found(store, "walrus", BOB) == [("bob", 0)]
