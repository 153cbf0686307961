"""Rollback of a project to a checkpoint, in batches of one transaction each.

A memory returns to its earlier state by a new revision; one created since is soft-deleted. So a rollback is a change
like any other, and the moment before it gets a checkpoint of its own, to which it can be rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memsvc.domain.clock import Deadline, from_micros, to_micros
from memsvc.domain.errors import CheckpointNotFoundError, DeadlineExceededError
from memsvc.domain.history import (
    Checkpoint,
    DifferenceKind,
    RollbackObstacle,
    RollbackReport,
    UnrestoredMemory,
    difference_of,
)
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Kind, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import SOURCE
from memsvc.domain.visibility import visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.conflicts.rollback import ConflictRollback, find_affected
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.history.as_of_reads import SLICE, AsOfState, latest_moment
from memsvc.engine.history.checkpoints import checkpoint_reach
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.engine.records.memory_patch import change_action, revert_to
from memsvc.ports.metadata import MetadataStore, Transaction

PART = 200
"""Memories rolled back in one transaction, so that other writes can interleave."""
MOST_NAMED = 100
"""Number of memories named that could not be rolled back."""
_METHOD = "RollbackToCheckpoint"
_TICK = timedelta(microseconds=1)


class CheckpointRollback:
    """Rolls projects back to checkpoints."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        record_builder: RecordBuilder,
        now: Callable[[], datetime],
    ) -> None:
        """Write by *committer* and *record_builder*; *now* is the clock."""
        self._store = store
        self._committer = committer
        self._record_builder = record_builder
        self._now = now
        self._conflict_rollback = ConflictRollback(record_builder, now)

    def preview(self, scope: Scope, name: str) -> RollbackReport:
        """Return the report of a rollback without changing anything.

        Memories that would be blocked by another memory are counted as rolled back.

        Raises:
            CheckpointNotFoundError: The project has no checkpoint of this name.
        """
        checkpoint = self._store.checkpoints.get(scope.owner, scope.project_id, name)
        if checkpoint is None:
            raise CheckpointNotFoundError(name)
        request = IdempotentRequest(_METHOD, "", "", checkpoint_reach(scope))
        run = _RollbackRun(scope, request, checkpoint, self._begin(checkpoint, request))
        for _, kind in self._find_differing(run):
            run.counts[kind.value] += 1
        self._note_purged(run)
        return run.report()

    def run(self, scope: Scope, name: str, *, request_id: str, deadline: Deadline) -> RollbackReport:
        """Roll the scope's project back; return once everything is durable.

        Each batch is one transaction. An interrupted rollback keeps what it did, and the same request continues it.

        Raises:
            CheckpointNotFoundError: The project has no checkpoint of this name.
            DeadlineExceededError: The deadline passed before everything was rolled back.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, name) if request_id else ""
        request = IdempotentRequest(_METHOD, request_id, digest, checkpoint_reach(scope))
        run, is_done = self._committer.submit(lambda transaction: self._start(transaction, scope, name, request)).value
        if is_done:
            return run.report()
        items = [item for item, _ in self._find_differing(run)]
        # Deletions first: they may free keys and contents that others need.
        items.sort(key=lambda item: not item.is_deleted)
        run = self._reconcile(self._roll_back_all(run, items, deadline))
        self._note_purged(run)
        committed = self._committer.submit(lambda transaction: _finish(transaction, run))
        return replace(committed.value.report(), position=committed.position)

    def _start(
        self, transaction: Transaction, scope: Scope, name: str, request: IdempotentRequest
    ) -> tuple[_RollbackRun, bool]:
        checkpoint = transaction.find_checkpoint(scope.owner, scope.project_id, name)
        if checkpoint is None:
            raise CheckpointNotFoundError(name)
        run = _RollbackRun(scope, request, checkpoint, self._begin(checkpoint, request))
        answer = recall_answer(transaction, request)
        if answer is not None:
            return run.from_json(answer), bool(answer["done"])
        remember_answer(transaction, request, run.as_json(done=False))
        return run, False

    def _begin(self, checkpoint: Checkpoint, request: IdempotentRequest) -> datetime:
        """Return the time at which a rollback starts: no earlier than the changes that it takes back."""
        return max(latest_moment(self._store.memories, request.reach, self._now()), checkpoint.known_time)

    def _find_differing(self, run: _RollbackRun) -> list[tuple[_Item, DifferenceKind]]:
        """Return the memories that differ from their earlier state, and the kind of each difference."""
        past = _past(self._store, run)
        rows = past.changed_rows(until=run.started)
        found: list[tuple[_Item, DifferenceKind]] = []
        for start in range(0, len(rows), SLICE):
            part = rows[start : start + SLICE]
            known = past.reads.known_at(part, past.moment, reach=past.reach)
            for row, memory in sorted(past.reads.by_rows(part, reach=past.reach).items()):
                target = known.get(row)
                is_kept = _is_foreign_summary(memory, run) if target is None else not visible(target, run.scope)
                after = None if is_kept else revert_to(memory, target, run.started)
                if after is not None:
                    is_deleted = after.status is Status.DELETED
                    found.append((_Item(memory.id, row, is_deleted), _kind(memory, after)))
        return found

    def _roll_back_all(self, run: _RollbackRun, items: Sequence[_Item], deadline: Deadline) -> _RollbackRun:
        waiting = list(items)
        while waiting:
            blocked: list[_Item] = []
            names = {item.memory_id for item in waiting}
            for start in range(0, len(waiting), PART):
                if deadline.has_passed():
                    left = len(waiting) - start + len(blocked)
                    message = f"the rollback ({left} of {len(items)} memories are left; repeat the request to continue)"
                    raise DeadlineExceededError(message)
                run, still_blocked = self._roll_back_part(run, waiting[start : start + PART], names)
                blocked += still_blocked
            if len(blocked) == len(waiting):
                run = self._release(run, blocked)
            waiting = blocked
        return run

    def _roll_back_part(
        self, run: _RollbackRun, items: Sequence[_Item], names: set[str]
    ) -> tuple[_RollbackRun, list[_Item]]:
        past = _past(self._store, run)
        targets = past.reads.known_at([item.row for item in items], past.moment, reach=past.reach)

        def work(transaction: Transaction) -> tuple[_RollbackRun, list[_Item]]:
            own = _load_run(transaction, run)
            self._create_undo_checkpoint(transaction, own)
            part = _RollbackTransaction(
                transaction, self._record_builder, own, max(self._now(), own.started + _TICK), names
            )
            blocked = [item for item in items if not part.roll_back(item.memory_id, targets.get(item.row))]
            own.position = max(own.position, transaction.position)
            remember_answer(transaction, own.request, own.as_json(done=False))
            return own, blocked

        return self._committer.submit(work).value

    def _release(self, run: _RollbackRun, stuck: Sequence[_Item]) -> _RollbackRun:
        """Release keys and contents of memories that block each other in a cycle, each once, so that it ends."""
        chosen = [item.memory_id for item in stuck if item.memory_id not in run.released][:PART]

        def work(transaction: Transaction) -> _RollbackRun:
            own = _load_run(transaction, run)
            part = _RollbackTransaction(
                transaction, self._record_builder, own, max(self._now(), own.started + _TICK), set()
            )
            for memory_id in chosen:
                part.release(memory_id)
            remember_answer(transaction, own.request, own.as_json(done=False))
            return own

        return self._committer.submit(work).value

    def _reconcile(self, run: _RollbackRun) -> _RollbackRun:
        """Bring conflicts and links in line with the rolled back memories."""

        def work(transaction: Transaction) -> _RollbackRun:
            own = _load_run(transaction, run)
            chosen = sorted(own.unsettled)[:PART]
            self._conflict_rollback.reconcile(
                transaction, chosen, reach=checkpoint_reach(own.scope), since=own.checkpoint.known_time
            )
            own.unsettled.difference_update(chosen)
            remember_answer(transaction, own.request, own.as_json(done=False))
            return own

        while run.unsettled:
            run = self._committer.submit(work).value
        return run

    @staticmethod
    def _create_undo_checkpoint(transaction: Transaction, run: _RollbackRun) -> None:
        if run.undo:
            return
        owner, project = run.scope.owner, run.scope.project_id
        run.undo = f"undo-{run.started:%Y%m%dT%H%M%S.%fZ}"
        if transaction.find_checkpoint(owner, project, run.undo) is None:
            note = f"Before the rollback to {run.checkpoint.name!r}."
            transaction.add_checkpoint(Checkpoint(owner, project, run.undo, run.started, run.started, note))

    def _note_purged(self, run: _RollbackRun) -> None:
        reach, moment, row = checkpoint_reach(run.scope), run.checkpoint.known_time, 0
        while gone := self._store.checkpoints.tombstones(reach=reach, moment=moment, after_row=row, limit=SLICE):
            for tombstone in gone:
                if tombstone.session_id in {"", run.scope.session_id}:
                    run.add_unreturned(tombstone.memory_id, RollbackObstacle.PURGED)
            row = gone[-1].row


@dataclass(frozen=True, slots=True)
class _Item:
    """A memory to roll back, and whether that deletes it. Its earlier state is read when it is needed."""

    memory_id: str
    row: int
    is_deleted: bool


@dataclass(slots=True)
class _RollbackRun:
    """A running rollback. It rolls back the state at *started*, and nothing written later.

    *unsettled* are the ids of memories whose conflicts and links are reconciled after all memories are rolled back.
    """

    scope: Scope
    request: IdempotentRequest
    checkpoint: Checkpoint
    started: datetime
    undo: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    unreturned: list[UnrestoredMemory] = field(default_factory=list)
    unreturned_count: int = 0
    released: set[str] = field(default_factory=set)
    unsettled: set[str] = field(default_factory=set)
    position: int = 0

    def copy(self) -> _RollbackRun:
        """Return an independent copy: a transaction may run twice."""
        own = replace(self, counts=Counter(self.counts), unreturned=list(self.unreturned))
        return replace(own, released=set(self.released), unsettled=set(self.unsettled))

    def add_unreturned(self, memory_id: str, reason: RollbackObstacle, in_the_way: str = "") -> None:
        """Record a memory that was not rolled back."""
        self.unreturned_count += 1
        if len(self.unreturned) < MOST_NAMED:
            self.unreturned.append(UnrestoredMemory(memory_id, reason, in_the_way))

    def report(self) -> RollbackReport:
        """Return the report so far."""
        return RollbackReport(
            checkpoint=self.checkpoint,
            counts={DifferenceKind(name): count for name, count in self.counts.items() if count},
            unreturned=tuple(self.unreturned),
            unreturned_count=self.unreturned_count,
            undo=self.undo,
            position=self.position,
        )

    def as_json(self, *, done: bool) -> dict[str, Any]:
        """Return the run as JSON, as stored with its request."""
        return {
            "done": done,
            "started": to_micros(self.started),
            "undo": self.undo,
            "counts": dict(self.counts),
            "unreturned": [(one.memory_id, one.reason.value, one.in_the_way) for one in self.unreturned],
            "unreturned_count": self.unreturned_count,
            "released": sorted(self.released),
            "unsettled": sorted(self.unsettled),
            "position": self.position,
        }

    def from_json(self, answer: Mapping[str, Any]) -> _RollbackRun:
        """Return the run from its stored form."""
        return replace(
            self,
            started=from_micros(answer["started"]),
            undo=answer["undo"],
            counts=Counter(answer["counts"]),
            unreturned=[
                UnrestoredMemory(name, RollbackObstacle(reason), other) for name, reason, other in answer["unreturned"]
            ],
            unreturned_count=answer["unreturned_count"],
            released=set(answer["released"]),
            unsettled=set(answer["unsettled"]),
            position=answer["position"],
        )


class _RollbackTransaction:
    """One transaction of a rollback."""

    def __init__(
        self,
        transaction: Transaction,
        record_builder: RecordBuilder,
        run: _RollbackRun,
        now: datetime,
        waiting: set[str],
    ) -> None:
        self._transaction = transaction
        self._record_builder = record_builder
        self._run = run
        self._now = now
        self._waiting = waiting
        self._conflict_states = ConflictStateUpdater(record_builder, lambda: now)

    def roll_back(self, memory_id: str, target: Memory | None) -> bool:
        """Roll back one memory; return False if it must wait for another one."""
        run = self._run
        before = self._transaction.get(memory_id, reach=checkpoint_reach(run.scope))
        after = None if before is None else revert_to(before, target, self._now)
        if before is None or after is None:
            return True
        if before.update_time > run.started and memory_id not in run.released:
            run.add_unreturned(memory_id, RollbackObstacle.CHANGED_MEANWHILE)
            return True
        holder = self._find_blocker(after)
        if holder is None:
            record, _ = self._record_builder.claim(self._transaction, self._record_builder.record(before, after))
            self._transaction.update(before, record, change_action(before, after))
            self._record_builder.update_session_tokens(self._transaction, before, after)
            run.unsettled |= find_affected(self._transaction, before, after)
            if after.status is Status.DELETED:
                # At once, and not with the reconciliation: until then no caller may resolve them.
                self._conflict_states.close(self._transaction, after)
            run.counts[_kind(before, after).value] += 1
        elif holder.id in self._waiting:
            return False
        else:
            run.add_unreturned(
                memory_id, RollbackObstacle.MEMORY_EXISTS, holder.id if visible(holder, run.scope) else ""
            )
        return True

    def release(self, memory_id: str) -> None:
        """Release key and claim of a waiting memory, so that another can take them."""
        before = self._transaction.get(memory_id, reach=checkpoint_reach(self._run.scope))
        self._run.released.add(memory_id)
        if before is not None and before.update_time <= self._run.started:
            after = replace(before, key="", revision=before.revision + 1, update_time=self._now)
            self._transaction.update(before, self._record_builder.record(before, after), ChangeAction.UPDATED)

    def _find_blocker(self, after: Memory) -> Memory | None:
        """Return the memory with the key of *after*, or with a content that it is about to release."""
        if after.status in UNNAMED:
            return None
        name = (after.scope.project_id, after.key)
        bearer = self._transaction.find_keys(after.scope.owner, [name]).get(name) if after.key else None
        if bearer is not None and bearer.id != after.id:
            return bearer
        holder = self._record_builder.find_holder(self._transaction, after)
        # A memory that stays may share the content, as it did then.
        return holder if holder is not None and holder.id in self._waiting else None


def _past(store: MetadataStore, run: _RollbackRun) -> AsOfState:
    return AsOfState(store.memories, run.scope, checkpoint_reach(run.scope), run.checkpoint.known_time)


def _kind(before: Memory, after: Memory) -> DifferenceKind:
    return difference_of(before, after) or DifferenceKind.CHANGED


def _is_foreign_summary(memory: Memory, run: _RollbackRun) -> bool:
    """Return whether a new memory summarises trimmed messages of another session, which the scope cannot restore."""
    is_summary = memory.kind is Kind.SUMMARY and memory.source == SOURCE
    return is_summary and memory.metadata.get("session_id") != run.scope.session_id


def _load_run(transaction: Transaction, run: _RollbackRun) -> _RollbackRun:
    """Return the stored state of the run, or a copy if none is stored."""
    answer = recall_answer(transaction, run.request)
    return run.copy() if answer is None else run.from_json(answer)


def _finish(transaction: Transaction, run: _RollbackRun) -> _RollbackRun:
    remember_answer(transaction, run.request, run.as_json(done=True))
    return run
