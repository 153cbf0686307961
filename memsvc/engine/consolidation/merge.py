"""Merging one group, within one transaction; everything is looked at again there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import Consolidated, Group, Wording, archived_for, carried_over, draft_of
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.consolidation.candidates import own_reach
from memsvc.engine.consolidation.wording import MergedTextWriter
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.engine.memories.upsert import derived
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory
from memsvc.engine.records.provenance import Sources
from memsvc.ports.metadata import Transaction


@dataclass(frozen=True, slots=True)
class Planned:
    """A group and the memory that it is to become; made before the transaction, since a model may be slow."""

    group: Group
    wording: Wording
    prepared: PreparedMemory


class GroupMerger:
    """Merges groups of memories that say the same."""

    def __init__(self, drafting: MemoryBuilder, recording: RecordBuilder, words: MergedTextWriter) -> None:
        """Write by *drafting* and *recording*; *words* finds the text."""
        self._drafting = drafting
        self._recording = recording
        self._words = words
        self._settling = ConflictStateUpdater(recording, drafting.now)

    def planned(self, group: Group, deadline: Deadline) -> Planned:
        """Return what *group* is to become."""
        wording = self._words.of(group.members, deadline)
        return Planned(group, wording, self._prepared(group, wording))

    def rehearsed(self, group: Group) -> Consolidated:
        """Return what *group* would become by the rule, without an id and at no revision; nothing is asked or written.

        With a language model the words may be others.
        """
        memory = self._prepared(group, Wording(self._words.by_rule(group.members))).record.memory
        merged = replace(carried_over(memory, group.members), id="", revision=0)
        return Consolidated(merged, group.members, group.similarity)

    def merge(self, transaction: Transaction, planned: Planned) -> Consolidated | None:
        """Store the merged memory and archive its originals, linked both ways; None when that cannot be done any more.

        A member was changed since it was planned, or stands in an open conflict, or the merged memory would have to
        wait for a review. Nothing is written then.
        """
        members = [self._as_planned(transaction, member) for member in planned.group.members]
        if any(member is None for member in members):
            return None
        originals = [member for member in members if member is not None]
        if transaction.open_conflicts(originals[0].scope.owner, [member.id for member in originals]):
            return None
        record = derived(planned.prepared, Sources(transaction), self._drafting.policy).record
        if record.memory.status is not Status.ACTIVE:
            return None
        merged = carried_over(record.memory, originals)
        now = self._drafting.now()
        archived = [archived_for(original, merged.id, now) for original in originals]
        for before, after in zip(originals, archived, strict=True):
            transaction.update(before, self._recording.relabelled(after), ChangeAction.UPDATED)
        record, _ = self._recording.claimed(transaction, replace(record, memory=merged))
        [stored] = transaction.insert([record])
        self._settling.after(transaction, archived)
        return Consolidated(stored, tuple(archived), planned.group.similarity, planned.wording.notice)

    def _prepared(self, group: Group, wording: Wording) -> PreparedMemory:
        draft = draft_of(group.members, wording.content)
        return self._drafting.prepare(replace(group.newest.scope, session_id=""), draft)

    @staticmethod
    def _as_planned(transaction: Transaction, member: Memory) -> Memory | None:
        found = transaction.get(member.id, reach=own_reach(member))
        return found if found is not None and found.revision == member.revision else None
