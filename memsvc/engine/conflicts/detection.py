"""Detection of contradictions within the transaction that writes a memory.

Statements of ACTIVE memories are indexed by topic. A write looks up the few statements it can contradict by equality:
no search, no model, and no data that another writer could change before the commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import chain, islice
from typing import Any

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
    contradicts_either,
)
from memsvc.domain.history import is_valid_now
from memsvc.domain.memory import Memory, Status
from memsvc.domain.reminders import OVERDUE_DAYS, short_term_end
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
    find_completed,
    find_schedule_change,
    has_single_reminder,
    is_personal,
    reminder_at_another_time,
    states_completion,
    states_more,
)
from memsvc.engine.records.memory_patch import keep_until_due
from memsvc.ports.features import StoredFact
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
        conflicts: The conflicts of each written memory, by its id, with their older and their newer memory.
        is_more_stated: Whether stored memories state, or remind of, what they did not before.
    """

    memories: dict[str, Memory] = field(default_factory=dict)
    conflicts: dict[str, list[tuple[Conflict, Memory, Memory]]] = field(default_factory=dict)
    is_more_stated: bool = False

    def current(self, memory: Memory) -> Memory:
        """Return the current state of *memory*."""
        return self.memories.get(memory.id, memory)

    def contradictions(self, memory: Memory) -> tuple[Contradiction, ...]:
        """Return the contradictions of a written memory, with the current state of both sides."""
        return tuple(
            Contradiction(conflict, self.current(older), self.current(newer))
            for conflict, older, newer in self.conflicts.get(memory.id, ())
        )


