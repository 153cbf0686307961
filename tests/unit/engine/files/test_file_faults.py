"""What is wrong with files and references to them is found, and removed when that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.diagnostics import Fault, FileCleanup, Finding
from memsvc.domain.files import File, FileCategory
from memsvc.domain.memory import FileRef, Memory
from memsvc.domain.scope import Reach
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.admin.integrity import FileCheckComponents, FileChecker
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from tests.unit.engine.memories.write_path import ADA, DIMENSION, MODEL, Desk, open_desk

REACH = Reach.from_scope(ADA)
LOOK = FileCleanup()
REMOVE = FileCleanup(removes_broken_refs=True, removes_orphan_files=True)
GONE = FileRef("chart", "gone")


@dataclass
class Shelf:
    """A desk with files, and what looks at them."""

    desk: Desk
    faults: FileChecker
    lost: set[str] = field(default_factory=set)
    unused: list[str] = field(default_factory=list)

    def keep(self, content: bytes, **fields: Any) -> File:
        fields = {"project_id": "apollo", "create_time": NOW - timedelta(days=8)} | fields
        with self.desk.store.transaction() as transaction:
            return transaction.files.insert(factories.file(content, **fields))

    def memories(self, *memories: Memory, cleaning: FileCleanup = LOOK) -> list[Finding]:
        return self.faults.of_memories(memories, REACH, cleaning)

    def files(self, cleaning: FileCleanup = LOOK, reach: Reach | None = REACH) -> list[Finding]:
        return [one for page in self.faults.pages(reach, size=2) for one in self.faults.of_files(page, cleaning)]

    def names(self) -> set[str]:
        return {file.id for file in self.desk.store.files.every(after=0, limit=99)}


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with open_desk(tmp_path) as desk:
        memory_builder = MemoryBuilder(
            model=MODEL, dimension=DIMENSION, now=desk.clock, search_priority=SearchPriority()
        )
        record_builder = RecordBuilder(memory_builder, desk.store.feed)
        lost: set[str] = set()
        unused: list[str] = []
        parts = FileCheckComponents(
            desk.store.files,
            desk.writing.committer,
            record_builder,
            desk.clock,
            lambda one: one not in lost,
            unused.extend,
        )
        yield Shelf(desk, FileChecker(parts), lost, unused)


def ref(file: File) -> FileRef:
    return FileRef(file.category.value, file.id)


def told(findings: Sequence[Finding]) -> list[tuple[Fault, FileRef | None, bool]]:
    return [(one.fault, one.file_ref, one.is_repaired) for one in findings]


def test_references_to_files_that_are_not_there_are_told(shelf: Shelf) -> None:
    """Also those of another category, expired and another user's; a file of another project of the user is there."""
    good, elsewhere = shelf.keep(b"1"), shelf.keep(b"2", project_id="other")
    over, theirs = shelf.keep(b"3", expire_time=NOW), shelf.keep(b"4", user_id="bob")
    wrong = FileRef("report", good.id)
    refs = (ref(good), ref(elsewhere), ref(over), ref(theirs), wrong, GONE)
    memory = shelf.desk.create("x", file_refs=refs).memory

    found = shelf.memories(memory, shelf.desk.create("without").memory)

    assert told(found) == [(Fault.FILE_REF, one, False) for one in (ref(over), ref(theirs), wrong, GONE)]
    assert {one.memory_id for one in found} == {memory.id}
    assert shelf.desk.stored(memory.id) == memory


def test_broken_references_are_taken_from_memories_on_request(shelf: Shelf) -> None:
    """In a new revision; those in the content stay, and are told again."""
    good = shelf.keep(b"1")
    memory = shelf.desk.create("See `chart:said`.", file_refs=(GONE, ref(good))).memory

    found = shelf.memories(memory, cleaning=REMOVE)

    assert told(found) == [(Fault.FILE_REF, GONE, True), (Fault.FILE_REF, FileRef("chart", "said"), False)]
    after = shelf.desk.stored(memory.id)
    assert after is not None
    assert (after.file_refs, after.revision) == ((ref(good), FileRef("chart", "said")), 2)
    assert told(shelf.memories(after, cleaning=REMOVE)) == [(Fault.FILE_REF, FileRef("chart", "said"), False)]


def test_a_memory_changed_meanwhile_is_left_alone(shelf: Shelf) -> None:
    """It is told, and looked at the next time."""
    memory = shelf.desk.create("x", key="k", file_refs=(GONE,)).memory
    shelf.desk.create("x", key="k", title="changed")

    assert told(shelf.memories(memory, cleaning=REMOVE)) == [(Fault.FILE_REF, GONE, False)]
    after = shelf.desk.stored(memory.id)
    assert after is not None
    assert after.file_refs == (GONE,)


def test_files_that_nothing_refers_to_are_told(shelf: Shelf) -> None:
    """Once they are older than the grace time; those of others are not looked at unless all are."""
    used = shelf.keep(b"1", category=FileCategory.CHART)
    orphan, other = shelf.keep(b"2"), shelf.keep(b"3", user_id="bob")
    shelf.keep(b"4", create_time=NOW - timedelta(days=6))
    shelf.keep(b"5", expire_time=NOW)
    shelf.keep(b"6", project_id="other")
    shelf.desk.create("x", file_refs=(ref(used),))

    assert told(shelf.files()) == [(Fault.FILE_ORPHANED, ref(orphan), False)]
    everybody = told(shelf.files(reach=None))
    assert {(Fault.FILE_ORPHANED, ref(one), False) for one in (orphan, other)} < set(everybody)
    assert len(told(shelf.files(FileCleanup(grace=timedelta(0))))) == 2


def test_orphans_are_removed_on_request(shelf: Shelf) -> None:
    """With their bytes; what is referred to stays."""
    used, orphan = shelf.keep(b"1"), shelf.keep(b"2")
    shelf.desk.create("x", file_refs=(ref(used),))

    assert told(shelf.files(REMOVE)) == [(Fault.FILE_ORPHANED, ref(orphan), True)]
    assert shelf.names() == {used.id}
    assert shelf.unused == [orphan.sha256]
    assert shelf.files(REMOVE) == []


def test_the_files_of_a_deleted_memory_are_kept(shelf: Shelf) -> None:
    """It can be restored."""
    used = shelf.keep(b"1")
    memory = shelf.desk.create("x", file_refs=(ref(used),)).memory
    shelf.desk.writing.revise.delete(ADA, memory.id, hard=False, expected_revision=0, options=WriteOptions())

    assert shelf.files(REMOVE) == []


def test_files_without_bytes_are_told(shelf: Shelf) -> None:
    """Those that only their record came of, and those whose bytes are lost; there is no remedy here."""
    bare = shelf.keep(b"1", has_content=False, create_time=NOW)
    lost = shelf.keep(b"2", create_time=NOW)
    shelf.lost.add(lost.sha256)

    assert told(shelf.files(REMOVE)) == [(Fault.FILE_CONTENT, ref(bare), False), (Fault.FILE_CONTENT, ref(lost), False)]
