"""What is wrong with single memories: links, content, and what is kept beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.diagnostics import Fault, Finding
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status, content_hash
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order, PageCursor
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.engine.records.memory_builder import chunks_of
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import StoredRow

_SINGLE = ("supersedes_id", "superseded_by_id")
_SEVERAL = ("related_ids", "derived_from")


@dataclass(frozen=True, slots=True)
class FaultyMemory:
    """A memory with what is wrong with it; *known* are the ids among its links that are there."""

    memory: Memory
    known: AbstractSet[str]
    findings: tuple[Finding, ...]

    def has(self, fault: Fault) -> bool:
        """Return whether this is wrong with it."""
        return any(finding.fault is fault for finding in self.findings)


class MemoryFaults:
    """Looks at memories page by page, and mends those of a page in one transaction."""

    def __init__(
        self, store: MetadataStore, committer: GroupCommitter, recording: RecordBuilder, now: Callable[[], datetime]
    ) -> None:
        self._reads = store.memories
        self._integrity = store.integrity
        self._committer = committer
        self._recording = recording
        self._now = now

    def pages(self, reach: Reach, *, size: int) -> Iterator[list[Memory]]:
        """Yield all memories of *reach*, oldest first, but for deleted ones."""
        order = Order(descending=False)
        after: PageCursor | None = None
        while page := self._reads.page(reach=reach, where=None, order=order, after=after, limit=size):
            after = PageCursor(to_micros(page[-1].create_time), page[-1].row)
            yield [memory for memory in page if memory.status is not Status.DELETED]

    def of(self, memories: Sequence[Memory], reach: Reach) -> list[FaultyMemory]:
        """Return those memories with which something is wrong."""
        known = self._integrity.known_ids(reach.owner, [one for memory in memories for one in _links(memory)])
        kept = self._integrity.kept(memories)
        found = [
            FaultyMemory(memory, known, tuple(_findings(memory, known, kept.get(memory.row)))) for memory in memories
        ]
        return [one for one in found if one.findings]

    def mended(self, found: Sequence[FaultyMemory], reach: Reach) -> list[FaultyMemory]:
        """Put them right; return them with their findings marked, but for those that somebody changed meanwhile."""

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
            record, _ = self._recording.claimed(transaction, self._recording.record(before, after))
            transaction.update(before, record, ChangeAction.UPDATED)
        transaction.reenter(after, chunks_of(after.content))
        return True


def _links(memory: Memory) -> list[str]:
    single = [getattr(memory, name) for name in _SINGLE]
    return [one for one in (*single, *memory.related_ids, *memory.derived_from) if one]


def _findings(memory: Memory, known: AbstractSet[str], kept: StoredRow | None) -> Iterator[Finding]:
    if kept is None:
        # It was removed since it was read.
        return
    scope = memory.scope
    named = [(name, (getattr(memory, name),)) for name in _SINGLE]
    named += [(name, getattr(memory, name)) for name in _SEVERAL]

    def finding(fault: Fault, detail: str) -> Finding:
        return Finding(fault, detail, memory.id, scope.user_id, scope.project_id)

    for name, ids in named:
        for absent in (one for one in ids if one and one not in known):
            yield finding(Fault.LINK, f"{name} names {absent}, which is not there.")
    if content_hash(memory.content) != memory.content_hash:
        yield finding(Fault.CONTENT, "The content is not what content_hash says.")
    if not kept.has_chunks:
        yield finding(Fault.CHUNKS, "The pieces of the content are not all there.")
    if not kept.has_terms:
        yield finding(Fault.KEYWORDS, "Keywords, tags or metadata are not all found.")


def _unlinked(memory: Memory, known: AbstractSet[str]) -> Memory:
    """Return *memory* without the links that lead nowhere."""
    return replace(
        memory,
        supersedes_id=memory.supersedes_id if memory.supersedes_id in known else "",
        superseded_by_id=memory.superseded_by_id if memory.superseded_by_id in known else "",
        related_ids=tuple(one for one in memory.related_ids if one in known),
        derived_from=tuple(one for one in memory.derived_from if one in known),
    )
