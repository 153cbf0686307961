"""Detection of contradictions within the transaction that writes a memory.

Statements of ACTIVE memories are indexed by topic. A write looks up the few statements it can contradict by equality:
no search, no model, and no data that another writer could change before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from memsvc.domain.conflicts import (
    ABOUT,
    CHANGED,
    LOOSE,
    Conflict,
    ConflictPolicy,
    ConflictState,
    Contradiction,
    Fact,
    contradicts,
)
from memsvc.domain.history import is_valid_at
from memsvc.domain.memory import Memory, Status
from memsvc.domain.reminders import OVERDUE_DAYS
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.rollback import ConflictRollback
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import SupersessionLinks
from memsvc.engine.records.memory_builder import (
    MemoryBuilder,
    RecordBuilder,
    changes_schedule,
    differs_in_project,
    extract_statements,
    find_schedule_change,
    is_personal,
    reminder_at_another_time,
    states_more,
)
from memsvc.ports.metadata import Transaction
from memsvc.text.facts.labels import topic_label, value_label

CANDIDATES = 64
"""Number of statements compared for each topic, those of the newest memories first."""
REMINDED = 200
"""Number of reminders of single days that are compared with a statement that something was moved, the next first."""
MOST = 16
"""Maximum number of conflicts of one written memory."""


@dataclass(slots=True)
class DetectionResult:
    """The result of conflict detection.

    Attributes:
        memories: The memories that detection changed, in their new state, by id.
        conflicts: The conflicts of each written memory with the older memory, by the id of the written one.
    """

    memories: dict[str, Memory] = field(default_factory=dict)
    conflicts: dict[str, list[tuple[Conflict, Memory]]] = field(default_factory=dict)

    def current(self, memory: Memory) -> Memory:
        """Return the current state of *memory*."""
        return self.memories.get(memory.id, memory)

    def contradictions(self, memory: Memory) -> tuple[Contradiction, ...]:
        """Return the contradictions of a written memory, with the current state of both sides."""
        return tuple(
            Contradiction(conflict, self.current(older), self.current(memory))
            for conflict, older in self.conflicts.get(memory.id, ())
        )


class ConflictDetector:
    """Detection of contradictions by a policy. Stateless."""

    def __init__(self, memory_builder: MemoryBuilder, record_builder: RecordBuilder) -> None:
        """Take times and ids from *memory_builder*, write by *record_builder*."""
        self._memory_builder = memory_builder
        self.conflict_states = ConflictStateUpdater(record_builder, memory_builder.now)
        self.supersession = SupersessionLinks(record_builder, memory_builder.now)
        self.conflict_rollback = ConflictRollback(record_builder, memory_builder.now)

    def detect(
        self,
        transaction: Transaction,
        written: Sequence[Memory],
        *,
        policy: ConflictPolicy | None,
        changed: Sequence[Memory] = (),
    ) -> DetectionResult:
        """Update the open conflicts of *changed* memories, then detect what each of *written* contradicts, in order.

        All memories are passed as stored. A memory is compared with earlier ones in *written*, not with later ones.
        Without a policy nothing is compared. Only statements that are valid now contradict each other; past and future
        ones may differ.
        """
        result = DetectionResult(memories=self.conflict_states.update(transaction, changed))
        if policy is None:
            return result
        later = [memory.id for memory in written]
        for memory in written:
            later.remove(memory.id)
            self._detect_one(transaction, memory, frozenset(later), policy, result)
            self._detect_schedule_change(transaction, memory, frozenset(later), policy, result)
            if policy is not ConflictPolicy.KEEP_BOTH:
                self._keep_reminding(transaction, memory, result)
        return result

    def before_purge(self, transaction: Transaction, memory: Memory) -> None:
        """Unlink a memory that is about to be purged from its conflicts and its supersession chain."""
        self.conflict_states.update(transaction, [memory], gone=memory.id)
        self.supersession.close_gap(transaction, memory)

    def _detect_one(
        self,
        transaction: Transaction,
        memory: Memory,
        later: frozenset[str],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        current = result.current(memory)
        own_statements = outdating_statements(current)
        if not own_statements or not is_valid_at(current, self._memory_builder.now()):
            return
        place = (memory.scope.owner, memory.scope.project_id)
        pairs: dict[str, tuple[Fact, Fact]] = {}
        found = transaction.find_facts(*place, list(own_statements), limit=CANDIDATES)
        personal = personal_topics(own_statements.values(), current)
        if personal:
            found = [*found, *transaction.find_facts(place[0], "", personal, limit=CANDIDATES)]
        for stated in found:
            own = own_statements[stated.statement.topic]
            if stated.memory_id not in {memory.id, *later} and contradicts(stated.statement, own):
                pairs.setdefault(stated.memory_id, (stated.statement, own))
        self._apply_pairs(transaction, memory, pairs, policy, result)

    def _apply_pairs(
        self,
        transaction: Transaction,
        memory: Memory,
        pairs: dict[str, tuple[Fact, Fact]],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Apply the policy to the contradictions of *memory* with older memories, by their ids."""
        if pairs and policy is ConflictPolicy.MARK:
            # A memory that states more stays in use as the older side: mark each conflict once.
            labels = {topic_label(own.topic) for own in outdating_statements(result.current(memory)).values()}
            for known in transaction.open_conflicts(memory.scope.owner, [memory.id, *pairs]):
                if known.topic in labels:
                    pairs.pop(known.newer_id if known.older_id == memory.id else known.older_id, None)
        for older_id, pair in list(pairs.items())[:MOST]:
            older = transaction.get(older_id, reach=Reach.from_scope(memory.scope))
            if older is not None and self._is_in_use(older):
                self._apply(transaction, older, result.current(memory), pair, policy, result)

    def compare_stored(
        self, transaction: Transaction, pair: StoredPair, policy: ConflictPolicy
    ) -> tuple[Contradiction, ...]:
        """Compare two stored memories as if the newer one were written now; nothing if they were compared before.

        Both are read again: memories that changed since the pair was found are compared as they are.
        """
        result = DetectionResult()
        reach = Reach(pair.owner, tuple(dict.fromkeys((pair.project_id, ""))))
        newer = transaction.get(pair.newer_id, reach=reach)
        older = transaction.get(pair.older_id, reach=reach)
        if newer is None or older is None or not self._is_in_use(newer):
            return ()
        if is_known_pair(transaction.conflicts_between(pair.owner, (older.id, newer.id)), older, newer):
            return ()
        own_statements = outdating_statements(newer)
        for stated in extract_statements(older):
            own = own_statements.get(stated.topic)
            if own is not None and contradicts(stated, own):
                self._apply_pairs(transaction, newer, {older.id: (stated, own)}, policy, result)
                self._keep_reminding(transaction, newer, result)
                break
        return result.contradictions(newer)

    def _detect_schedule_change(
        self,
        transaction: Transaction,
        memory: Memory,
        later: frozenset[str],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Find the reminder of the event that a memory moves or calls off; only such a statement reads the store."""
        current = result.current(memory)
        is_concerned = policy is not ConflictPolicy.KEEP_BOTH and self._is_in_use(current)
        if not is_concerned or not changes_schedule(current):
            return
        said = current.event_time or self._memory_builder.now()
        since = said.date() - min(timedelta(days=OVERDUE_DAYS), said.date() - date.min)
        reminded = transaction.single_reminders(
            memory.scope.owner, memory.scope.project_id, since=since, limit=REMINDED
        )
        others = [one for one in reminded if one.id not in {memory.id, *later} and self._is_in_use(one)]
        found = find_schedule_change(others, current)
        older = None if found is None else transaction.get(found[0].id, reach=Reach.from_scope(memory.scope))
        if older is None or found is None:
            return
        if all(older.id != known.id for _, known in result.conflicts.get(memory.id, ())):
            self._apply(transaction, older, current, found[1:], policy, result)
        older = result.current(older)
        if older.status is Status.ACTIVE:
            # It stays in use, because it states more; of the day that is no longer right it reminds no more.
            result.memories[older.id] = self.supersession.set_values(transaction, older, {"reminder": None})

    def _keep_reminding(self, transaction: Transaction, memory: Memory, result: DetectionResult) -> None:
        """Give a memory that states another time of day of an event the day that the older memory has."""
        current = result.current(memory)
        for _, older in result.conflicts.get(memory.id, ()):
            reminder = reminder_at_another_time(older, current)
            if reminder is not None and self._is_in_use(current):
                values = {"reminder": reminder}
                result.memories[current.id] = self.supersession.set_values(transaction, current, values)
                return

    def _is_in_use(self, memory: Memory) -> bool:
        now = self._memory_builder.now()
        if memory.status is not Status.ACTIVE or not is_valid_at(memory, now):
            return False
        return memory.expire_time is None or memory.expire_time > now

    def _apply(
        self,
        transaction: Transaction,
        older: Memory,
        newer: Memory,
        pair: tuple[Fact, Fact],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        conflict = self._conflict(older, newer, pair)
        if policy is ConflictPolicy.MARK or (differs_in_project(older, newer) and policy is ConflictPolicy.SUPERSEDE):
            if not (differs_in_project(older, newer) or states_more(older, pair[0])):
                result.memories[older.id] = self.conflict_states.set_status(transaction, older, Status.CONFLICTED)
        elif policy is ConflictPolicy.SUPERSEDE:
            superseded, successor = self.supersession.link(transaction, older, newer)
            result.memories |= {superseded.id: superseded, successor.id: successor}
            result.memories |= self.conflict_states.update(transaction, [superseded])
            conflict = self.conflict_states.settle(conflict, ConflictState.CONFIRMED)
        else:
            conflict = self.conflict_states.settle(conflict, ConflictState.KEPT_BOTH)
        transaction.add_conflicts([conflict])
        result.conflicts.setdefault(newer.id, []).append((conflict, older))

    def _conflict(self, older: Memory, newer: Memory, pair: tuple[Fact, Fact]) -> Conflict:
        return new_conflict(self._memory_builder.new_id(), older, newer, pair, self._memory_builder.now())


@dataclass(frozen=True, slots=True)
class StoredPair:
    """Two stored memories that contradict each other.

    Attributes:
        project_id: That of the newer memory; the older one is of the same project, or global.
    """

    owner: str
    project_id: str
    older_id: str
    newer_id: str


def new_conflict(conflict_id: str, older: Memory, newer: Memory, pair: tuple[Fact, Fact], now: datetime) -> Conflict:
    """Return an open conflict of two memories that make the statements of *pair*, the older one first."""
    before, said = pair
    return Conflict(
        id=conflict_id,
        owner=newer.scope.owner,
        project_id=newer.scope.project_id,
        older_id=older.id,
        newer_id=newer.id,
        rule=said.rule,
        topic=topic_label(said.topic),
        older_value=value_label(before),
        newer_value=value_label(said),
        create_time=now,
    )


def is_known_pair(known: Sequence[Conflict], older: Memory, newer: Memory) -> bool:
    """Return whether one of the *known* conflicts of two memories, whichever is the older one, still counts.

    An open or decided one does. A closed one does until one of the memories changes.
    """
    for conflict in known:
        if {conflict.older_id, conflict.newer_id} != {older.id, newer.id}:
            continue
        closed = conflict.resolve_time if conflict.state is ConflictState.CLOSED else None
        if closed is None or max(older.update_time, newer.update_time) <= closed:
            return True
    return False


def outdating_statements(memory: Memory) -> dict[str, Fact]:
    """Return the statements of an ACTIVE memory that can contradict older ones, by topic."""
    return {statement.topic: statement for statement in extract_statements(memory) if may_outdate(statement)}


def personal_topics(statements: Iterable[Fact], memory: Memory) -> list[str]:
    """Return the topics on which a memory of a project is also compared with global memories."""
    return [one.topic for one in statements if is_personal(one, memory)] if memory.scope.project_id else []


def may_outdate(newer: Fact) -> bool:
    """Return whether a statement can contradict an older one at all: a loose one names a change or its scope."""
    return not newer.topic.startswith(LOOSE) or any(part.sort in {CHANGED, ABOUT} for part in newer.parts)
