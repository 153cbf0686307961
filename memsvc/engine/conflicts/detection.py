"""Finding what a newly written memory contradicts, within the transaction that writes it.

What ACTIVE memories state is kept by topic, so a write asks by equality for the few statements it can contradict: no
search, no model, and nothing that another writer could change before the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memsvc.domain.conflicts import Conflict, ConflictPolicy, ConflictState, Contradiction, Statement, contradicts
from memsvc.domain.history import is_valid_at
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.engine.conflicts.rollback import ConflictRollback
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import SupersessionLinks
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.records.statements import differs_in_project, extract_statements, is_personal, states_more
from memsvc.ports.metadata import Transaction

CANDIDATES = 64
"""How many statements on one topic are looked at, those of the newest memories first."""
MOST = 16
"""How many memories one write puts in question at most."""


@dataclass(slots=True)
class DetectionResult:
    """What came of looking.

    Attributes:
        memories: The memories that were changed thereby, as they are now, by id.
        conflicts: What each written memory contradicts, and the older memory, by its id.
    """

    memories: dict[str, Memory] = field(default_factory=dict)
    conflicts: dict[str, list[tuple[Conflict, Memory]]] = field(default_factory=dict)

    def current(self, memory: Memory) -> Memory:
        """Return *memory* as it is now."""
        return self.memories.get(memory.id, memory)

    def shown(self, memory: Memory) -> tuple[Contradiction, ...]:
        """Return what a written memory contradicts, with both sides as they are now."""
        return tuple(
            Contradiction(conflict, self.current(older), self.current(memory))
            for conflict, older in self.conflicts.get(memory.id, ())
        )


class ConflictDetector:
    """Looks for contradictions and applies the policy. It holds nothing, so there may be several."""

    def __init__(self, memory_builder: MemoryBuilder, record_builder: RecordBuilder) -> None:
        """Take times and ids from *memory_builder*, write by *record_builder*."""
        self._memory_builder = memory_builder
        self.conflict_states = ConflictStateUpdater(record_builder, memory_builder.now)
        self.supersession = SupersessionLinks(record_builder, memory_builder.now)
        self.conflict_rollback = ConflictRollback(record_builder, memory_builder.now)

    def detect(
        self,
        transaction: Transaction,
        stating: Sequence[Memory],
        *,
        policy: ConflictPolicy | None,
        changed: Sequence[Memory] = (),
    ) -> DetectionResult:
        """Settle the open conflicts of *changed* memories, then look what each of *stating* contradicts, in order.

        Both as they are stored. A memory is compared with those before it in *stating*, not with those after it.
        Without a policy nothing is compared. Only what is valid at present contradicts: what was so once, or will be,
        may well be otherwise.
        """
        findings = DetectionResult(memories=self.conflict_states.update(transaction, changed))
        if policy is None:
            return findings
        later = [memory.id for memory in stating]
        for memory in stating:
            later.remove(memory.id)
            self._look_at(transaction, memory, frozenset(later), policy, findings)
        return findings

    def before_purge(self, transaction: Transaction, memory: Memory) -> None:
        """Free the neighbours of a memory that is about to be removed for good."""
        self.conflict_states.update(transaction, [memory], gone=memory.id)
        self.supersession.close_gap(transaction, memory)

    def _look_at(
        self,
        transaction: Transaction,
        memory: Memory,
        later: frozenset[str],
        policy: ConflictPolicy,
        findings: DetectionResult,
    ) -> None:
        current = findings.current(memory)
        said = {statement.topic: statement for statement in extract_statements(current)}
        if not said or not is_valid_at(current, self._memory_builder.now()):
            return
        place = (memory.scope.owner, memory.scope.project_id)
        met: dict[str, tuple[Statement, Statement]] = {}
        found = transaction.find_statements(*place, list(said), limit=CANDIDATES)
        personal = [statement.topic for statement in said.values() if is_personal(statement)] if place[1] else []
        if personal:
            found = [*found, *transaction.find_statements(place[0], "", personal, limit=CANDIDATES)]
        for stated in found:
            own = said[stated.statement.topic]
            if stated.memory_id not in {memory.id, *later} and contradicts(stated.statement, own):
                met.setdefault(stated.memory_id, (stated.statement, own))
        if met and policy is ConflictPolicy.MARK:
            # A memory that says more stays in use while it is the older side of a conflict: it is marked once.
            for known in transaction.open_conflicts(place[0], [memory.id, *met]):
                if known.topic in said:
                    met.pop(known.newer_id if known.older_id == memory.id else known.older_id, None)
        for older_id, pair in list(met.items())[:MOST]:
            older = transaction.get(older_id, reach=Reach.from_scope(memory.scope))
            if older is not None and self._is_in_use(older):
                self._apply(transaction, older, findings.current(memory), pair, policy, findings)

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
        pair: tuple[Statement, Statement],
        policy: ConflictPolicy,
        findings: DetectionResult,
    ) -> None:
        conflict = self._conflict(older, newer, pair)
        if policy is ConflictPolicy.MARK or (differs_in_project(older, newer) and policy is ConflictPolicy.SUPERSEDE):
            if not (differs_in_project(older, newer) or states_more(older, pair[0])):
                findings.memories[older.id] = self.conflict_states.set_status(transaction, older, Status.CONFLICTED)
        elif policy is ConflictPolicy.SUPERSEDE:
            deprecated, successor = self.supersession.link(transaction, older, newer)
            findings.memories |= {deprecated.id: deprecated, successor.id: successor}
            findings.memories |= self.conflict_states.update(transaction, [deprecated])
            conflict = self.conflict_states.settle(conflict, ConflictState.CONFIRMED)
        else:
            conflict = self.conflict_states.settle(conflict, ConflictState.KEPT_BOTH)
        transaction.add_conflicts([conflict])
        findings.conflicts.setdefault(newer.id, []).append((conflict, older))

    def _conflict(self, older: Memory, newer: Memory, pair: tuple[Statement, Statement]) -> Conflict:
        before, said = pair
        return Conflict(
            id=self._memory_builder.new_id(),
            owner=newer.scope.owner,
            project_id=newer.scope.project_id,
            older_id=older.id,
            newer_id=newer.id,
            rule=said.rule,
            topic=said.topic,
            older_value=before.value,
            newer_value=said.value,
            create_time=self._memory_builder.now(),
        )
