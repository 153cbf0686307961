"""What is wrong with files, and with references to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from memsvc.domain.diagnostics import Fault, FileCleaning, Finding
from memsvc.domain.files import File, is_expired, written
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Memory
from memsvc.domain.scope import Reach
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.ports.features import FileReads
from memsvc.ports.metadata import Transaction
from memsvc.text.file_refs import refs_in


@dataclass(frozen=True, slots=True)
class FileFaultParts:
    """What is worked with.

    Attributes:
        has_bytes: Tells by their hash whether bytes are there.
        remove_unused: Removes bytes that no file has any more.
    """

    files: FileReads
    committer: GroupCommitter
    recording: RecordBuilder
    now: Callable[[], datetime]
    has_bytes: Callable[[str], bool]
    remove_unused: Callable[[Iterable[str]], None]


class FileFaults:
    """Looks at files, and at the references of memories, page by page; removes what it is told to."""

    def __init__(self, parts: FileFaultParts) -> None:
        """Look by these parts."""
        self._parts = parts

    def of_memories(self, memories: Sequence[Memory], reach: Reach, cleaning: FileCleaning) -> list[Finding]:
        """Return the references to files that are not there, taken away if *cleaning* says so."""
        broken = self._broken(memories, reach.owner)
        done = self._unlinked(broken, reach) if broken and cleaning.removes_broken_refs else frozenset()
        return [
            Finding(
                Fault.FILE_REF,
                f"file_refs names {written(ref)}, which is not there.",
                memory.id,
                memory.scope.user_id,
                memory.scope.project_id,
                is_repaired=(memory.row, ref) in done,
                file_ref=ref,
            )
            for memory, refs in broken
            for ref in refs
        ]

    def pages(self, reach: Reach | None, *, size: int) -> Iterator[list[File]]:
        """Yield the files of *reach*, or of everybody, oldest first, but for expired ones."""
        after, now, files = 0, self._parts.now(), self._parts.files
        while True:
            if reach is None:
                page = files.every(after=after, limit=size)
            else:
                page = files.of_owner(reach.owner, after=after, limit=size)
            if not page:
                return
            after = page[-1].row
            yield [
                file
                for file in page
                if not is_expired(file, now) and (reach is None or file.scope.project_id in reach.project_ids)
            ]

    def of_files(self, page: Sequence[File], cleaning: FileCleaning) -> list[Finding]:
        """Return what is wrong with files, orphans removed if *cleaning* says so."""
        latest = self._parts.now() - cleaning.grace
        old = [file for file in page if file.create_time <= latest]
        orphans = self._unreferred(old)
        removed = self._removed(orphans) if orphans and cleaning.removes_orphan_files else frozenset()
        found = [_about(file, Fault.FILE_ORPHANED, "No memory refers to it.", removed) for file in orphans]
        empty = [file for file in page if file.row not in removed and not self._has_bytes(file)]
        return [*found, *(_about(file, Fault.FILE_CONTENT, "Its bytes are not here.", frozenset()) for file in empty)]

    def _has_bytes(self, file: File) -> bool:
        return file.has_content and self._parts.has_bytes(file.sha256)

    def _broken(self, memories: Sequence[Memory], owner: str) -> list[tuple[Memory, tuple[FileRef, ...]]]:
        named = dict.fromkeys(ref for memory in memories for ref in memory.file_refs)
        if not named:
            return []
        known = self._parts.files.existing(owner, named, now=self._parts.now())
        lacking = [(memory, tuple(ref for ref in memory.file_refs if ref not in known)) for memory in memories]
        return [(memory, refs) for memory, refs in lacking if refs]

    def _unlinked(
        self, broken: Sequence[tuple[Memory, tuple[FileRef, ...]]], reach: Reach
    ) -> AbstractSet[tuple[int, FileRef]]:
        """Take references away, in one transaction; return which: not those in the content, nor of a memory changed."""

        def work(transaction: Transaction) -> set[tuple[int, FileRef]]:
            done: set[tuple[int, FileRef]] = set()
            for memory, refs in broken:
                gone = set(refs) - set(refs_in(memory.content))
                if gone and self._unlink(transaction, memory, gone, reach):
                    done |= {(memory.row, ref) for ref in gone}
            return done

        return self._parts.committer.submit(work).value

    def _unlink(self, transaction: Transaction, memory: Memory, gone: AbstractSet[FileRef], reach: Reach) -> bool:
        before = transaction.get(memory.id, reach=reach)
        if before is None or before.revision != memory.revision:
            return False
        after = replace(
            before,
            file_refs=tuple(ref for ref in before.file_refs if ref not in gone),
            update_time=self._parts.now(),
            revision=before.revision + 1,
        )
        record, _ = self._parts.recording.claimed(transaction, self._parts.recording.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return True

    def _unreferred(self, files: Iterable[File]) -> list[File]:
        found: list[File] = []
        for owner, several in groupby(sorted(files, key=_owner), _owner):
            mine = list(several)
            referred = self._parts.files.referred_to(owner, map(_ref, mine))
            found += [file for file in mine if _ref(file) not in referred]
        return sorted(found, key=lambda file: file.row)

    def _removed(self, orphans: Sequence[File]) -> AbstractSet[int]:
        """Remove files, in one transaction; return the rows of those that nobody refers to meanwhile."""

        def work(transaction: Transaction) -> list[File]:
            gone: list[File] = []
            for owner, files in groupby(sorted(orphans, key=lambda file: file.scope.owner), _owner):
                several = list(files)
                stored = transaction.files.stored(owner, [file.id for file in several])
                referred = transaction.files.referred_to(owner, map(_ref, several))
                gone += [file for file in stored.values() if _ref(file) not in referred]
            transaction.files.delete(gone)
            return gone

        removed = self._parts.committer.submit(work).value
        self._parts.remove_unused(file.sha256 for file in removed)
        return {file.row for file in removed}


def _owner(file: File) -> str:
    return file.scope.owner


def _ref(file: File) -> FileRef:
    return FileRef(file.category.value, file.id)


def _about(file: File, fault: Fault, detail: str, removed: AbstractSet[int]) -> Finding:
    scope = file.scope
    return Finding(
        fault,
        detail,
        user_id=scope.user_id,
        project_id=scope.project_id,
        is_repaired=file.row in removed,
        file_ref=_ref(file),
    )