class ConflictDetector:
    """Detection of contradictions by a policy. Stateless."""

    def __init__(self, memory_builder: MemoryBuilder, record_builder: RecordBuilder) -> None:
        """Take times and ids from *memory_builder*, write by *record_builder*."""
        self._memory_builder = memory_builder
        self.outranks = memory_builder.policy.outranks
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

        Of two memories the one that was said later is the newer one, whichever is written now: see `Memory.said_until`.
        What *changed* without an event_time is said now. Of two that were said at once the written one is the newer.
        """
        result = DetectionResult(memories=self.conflict_states.update(transaction, changed))
        if policy is None:
            return result
        restated = {memory.id for memory in changed}
        later = {memory.id for memory in written}
        comparands = _Comparands(transaction, [memory for memory in written if memory.id not in restated], result)
        for memory in written:
            later.remove(memory.id)
            restated_now = memory.id in restated and memory.event_time is None
            said_until = self._memory_builder.now() if restated_now else memory.said_until
            said = _Said(memory, said_until, later, comparands)
            self._detect_one(transaction, said, policy, result)
            self._detect_schedule_change(transaction, said, policy, result)
            self._detect_changed_before(transaction, said, policy, result)
            self._detect_completed(transaction, said, policy, result)
            if policy is not ConflictPolicy.KEEP_BOTH:
                self._keep_reminding(transaction, memory, result)
            comparands.add(memory)
        return result

    def before_purge(self, transaction: Transaction, memory: Memory) -> None:
        """Unlink a memory that is about to be purged from its conflicts and its supersession chain."""
        self.conflict_states.update(transaction, [memory], gone=memory.id)
        self.supersession.close_gap(transaction, memory)

    def _detect_one(
        self, transaction: Transaction, said: _Said, policy: ConflictPolicy, result: DetectionResult
    ) -> None:
        current = result.current(said.memory)
        own_statements = {statement.topic: statement for statement in extract_statements(current)}
        if not own_statements or not is_valid_now(current, self._memory_builder.now()):
            return
        found = said.comparands.facts(current.scope.owner, current.scope.project_id, list(own_statements))
        if personal := personal_topics(own_statements.values(), current):
            found += said.comparands.facts(current.scope.owner, "", personal)
        candidates: dict[str, list[tuple[Fact, Fact]]] = {}
        for stated in found:
            own = own_statements[stated.statement.topic]
            is_other = stated.memory_id != current.id and stated.memory_id not in said.later
            if is_other and contradicts_either(stated.statement, own):
                candidates.setdefault(stated.memory_id, []).append((stated.statement, own))
        if candidates:
            self._apply_in_order(transaction, said, candidates, policy, result)

    def _apply_in_order(
        self,
        transaction: Transaction,
        said: _Said,
        candidates: Mapping[str, Sequence[tuple[Fact, Fact]]],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Apply the policy to what *said* may contradict: the stored and the own statements, by ids of stored memories.

        Older memories first, then those that were said later, the last said first: once the written memory is outdated
        there is nothing to compare with the next.
        """
        stored = transaction.get_many(said.memory.scope.owner, list(candidates))
        older: dict[str, tuple[Fact, Fact]] = {}
        newer: list[tuple[Memory, tuple[Fact, Fact]]] = []
        for memory_id, statements in candidates.items():
            other = stored[memory_id].memory
            is_late = not differs_in_project(other, said.memory) and other.said_time > said.moment
            pairs = [(two, one) if is_late else (one, two) for one, two in statements]
            pair = next((one for one in pairs if may_outdate(one[1]) and contradicts(*one)), None)
            if pair is not None and is_late:
                newer.append((other, pair))
            elif pair is not None:
                older[memory_id] = pair
        self._apply_pairs(transaction, said.memory, older, policy, result)
        newer.sort(key=lambda one: one[0].said_time, reverse=True)
        self._apply_late(transaction, said.memory, newer, policy, result)

    def _apply_pairs(
        self,
        transaction: Transaction,
        memory: Memory,
        pairs: dict[str, tuple[Fact, Fact]],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Apply the policy to the contradictions of *memory* with older memories, by their ids."""
        is_open = bool(pairs) and policy is not ConflictPolicy.KEEP_BOTH
        known = transaction.open_conflicts(memory.scope.owner, [memory.id, *pairs]) if is_open else []
        labels = {topic_label(own.topic) for own in outdating_statements(result.current(memory)).values()}
        known = [one for one in known if one.topic in labels]
        count = 0
        for older_id, pair in pairs.items():
            older = transaction.get(older_id, reach=Reach.from_scope(memory.scope)) if count < MOST else None
            if older is None or self._is_marked(transaction, known, older, memory, policy):
                continue
            count += 1
            if self._is_in_use(older):
                self._apply(transaction, memory, _Sides(older, result.current(memory), pair), policy, result)

    def _is_marked(
        self,
        transaction: Transaction,
        known: Sequence[Conflict],
        older: Memory,
        memory: Memory,
        policy: ConflictPolicy,
    ) -> bool:
        """Return whether one of the *known* open conflicts on a topic makes one of *older* with *memory* redundant.

        A memory that states more, or outranks the other, stays in use as the older side: its conflict is marked once. A
        conflict with a memory that it outranks does not replace one with a memory that displaces it.
        """
        is_outranked = self.outranks(older, memory)
        if policy is ConflictPolicy.SUPERSEDE and not is_outranked:
            return False
        for one in known:
            if {one.older_id, one.newer_id} == {older.id, memory.id}:
                return True
            if one.older_id == older.id:
                _, newer = (None, None) if is_outranked else self.conflict_states.load_sides(transaction, one)
                if newer is None or not self.outranks(older, newer):
                    return True
        return False

    def _apply_late(
        self,
        transaction: Transaction,
        memory: Memory,
        pairs: Sequence[tuple[Memory, tuple[Fact, Fact]]],
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Apply the policy to the contradictions of *memory* with memories that were said later.

        If it stays in use, because it states more or outranks the others, one conflict is marked for each topic.
        """
        is_marking = policy is ConflictPolicy.MARK
        known = transaction.open_conflicts(memory.scope.owner, [memory.id]) if pairs and is_marking else []
        sides = {side for one in known for side in (one.older_id, one.newer_id)}
        marked = {(one.topic, False) for one in known if one.older_id == memory.id}
        for newer_id, pair in [(one.id, pair) for one, pair in pairs][:MOST]:
            older, topic = result.current(memory), topic_label(pair[1].topic)
            if older.status is not Status.ACTIVE:
                return
            newer = transaction.get(newer_id, reach=Reach.from_scope(memory.scope))
            mark = topic, newer is not None and self.outranks(older, newer)
            if (mark in marked and (is_marking or mark[1])) or (is_marking and newer_id in sides):
                continue
            if newer is not None and self._is_in_use(newer):
                marked.add(mark)
                self._apply(transaction, memory, _Sides(older, newer, pair, newer.said_time), policy, result)

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
        self, transaction: Transaction, said: _Said, policy: ConflictPolicy, result: DetectionResult
    ) -> None:
        """Find the reminder of the event that a memory moves or calls off; only such a statement reads the store."""
        current = result.current(said.memory)
        is_concerned = policy is not ConflictPolicy.KEEP_BOTH and self._is_in_use(current)
        if not is_concerned or not changes_schedule(current):
            return
        reminded = self._reminded(said)
        found = find_schedule_change([one for one in reminded if one.said_time <= said.moment], current)
        older = None if found is None else transaction.get(found[0].id, reach=Reach.from_scope(current.scope))
        if older is not None and found is not None:
            self._apply_schedule_change(transaction, said.memory, _Sides(older, current, found[1:]), policy, result)

    def _detect_changed_before(
        self, transaction: Transaction, said: _Said, policy: ConflictPolicy, result: DetectionResult
    ) -> None:
        """Find the statement that moved the event of a memory which was said earlier and is written now.

        Only a memory that is written later than it was said, and has a reminder of one day, reads the store.
        """
        current = result.current(said.memory)
        is_late = current.event_time is not None and current.event_time < self._memory_builder.now()
        if policy is ConflictPolicy.KEEP_BOTH or not (is_late and has_single_reminder(current)):
            return
        if not self._is_in_use(current):
            return
        later = [one for one in self._reminded(said) if one.said_time > said.moment]
        for newer in sorted(later, key=lambda one: one.said_time, reverse=True):
            found = find_schedule_change([current], newer)
            if found is not None:
                sides = _Sides(current, newer, found[1:], newer.said_time)
                self._apply_schedule_change(transaction, said.memory, sides, policy, result)
                return

    def _detect_completed(
        self, transaction: Transaction, said: _Said, policy: ConflictPolicy, result: DetectionResult
    ) -> None:
        """Remove the reminder of what a memory states to be done; only such a statement reads the store.

        A memory that outranks the statement keeps its reminder. Nothing contradicts the earlier memory, which stays in
        use. The removal is a revision of it, so a rollback of it brings the reminder back.
        """
        current, detector = result.current(said.memory), self._memory_builder.reminder_detector
        if policy is ConflictPolicy.KEEP_BOTH or not detector.is_on or not self._is_in_use(current):
            return
        if not states_completion(current):
            return
        reminded = [one for one in self._reminded(said) if one.said_time <= said.moment]
        found = find_completed(reminded, current, said.moment.astimezone(detector.zone).date())
        older = None if found is None else transaction.get(found.id, reach=Reach.from_scope(current.scope))
        if older is not None and self._is_in_use(older) and not self.outranks(older, current):
            result.memories[older.id] = self.supersession.set_values(transaction, older, {"reminder": None})

    def _reminded(self, said: _Said) -> list[Memory]:
        """Return the other memories in use with a reminder of one day, the next first."""
        scope, day = said.memory.scope, said.moment.date()
        since = day - min(timedelta(days=OVERDUE_DAYS), day - date.min)
        reminded = said.comparands.single_reminders(scope.owner, scope.project_id, since)
        others = [one for one in reminded if one.id != said.memory.id and one.id not in said.later]
        return [one for one in others if self._is_in_use(one) and not said.comparands.is_after(one, said.memory)]

    def _apply_schedule_change(
        self,
        transaction: Transaction,
        written: Memory,
        sides: _Sides,
        policy: ConflictPolicy,
        result: DetectionResult,
    ) -> None:
        """Apply the policy to a memory with a reminder and the one that moves or calls off its event.

        A memory that outranks the other keeps its reminder, and its conflict is marked once.
        """
        is_outranked = self.outranks(sides.older, sides.newer)
        if is_outranked:
            label = topic_label(sides.statements[1].topic)
            marked = transaction.open_conflicts(written.scope.owner, [sides.older.id])
            if any(one.older_id == sides.older.id and one.topic == label for one in marked):
                return
        known = result.conflicts.get(written.id, ())
        if all({sides.older.id, sides.newer.id} != {one.id, other.id} for _, one, other in known):
            self._apply(transaction, written, sides, policy, result)
        older = result.current(sides.older)
        if older.status is Status.ACTIVE and not is_outranked:
            # It stays in use, because it states more; of the day that is no longer right it reminds no more.
            result.memories[older.id] = self.supersession.set_values(transaction, older, {"reminder": None})

    def _keep_reminding(self, transaction: Transaction, written: Memory, result: DetectionResult) -> None:
        """Give a memory that states another time of day of an event the day that the older memory has."""
        for _, older, newer in result.conflicts.get(written.id, ()):
            current = result.current(newer)
            reminder = reminder_at_another_time(older, current)
            if reminder is not None and self._is_in_use(current):
                values: dict[str, Any] = {"reminder": reminder}
                if current.expire_time == short_term_end(None, current.valid_from, current.update_time):
                    # Its expiry is the default.
                    reminding = keep_until_due(replace(current, reminder=reminder), self._memory_builder.now())
                    values["expire_time"] = reminding.expire_time
                result.memories[current.id] = self.supersession.set_values(transaction, current, values)
                result.is_more_stated = True

    def _is_in_use(self, memory: Memory) -> bool:
        now = self._memory_builder.now()
        return memory.status is Status.ACTIVE and is_valid_now(memory, now) and not memory.is_expired(now)

    def _apply(
        self, transaction: Transaction, written: Memory, sides: _Sides, policy: ConflictPolicy, result: DetectionResult
    ) -> None:
        """Apply the policy to two memories that contradict each other, and store their conflict.

        A global memory that one of a project contradicts stays in use, and so does one that outranks the newer one.
        """
        older, newer = sides.older, sides.newer
        conflict = new_conflict(
            self._memory_builder.new_id(), older, newer, sides.statements, self._memory_builder.now()
        )
        stays_in_use = differs_in_project(older, newer) or self.outranks(older, newer)
        if policy is ConflictPolicy.MARK or (stays_in_use and policy is ConflictPolicy.SUPERSEDE):
            if not (stays_in_use or states_more(older, sides.statements[0])):
                result.memories[older.id] = self.conflict_states.set_status(transaction, older, Status.CONFLICTED)
        elif policy is ConflictPolicy.SUPERSEDE:
            superseded, successor = self.supersession.link(transaction, older, newer, moment=sides.moment)
            result.memories |= {superseded.id: superseded, successor.id: successor}
            released = self.conflict_states.update(transaction, [superseded])
            result.memories |= released
            result.is_more_stated = result.is_more_stated or bool(released)
            conflict = self.conflict_states.settle(conflict, ConflictState.CONFIRMED)
        else:
            conflict = self.conflict_states.settle(conflict, ConflictState.KEPT_BOTH)
        transaction.add_conflicts([conflict])
        result.conflicts.setdefault(written.id, []).append((conflict, older, newer))


