"""Looking for what is not as it should be in the store and the indexes, and putting it right on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from memsvc.domain.diagnostics import Checking, CheckSummary, Fault, FileCleaning, Finding, IndexKind, Part
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Reach
from memsvc.engine.admin.file_faults import FileFaults
from memsvc.engine.admin.memory_faults import MemoryFaults
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.indexing.reindex import Reindex
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import OrphanRow, RowCursor

PAGE = 100
"""Things looked at, and mended by one transaction, at a time."""
LOOK_ONLY = FileCleaning()

Event: TypeAlias = Finding | Checking | CheckSummary


@dataclass(slots=True)
class _Tally:
    memories: int = 0
    repaired: int = 0
    by_fault: Counter[str] = field(default_factory=Counter)
    unchecked: list[str] = field(default_factory=list)

    def counted(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        self.by_fault.update(one.fault.value for one in findings)
        self.repaired += sum(one.is_repaired for one in findings)
        return findings


class Integrity:
    """Checks page by page, so that neither a search nor a write waits for long."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        faults: MemoryFaults,
        reindex: Reindex,
        file_faults: FileFaults | None = None,
    ) -> None:
        """Look into *store* and its indexes, and mend through *committer*; files only by *file_faults*."""
        self._store = store
        self._reads = store.integrity
        self._committer = committer
        self._faults = faults
        self._reindex = reindex
        self._file_faults = file_faults

    def run(
        self, reach: Reach | None, *, repair: bool, cleaning: FileCleaning = LOOK_ONLY
    ) -> Generator[Event, None, None]:
        """Check what lies in *reach*, or with None everything; yield what is found and how far it is, then the summary.

        *repair* is for all but files and references to files, for which *cleaning* is.

        An index that cannot be read is named in the summary, not an error.

        Raises:
            ReindexRunningError: An index is to be mended while another reindex runs.
            BackendUnavailableError: The store cannot be reached.
        """
        tally = _Tally()
        yield from self._memories(reach, tally, repair=repair, cleaning=cleaning)
        yield from self._files(reach, tally, cleaning)
        yield from self._sessions(reach, tally)
        yield from self._messages(reach, tally, repair=repair)
        yield from self._conflicts(reach, tally, repair=repair)
        yield from self._remains(reach, tally, repair=repair)
        for kind in IndexKind:
            yield from self._index(kind, reach, tally, repair=repair)
        found = dict(sorted(tally.by_fault.items()))
        yield CheckSummary(tally.memories, sum(found.values()), tally.repaired, found, tuple(tally.unchecked))

    def _memories(self, reach: Reach | None, tally: _Tally, *, repair: bool, cleaning: FileCleaning) -> Iterator[Event]:
        for one in self._reaches(reach):
            for page in self._faults.pages(one, size=PAGE):
                found = self._faults.of(page, one)
                if repair and found:
                    found = self._faults.mended(found, one)
                yield from tally.counted([finding for fault in found for finding in fault.findings])
                if self._file_faults is not None and not cleaning.is_off:
                    mended = {fault.memory.row for fault in found if repair}
                    fresh = self._reread([memory for memory in page if memory.row in mended], one)
                    current = [fresh.get(memory.row, memory) for memory in page]
                    yield from tally.counted(self._file_faults.of_memories(current, one, cleaning))
                tally.memories += len(page)
                yield Checking("memories", tally.memories)

    def _reread(self, memories: Sequence[Memory], reach: Reach) -> dict[int, Memory]:
        found = self._store.memories.get([memory.id for memory in memories], reach=reach) if memories else {}
        return {memory.row: memory for memory in found.values()}

    def _files(self, reach: Reach | None, tally: _Tally, cleaning: FileCleaning) -> Iterator[Event]:
        if self._file_faults is None or cleaning.is_off:
            return
        checked = 0
        for page in self._file_faults.pages(reach, size=PAGE):
            yield from tally.counted(self._file_faults.of_files(page, cleaning))
            checked += len(page)
            yield Checking("files", checked)

    def _reaches(self, reach: Reach | None) -> Iterator[Reach]:
        if reach is not None:
            yield reach
            return
        after: RowCursor | None = None
        while places := self._reads.places(after=after, limit=PAGE):
            yield from (Reach(place.owner, (place.project_id,)) for place in places)
            after = places[-1]

    def _sessions(self, reach: Reach | None, tally: _Tally) -> Iterator[Event]:
        after = checked = 0
        while found := self._reads.emptied_sessions(reach=reach, after=after, limit=PAGE):
            yield from tally.counted(
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
        yield Checking("sessions", checked)

    def _messages(self, reach: Reach | None, tally: _Tally, *, repair: bool) -> Iterator[Event]:
        after = 0
        while lost := self._reads.lost_messages(reach=reach, after=after, limit=PAGE):
            after = lost[-1].row
            rows = [one.row for one in lost]
            if repair:
                self._committer.submit(lambda transaction, rows=rows: transaction.discard_messages(rows))  # type: ignore[misc]  # the default binds it
            yield from tally.counted(
                [
                    Finding(
                        Fault.MESSAGE,
                        f"Its {'session' if one.memory_id else 'content'} is not there.",
                        one.memory_id,
                        user_of(one.owner),
                        one.project_id,
                        is_repaired=repair,
                    )
                    for one in lost
                ]
            )
            yield Checking("messages", len(lost))

    def _conflicts(self, reach: Reach | None, tally: _Tally, *, repair: bool) -> Iterator[Event]:
        after = ""
        while found := self._reads.dangling_conflicts(reach=reach, after=after, limit=PAGE):
            after = found[-1].id
            if repair:
                self._committer.submit(lambda transaction, found=found: transaction.discard_conflicts(found))  # type: ignore[misc]  # the default binds it
            yield from tally.counted(
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
            yield Checking("conflicts", len(found))

    def _remains(self, reach: Reach | None, tally: _Tally, *, repair: bool) -> Iterator[Event]:
        owner = None if reach is None else reach.owner
        for part in Part:
            after = -1
            while found := self._reads.remains(part, owner=owner, after=after, limit=PAGE):
                after = found[-1].row
                if repair:
                    self._discard(part, found)
                detail = f"{part.value} of a memory that is not there."
                yield from tally.counted(
                    [Finding(Fault.REMAINS, detail, user_id=user_of(one.owner), is_repaired=repair) for one in found]
                )
            yield Checking("remains", tally.by_fault[Fault.REMAINS.value])

    def _discard(self, part: Part, found: Sequence[OrphanRow]) -> None:
        rows = [one.row for one in found]
        self._committer.submit(lambda transaction: transaction.discard_remains(part, rows))

    def _index(self, kind: IndexKind, reach: Reach | None, tally: _Tally, *, repair: bool) -> Iterator[Event]:
        name = kind.value.lower()
        if not self._reindex.takes_writes(kind):
            tally.unchecked.append(f"{name}: the index is being built, or has to be: see Diagnose.")
            return
        yield Checking(name, 0)
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
                yield from tally.counted(self._index_findings(kind, fault, part, reach, repair=repair))
                done += len(part)
                yield Checking(name, done)

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
            self._reindex.mend(kind, wanted)
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
