"""Integrity checks of the store and the indexes, with repair on request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TypeAlias

from memsvc.domain.api_keys import QuotaSubject, Usage
from memsvc.domain.clock import to_micros
from memsvc.domain.diagnostics import CheckPart, CheckProgress, CheckSummary, Fault, FileCleanup, Finding, IndexKind
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.files import File, fault_of_ref, format_ref, is_expired
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.maintenance import EVERYBODY, DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import FileRef, Memory, Status, content_hash
from memsvc.domain.scope import OWNER_SEPARATOR, Reach, Scope
from memsvc.domain.search import Order, PageCursor
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.files.service import BEFORE_EXPIRY
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.maintenance.step import StepPart, StepResult
from memsvc.engine.records.memory_builder import RecordBuilder, chunks_of
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.features import FileReads
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import OrphanRow, RowCursor, StoredRow
from memsvc.text.file_refs import refs_in

PAGE = 100
"""Records checked, and repaired in one transaction, per page."""
LOOK_ONLY = FileCleanup()

Event: TypeAlias = Finding | CheckProgress | CheckSummary
_SINGLE = ("supersedes_id", "superseded_by_id")
_SEVERAL = ("related_ids", "derived_from_ids")


@dataclass(slots=True)
class _CheckTally:
    memories: int = 0
    repaired: int = 0
    by_fault: Counter[str] = field(default_factory=Counter)
    unchecked: list[str] = field(default_factory=list)

    def count(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        self.by_fault.update(one.fault.value for one in findings)
        self.repaired += sum(one.is_repaired for one in findings)
        return findings


def _correct_amounts(tenant: str, amount: Usage, transaction: Transaction) -> None:
    transaction.add_usage(QuotaSubject.TENANT, tenant, amount)


class IntegrityCheck:
    """A check that works page by page, so that neither searches nor writes are blocked for long."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        faults: MemoryChecker,
        reindex: ReindexService,
        file_faults: FileChecker | None = None,
    ) -> None:
        """Check *store* and its indexes, and repair through *committer*; files only through *file_faults*."""
        self._store = store
        self._reads = store.integrity
        self._committer = committer
        self._faults = faults
        self._reindex = reindex
        self._file_faults = file_faults

    def run(
        self, reach: Reach | None, *, repair: bool, cleaning: FileCleanup = LOOK_ONLY
    ) -> Generator[Event, None, None]:
        """Check *reach*, or with None everything; yield findings and progress, then the summary.

        *repair* applies to everything except files and references to files, which follow *cleaning*.

        An unreadable index is reported in the summary, not raised.

        Raises:
            ReindexRunningError: An index needs repair while another reindex runs.
            BackendUnavailableError: The store cannot be reached.
        """
        tally = _CheckTally()
        yield from self._memories(reach, tally, repair=repair, cleaning=cleaning)
        yield from self._files(reach, tally, cleaning)
        yield from self._sessions(reach, tally)
        yield from self._messages(reach, tally, repair=repair)
        yield from self._conflicts(reach, tally, repair=repair)
        yield from self._remains(reach, tally, repair=repair)
        if reach is None:
            yield from self._amounts(tally, repair=repair)
        for kind in IndexKind:
            yield from self._index(kind, reach, tally, repair=repair)
        found = dict(sorted(tally.by_fault.items()))
        yield CheckSummary(tally.memories, sum(found.values()), tally.repaired, found, tuple(tally.unchecked))

    def _memories(
        self, reach: Reach | None, tally: _CheckTally, *, repair: bool, cleaning: FileCleanup
    ) -> Iterator[Event]:
        for one in self._reaches_to_check(reach):
            for page in self._faults.pages(one, size=PAGE):
                found = self._faults.of(page, one)
                if repair and found:
                    found = self._faults.repair(found, one)
                yield from tally.count([finding for fault in found for finding in fault.findings])
                if self._file_faults is not None and not cleaning.is_off:
                    mended = {fault.memory.row for fault in found if repair}
                    fresh = self._reread([memory for memory in page if memory.row in mended], one)
                    current = [fresh.get(memory.row, memory) for memory in page]
                    yield from tally.count(self._file_faults.of_memories(current, one, cleaning))
                tally.memories += len(page)
                yield CheckProgress("memories", tally.memories)

    def _reread(self, memories: Sequence[Memory], reach: Reach) -> dict[int, Memory]:
        found = self._store.memories.get([memory.id for memory in memories], reach=reach) if memories else {}
        return {memory.row: memory for memory in found.values()}

    def _files(self, reach: Reach | None, tally: _CheckTally, cleaning: FileCleanup) -> Iterator[Event]:
        if self._file_faults is None or cleaning.is_off:
            return
        checked = 0
        for page in self._file_faults.pages(reach, size=PAGE):
            yield from tally.count(self._file_faults.of_files(page, cleaning))
            checked += len(page)
            yield CheckProgress("files", checked)

    def _reaches_to_check(self, reach: Reach | None) -> Iterator[Reach]:
        if reach is not None:
            yield reach
            return
        after: RowCursor | None = None
        while places := self._reads.places(after=after, limit=PAGE):
            yield from (Reach(place.owner, (place.project_id,)) for place in places)
            after = places[-1]

    def _sessions(self, reach: Reach | None, tally: _CheckTally) -> Iterator[Event]:
        after = checked = 0
        while found := self._reads.emptied_sessions(reach=reach, after=after, limit=PAGE):
            yield from tally.count(
                [
                    Finding(
                        Fault.SESSION,
                        f"The session {session.scope.session_id!r} has had messages and has none.",
                        user_id=session.scope.user_id,
                        project_id=session.scope.project_id,
                    )
                    for session in found
                ]
            )
            after, checked = found[-1].row, checked + len(found)
        yield CheckProgress("sessions", checked)

    def _amounts(self, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        """Compare the amounts that are kept of tenants with what they have stored."""
        for tenant, amount in sorted(self._store.quotas.drift().items()):
            if repair:
                # The difference is that of one moment, so that it holds whatever is written in the meantime.
                self._committer.submit(partial(_correct_amounts, tenant, amount))
            problem = (
                f"The tenant {tenant!r} has {amount.memories} memories, {amount.content_bytes} bytes of content and "
                f"{amount.file_bytes} bytes of files more than are kept for its quota."
            )
            yield from tally.count([Finding(Fault.AMOUNTS, problem, is_repaired=repair)])
        yield CheckProgress("amounts", 0)

    def _messages(self, reach: Reach | None, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        after = 0
        while lost := self._reads.lost_messages(reach=reach, after=after, limit=PAGE):
            after = lost[-1].row
            rows = [one.row for one in lost]
            if repair:
                self._committer.submit(lambda transaction, rows=rows: transaction.discard_messages(rows))  # type: ignore[misc]  # the default binds it
            yield from tally.count(
                [
                    Finding(
                        Fault.MESSAGE,
                        f"Its {'session' if one.memory_id else 'content'} is missing.",
                        one.memory_id,
                        user_of(one.owner),
                        one.project_id,
                        is_repaired=repair,
                    )
                    for one in lost
                ]
            )
            yield CheckProgress("messages", len(lost))

    def _conflicts(self, reach: Reach | None, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        after = ""
        while found := self._reads.dangling_conflicts(reach=reach, after=after, limit=PAGE):
            after = found[-1].id
            if repair:
                self._committer.submit(lambda transaction, found=found: transaction.discard_conflicts(found))  # type: ignore[misc]  # the default binds it
            yield from tally.count(
                [
                    Finding(
                        Fault.CONFLICT,
                        f"The conflict {one.id} lacks one of {one.older_id}, {one.newer_id}.",
                        user_id=user_of(one.owner),
                        project_id=one.project_id,
                        is_repaired=repair,
                    )
                    for one in found
                ]
            )
            yield CheckProgress("conflicts", len(found))

    def _remains(self, reach: Reach | None, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        owner = None if reach is None else reach.owner
        for part in CheckPart:
            after = -1
            while found := self._reads.remains(part, owner=owner, after=after, limit=PAGE):
                after = found[-1].row
                if repair:
                    self._discard(part, found)
                detail = f"{part.value} of a memory that does not exist."
                yield from tally.count(
                    [Finding(Fault.REMAINS, detail, user_id=user_of(one.owner), is_repaired=repair) for one in found]
                )
            yield CheckProgress("remains", tally.by_fault[Fault.REMAINS.value])
        yield from self._texts(owner, tally, repair=repair)

    def _texts(self, owner: str | None, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        """Yield the passages and words of files that do not exist."""
        after = -1
        while found := self._store.files.stray_texts(owner=owner, after=after, limit=PAGE):
            after, rows = found[-1].row, [one.row for one in found]
            if repair:
                self._discard_texts(rows)
            detail = "passages of a file that does not exist."
            yield from tally.count(
                [Finding(Fault.REMAINS, detail, user_id=user_of(one.owner), is_repaired=repair) for one in found]
            )
        yield CheckProgress("remains", tally.by_fault[Fault.REMAINS.value])

    def _discard_texts(self, rows: Sequence[int]) -> None:
        self._committer.submit(lambda transaction: transaction.files.discard_stray_texts(rows))

    def _discard(self, part: CheckPart, found: Sequence[OrphanRow]) -> None:
        rows = [one.row for one in found]
        self._committer.submit(lambda transaction: transaction.discard_remains(part, rows))

    def _index(self, kind: IndexKind, reach: Reach | None, tally: _CheckTally, *, repair: bool) -> Iterator[Event]:
        name = kind.value.lower()
        if not self._reindex.accepts_writes(kind):
            tally.unchecked.append(f"{name}: the index is being built, or needs to be: see Diagnose.")
            return
        yield CheckProgress(name, 0)
        try:
            seen = self._reindex.compare(kind)
        except BackendUnavailableError as error:
            tally.unchecked.append(f"{name}: {error.message}")
            return
        done = 0
        groups = (
            (Fault.INDEX_MISSING, seen.missing),
            (Fault.INDEX_STALE, seen.stale),
            (Fault.INDEX_ORPHANED, seen.orphaned),
        )
        for fault, rows in groups:
            for start in range(0, len(rows), PAGE):
                part = rows[start : start + PAGE]
                yield from tally.count(self._index_findings(kind, fault, part, reach, repair=repair))
                done += len(part)
                yield CheckProgress(name, done)

    def _index_findings(
        self, kind: IndexKind, fault: Fault, rows: Sequence[int], reach: Reach | None, *, repair: bool
    ) -> list[Finding]:
        documents = {document.memory.row: document.memory for document in self._store.feed.documents(rows)}
        if reach is None:
            wanted = [row for row in rows if (row in documents) is not (fault is Fault.INDEX_ORPHANED)]
        else:
            wanted = [
                row
                for row, memory in documents.items()
                if memory.scope.owner == reach.owner and memory.scope.project_id in reach.project_ids
            ]
        if repair and wanted:
            self._reindex.repair_rows(kind, wanted)
        findings = []
        for row in wanted:
            finding = Finding(fault, f"In the index {kind.value.lower()}.", is_repaired=repair)
            if row in documents:
                memory = documents[row]
                scope = memory.scope
                finding = replace(finding, memory_id=memory.id, user_id=scope.user_id, project_id=scope.project_id)
            findings.append(finding)
        return findings


def user_of(owner: str) -> str:
    """Return the user of an owner."""
    return owner.partition(OWNER_SEPARATOR)[2]


# Faults of memories: links, content, and dependent rows.


@dataclass(frozen=True, slots=True)
class FaultyMemory:
    """A memory with its findings; *known* are the ids among its links that exist."""

    memory: Memory
    known: AbstractSet[str]
    findings: tuple[Finding, ...]

    def has(self, fault: Fault) -> bool:
        """Return whether the memory has this fault."""
        return any(finding.fault is fault for finding in self.findings)


class MemoryChecker:
    """A check of memories by pages, with repairs of a page in one transaction."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        record_builder: RecordBuilder,
        now: Callable[[], datetime],
    ) -> None:
        self._reads = store.memories
        self._integrity = store.integrity
        self._committer = committer
        self._record_builder = record_builder
        self._now = now

    def pages(self, reach: Reach, *, size: int) -> Iterator[list[Memory]]:
        """Yield all memories of *reach* except deleted ones, oldest first."""
        order = Order(descending=False)
        after: PageCursor | None = None
        while page := self._reads.page(reach=reach, where=None, order=order, after=after, limit=size):
            after = PageCursor(to_micros(page[-1].create_time), page[-1].row)
            yield [memory for memory in page if memory.status is not Status.DELETED]

    def of(self, memories: Sequence[Memory], reach: Reach) -> list[FaultyMemory]:
        """Return the memories with faults."""
        known = self._integrity.known_ids(reach.owner, [one for memory in memories for one in _links(memory)])
        kept = self._integrity.stored_rows(memories)
        found = [
            FaultyMemory(memory, known, tuple(_findings(memory, known, kept.get(memory.row)))) for memory in memories
        ]
        return [one for one in found if one.findings]

    def repair(self, found: Sequence[FaultyMemory], reach: Reach) -> list[FaultyMemory]:
        """Repair the memories; return them with findings marked as repaired, except those changed concurrently."""

        def work(transaction: Transaction) -> set[int]:
            return {one.memory.row for one in found if self._mend(transaction, one, reach)}

        done = self._committer.submit(work).value
        return [
            replace(one, findings=tuple(replace(finding, is_repaired=True) for finding in one.findings))
            if one.memory.row in done
            else one
            for one in found
        ]

    def _mend(self, transaction: Transaction, found: FaultyMemory, reach: Reach) -> bool:
        before = transaction.get(found.memory.id, reach=reach)
        if before is None or before.revision != found.memory.revision:
            return False
        after = before
        if found.has(Fault.LINK) or found.has(Fault.CONTENT) or found.has(Fault.CHUNKS):
            after = replace(
                _unlinked(before, found.known),
                content_hash=content_hash(before.content),
                update_time=self._now(),
                revision=before.revision + 1,
            )
            record, _ = self._record_builder.claim(transaction, self._record_builder.record(before, after))
            transaction.update(before, record, ChangeAction.UPDATED)
        transaction.reenter(after, chunks_of(after.content))
        return True


def _links(memory: Memory) -> list[str]:
    single = [getattr(memory, name) for name in _SINGLE]
    return [one for one in (*single, *memory.related_ids, *memory.derived_from_ids) if one]


def _findings(memory: Memory, known: AbstractSet[str], kept: StoredRow | None) -> Iterator[Finding]:
    if kept is None:
        # The memory was removed after it was read.
        return
    scope = memory.scope
    named = [(name, (getattr(memory, name),)) for name in _SINGLE]
    named += [(name, getattr(memory, name)) for name in _SEVERAL]

    def finding(fault: Fault, detail: str) -> Finding:
        return Finding(fault, detail, memory.id, scope.user_id, scope.project_id)

    for name, ids in named:
        for absent in (one for one in ids if one and one not in known):
            yield finding(Fault.LINK, f"{name} names {absent}, which does not exist.")
    if content_hash(memory.content) != memory.content_hash:
        yield finding(Fault.CONTENT, "The content does not match content_hash.")
    if not kept.has_chunks:
        yield finding(Fault.CHUNKS, "Chunks of the content are missing.")
    if not kept.has_terms:
        yield finding(Fault.KEYWORDS, "Entries of keywords, tags or metadata are missing.")


def _unlinked(memory: Memory, known: AbstractSet[str]) -> Memory:
    """Return *memory* without dangling links."""
    return replace(
        memory,
        supersedes_id=memory.supersedes_id if memory.supersedes_id in known else "",
        superseded_by_id=memory.superseded_by_id if memory.superseded_by_id in known else "",
        related_ids=tuple(one for one in memory.related_ids if one in known),
        derived_from_ids=tuple(one for one in memory.derived_from_ids if one in known),
    )


# Faults of files, and of references to them.


@dataclass(frozen=True, slots=True)
class FileCheckComponents:
    """The components of a check of files.

    Attributes:
        has_bytes: Returns whether the blob of a hash exists.
        remove_unused: Removes blobs that no file uses.
    """

    files: FileReads
    committer: GroupCommitter
    record_builder: RecordBuilder
    now: Callable[[], datetime]
    has_bytes: Callable[[str], bool]
    remove_unused: Callable[[Iterable[str]], None]


class FileChecker:
    """A check of files and of the references of memories, by pages, with removals as requested."""

    def __init__(self, parts: FileCheckComponents) -> None:
        """Check with these components."""
        self._parts = parts

    def of_memories(self, memories: Sequence[Memory], reach: Reach, cleaning: FileCleanup) -> list[Finding]:
        """Return the dangling references to files, and remove them if *cleaning* says so."""
        broken = self._find_broken(memories, reach.owner)
        faults = self._faults_of(broken, reach.owner)
        done = self._unlinked(broken, reach) if broken and cleaning.removes_broken_refs else frozenset()
        return [
            Finding(
                Fault.FILE_REF,
                f"file_refs names {format_ref(ref)}, which {faults[memory.row, ref]}.",
                memory.id,
                memory.scope.user_id,
                memory.scope.project_id,
                is_repaired=(memory.row, ref) in done,
                file_ref=ref,
            )
            for memory, refs in broken
            for ref in refs
        ]

    def removable(self, memories: Sequence[Memory], reach: Reach) -> set[str]:
        """Return the ids of the memories with references to files that do not exist and are not in their content."""
        broken = self._find_broken(memories, reach.owner)
        return {memory.id for memory, refs in broken if set(refs) - set(refs_in(memory.content))}

    def pages(self, reach: Reach | None, *, size: int) -> Iterator[list[File]]:
        """Yield the files of *reach*, or of all users, except expired ones, oldest first."""
        after, now, files = 0, self._parts.now(), self._parts.files
        found: list[File] = []
        while True:
            if reach is None:
                page = files.every(after=after, limit=size)
            else:
                page = files.of_owner(reach.owner, after=after, limit=size)
            found += [
                file
                for file in page
                if not is_expired(file, now) and (reach is None or file.scope.project_id in reach.project_ids)
            ]
            # Not page by page: their number would tell how many files the user has in other projects.
            if found and (len(found) >= size or not page):
                yield found
                found = []
            if not page:
                return
            after = page[-1].row

    def of_files(self, page: Sequence[File], cleaning: FileCleanup) -> list[Finding]:
        """Return the faults of files, and remove orphans if *cleaning* says so."""
        latest = self._parts.now() - cleaning.grace
        old = [file for file in page if file.create_time <= latest]
        orphans = self._find_unreferenced(old)
        removed = self._remove_orphans(orphans) if orphans and cleaning.removes_orphan_files else frozenset()
        found = [_about(file, Fault.FILE_ORPHANED, "No memory refers to it.", removed) for file in orphans]
        empty = [file for file in page if file.row not in removed and not self._has_bytes(file)]
        return [*found, *(_about(file, Fault.FILE_CONTENT, "Its bytes are missing.", frozenset()) for file in empty)]

    def _has_bytes(self, file: File) -> bool:
        return file.has_content and self._parts.has_bytes(file.sha256)

    def _find_broken(self, memories: Sequence[Memory], owner: str) -> list[tuple[Memory, tuple[FileRef, ...]]]:
        named = dict.fromkeys(ref for memory in memories for ref in memory.file_refs)
        if not named:
            return []
        known = self._parts.files.existing_refs(owner, named, now=self._parts.now())
        lacking = [(memory, tuple(ref for ref in memory.file_refs if ref not in known)) for memory in memories]
        return [(memory, refs) for memory, refs in lacking if refs]

    def _faults_of(
        self, broken: Sequence[tuple[Memory, tuple[FileRef, ...]]], owner: str
    ) -> dict[tuple[int, FileRef], str]:
        """Return what is wrong with each reference; a file of a project that the memory does not see does not exist."""
        ids = list(dict.fromkeys(ref.id for _, refs in broken for ref in refs))
        if not ids:
            return {}
        reach = Reach(owner, tuple({"", *(memory.scope.project_id for memory, _ in broken)}))
        files, now = self._parts.files.get(ids, reach=reach, now=BEFORE_EXPIRY), self._parts.now()
        faults: dict[tuple[int, FileRef], str] = {}
        for memory, refs in broken:
            for ref in refs:
                file = files.get(ref.id)
                is_visible = file is not None and file.scope.project_id in ("", memory.scope.project_id)
                faults[memory.row, ref] = fault_of_ref(ref, file if is_visible else None, now)
        return faults

    def _unlinked(
        self, broken: Sequence[tuple[Memory, tuple[FileRef, ...]]], reach: Reach
    ) -> AbstractSet[tuple[int, FileRef]]:
        """Remove references in one transaction; return them: not those in contents, nor of changed memories."""

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
        record, _ = self._parts.record_builder.claim(transaction, self._parts.record_builder.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)
        return True

    def _find_unreferenced(self, files: Iterable[File]) -> list[File]:
        found: list[File] = []
        for owner, several in groupby(sorted(files, key=_owner), _owner):
            mine = list(several)
            referred = self._parts.files.referred_to(owner, map(_ref, mine))
            found += [file for file in mine if _ref(file) not in referred]
        return sorted(found, key=lambda file: file.row)

    def _remove_orphans(self, orphans: Sequence[File]) -> AbstractSet[int]:
        """Remove files in one transaction; return the rows of those that are still unreferenced."""

        def work(transaction: Transaction) -> list[File]:
            gone: list[File] = []
            for owner, files in groupby(sorted(orphans, key=lambda file: file.scope.owner), _owner):
                several = list(files)
                stored = transaction.files.get_many(owner, [file.id for file in several])
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


# The maintenance steps CHECK_REFERENCES and COMPARE_INDEXES.


class CheckReferencesStep:
    """Removes links of memories to memories and files that do not exist; references in a content stay."""

    kind = UpkeepStep.CHECK_REFERENCES
    batch = PAGE

    def __init__(self, store: MetadataStore, memories: MemoryChecker, files: FileChecker) -> None:
        """Find and repair by the checkers."""
        self._store = store
        self._memories = memories
        self._files = files

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the memories with broken links on the next page of a project."""
        place, position = self._cursor(area, after)
        if place is None:
            return StepPart(())
        reach = Reach(place.owner, (place.project_id,))
        order, cursor = Order(descending=False), PageCursor(*position) if position else None
        page = self._store.memories.page(reach=reach, where=None, order=order, after=cursor, limit=limit)
        settled = [memory for memory in page if memory.status is not Status.DELETED and memory.update_time < now]
        due = tuple(
            DueChange.of(self.kind, MaintenanceReason.REFERENCE_GONE, memory) for memory in self._broken(settled, reach)
        )
        if len(page) == limit:
            return StepPart(due, json.dumps([*_names(place), to_micros(page[-1].create_time), page[-1].row]))
        following = self._next_place(area, place)
        return StepPart(due, "" if following is None else json.dumps(_names(following)))

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Remove the broken links of the memories that still have some."""
        changed: list[DueChange] = []
        for place in dict.fromkeys((one.scope.owner, one.scope.project_id) for one in due):
            own = [one for one in due if (one.scope.owner, one.scope.project_id) == place]
            reach = Reach(place[0], (place[1],))
            memories = list(self._store.memories.get([one.memory_id for one in own], reach=reach).values())
            linked = [one for one in self._memories.of(memories, reach) if one.has(Fault.LINK)]
            found = [finding for one in self._memories.repair(linked, reach) for finding in one.findings]
            current = list(self._store.memories.get([one.memory_id for one in own], reach=reach).values())
            found += self._files.of_memories(current, reach, FileCleanup(removes_broken_refs=True))
            done = {one.memory_id for one in found if one.is_repaired}
            changed += [one for one in own if one.memory_id in done]
        return StepResult(tuple(changed), len(due) - len(changed))

    def _broken(self, memories: Sequence[Memory], reach: Reach) -> list[Memory]:
        linked = {one.memory.id for one in self._memories.of(memories, reach) if one.has(Fault.LINK)}
        linked |= self._files.removable(memories, reach)
        return [memory for memory in memories if memory.id in linked]

    def _cursor(self, area: MaintenanceScope, after: str) -> tuple[RowCursor | None, Sequence[int]]:
        if after:
            owner, project_id, *position = json.loads(after)
            return RowCursor(owner, project_id), position
        if area.owner is not None:
            return RowCursor(area.owner, area.project_id), ()
        return next(iter(self._store.integrity.places(after=None, limit=1)), None), ()

    def _next_place(self, area: MaintenanceScope, place: RowCursor) -> RowCursor | None:
        if area.owner is not None and area.project_id:
            return None
        found = self._store.integrity.places(after=place, limit=1)
        return found[0] if found and area.owner in {None, found[0].owner} else None


class CompareIndexesStep:
    """Repairs the entries of the indexes that differ from the store."""

    kind = UpkeepStep.COMPARE_INDEXES
    batch = PAGE

    def __init__(self, feed: IndexFeed, reindex: ReindexService) -> None:
        """Compare and repair by *reindex*."""
        self._feed = feed
        self._reindex = reindex
        self._rows = LruCache[tuple[MaintenanceScope, datetime], tuple[list[int], bool]](2)

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the memories with entries to repair; an index that is being built is left to the next run."""
        known = self._rows.get((area, now)) if after else None
        if known is None:
            known = self._compare()
            self._rows.put((area, now), known)
        rows, is_whole = known
        chosen = [row for row in rows if row > int(after or 0)][:limit]
        memories = {one.memory.row: one.memory for one in self._feed.documents(chosen)}
        due = [change for row in chosen if (change := self._due(row, memories.get(row), area, now)) is not None]
        following = str(chosen[-1]) if len(chosen) == limit else ""
        return StepPart(tuple(due), following, is_paused=not is_whole)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Rewrite the entries of the memories, and remove those of memories that do not exist."""
        rows = [one.row for one in due]
        for kind in IndexKind:
            if self._reindex.accepts_writes(kind):
                self._reindex.repair_rows(kind, rows)
        return StepResult(tuple(due))

    def _compare(self) -> tuple[list[int], bool]:
        """Return the rows that differ in an index, and whether both indexes could be compared."""
        kinds = [kind for kind in IndexKind if self._reindex.accepts_writes(kind)]
        rows: set[int] = set()
        for kind in kinds:
            seen = self._reindex.compare(kind)
            rows.update(seen.missing, seen.stale, seen.orphaned)
        return sorted(rows), len(kinds) == len(IndexKind)

    def _due(self, row: int, memory: Memory | None, area: MaintenanceScope, now: datetime) -> DueChange | None:
        if memory is None:
            nowhere = Scope("")
            surplus = DueChange(self.kind, MaintenanceReason.INDEX_DIFFERS, nowhere, "", row)
            return surplus if area == EVERYBODY else None
        if not area.holds(memory.scope) or memory.update_time >= now:
            return None
        return DueChange.of(self.kind, MaintenanceReason.INDEX_DIFFERS, memory)


def _names(place: RowCursor) -> list[str]:
    return [place.owner, place.project_id]