@dataclass(frozen=True, slots=True)
class _Said:
    """A written memory.

    Attributes:
        moment: The last moment at which it may have been said.
        later: The ids of the memories that are compared after it, each with what was written before.
        comparands: What it is compared with.
    """

    memory: Memory
    moment: datetime
    later: AbstractSet[str]
    comparands: _Comparands


class _Comparands:
    """The statements and reminders that the memories of one write are compared with, read once for all of them.

    A batch may state something of the same topic in each of its memories, and all other writers wait for its reads.
    """

    def __init__(self, transaction: Transaction, new: Sequence[Memory], result: DetectionResult) -> None:
        """Read by *transaction*; *new* memories are stored in it, *result* has the states of those it has changed."""
        self._transaction = transaction
        self._result = result
        # Between them there are only rows of memories that are written with them.
        self._rows = range(min(rows), max(rows) + 1) if (rows := [memory.row for memory in new]) else range(0)
        self._facts: dict[tuple[str, str], list[StoredFact]] = {}
        self._said: dict[tuple[str, str], deque[StoredFact]] = {}
        self._reminders: dict[tuple[str, date], list[Memory]] = {}

    def add(self, memory: Memory) -> None:
        """Have the memories that come after *memory* compared with it, if it is new."""
        if memory.row in self._rows:
            for statement in extract_statements(memory):
                said = self._said.setdefault((memory.scope.project_id, statement.topic), deque())
                said.appendleft(StoredFact(memory.id, statement))
        if self._result.is_more_stated:
            self._result.is_more_stated = False
            self._facts.clear()
            self._reminders.clear()

    def is_after(self, one: Memory, other: Memory) -> bool:
        """Return whether a memory is written after another new one, with it."""
        return other.row in self._rows and one.row > other.row

    def facts(self, owner: str, project_id: str, topics: Sequence[str]) -> list[StoredFact]:
        """Return what ACTIVE memories state about the topics, as `Transaction.find_facts`.

        New ones that were not added are left out.
        """
        found: list[StoredFact] = []
        for topic in dict.fromkeys(topics):
            stored = self._stored(owner, project_id, topic)
            said = filter(self._is_active, self._said.get((project_id, topic), ()))
            found += islice(chain(said, stored), CANDIDATES)
        return found

    def _stored(self, owner: str, project_id: str, topic: str) -> list[StoredFact]:
        """Return what ACTIVE memories that are not new state about a topic, the newest first."""
        known = self._facts.get((project_id, topic), [])
        found = list(filter(self._is_active, known))
        if (project_id, topic) not in self._facts or len(found) < len(known) == CANDIDATES:
            found = self._transaction.find_facts(owner, project_id, [topic], limit=CANDIDATES, without=self._rows)
        self._facts[project_id, topic] = found
        return found

    def _is_active(self, stated: StoredFact) -> bool:
        changed = self._result.memories.get(stated.memory_id)
        return changed is None or changed.status is Status.ACTIVE

    def single_reminders(self, owner: str, project_id: str, since: date) -> list[Memory]:
        """Return the memories with a reminder of one day, as `Transaction.single_reminders`, in their present state."""
        known = self._reminders.get((project_id, since), [])
        found = [one for one in map(self._result.current, known) if has_single_reminder(one)]
        if (project_id, since) not in self._reminders or len(found) < len(known) == REMINDED:
            found = self._transaction.single_reminders(owner, project_id, since=since, limit=REMINDED)
        self._reminders[project_id, since] = found
        return found


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two memories that contradict each other.

    Attributes:
        statements: What the older and what the newer one states.
        moment: When a newer memory that is stored already superseded the older one; None: now.
    """

    older: Memory
    newer: Memory
    statements: tuple[Fact, Fact]
    moment: datetime | None = None


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
