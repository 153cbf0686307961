"""The reading half of the dict-based metadata store: memories, and what is to be indexed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.context import Essential, is_in_use
from memsvc.domain.diagnostics import MemoryCounts
from memsvc.domain.filter_evaluation import memory_matches
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Change, Chunk, Document, Expected, Hit, View, entry_id
from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier, fingerprint
from memsvc.domain.memory_keys import DAILY
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order, PageCursor, candidate_of
from memsvc.ports.candidates import Candidates, Rows
from memsvc.ports.operations import LogPlace
from memsvc_backends.in_memory.history import InprocHistoryReads
from memsvc_backends.in_memory.state import State, is_live, is_named, is_within

_DIGITS = 9
"""Scores are compared to this many digits: sums of fractions differ in the last bits with the order of adding."""


class InprocMemoryReads(InprocHistoryReads):
    """`memsvc.ports.metadata.MemoryReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, ids: Sequence[str], *, reach: Reach) -> dict[str, Memory]:
        """Return those that are there."""
        return {memory.id: memory for memory in self._state().memories(reach) if memory.id in ids}

    def get_by_key(self, key: str, *, reach: Reach) -> Memory | None:
        """Return the bearer of the key, in the first project of the reach that has one."""
        bearers = [memory for memory in self._state().memories(reach) if key and memory.key == key and is_named(memory)]
        return min(bearers, key=lambda memory: reach.project_ids.index(memory.scope.project_id), default=None)

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return those that are there, by row."""
        state = self._state()
        found = {row: state.memory(row) for row in rows}
        return {row: memory for row, memory in found.items() if memory is not None and is_within(reach, memory)}

    def page(
        self, *, reach: Reach, where: Filter | None, order: Order, after: PageCursor | None, limit: int
    ) -> list[Memory]:
        """Return one page of a list."""

        def place(value: int | None, row: int) -> tuple[bool, int, int]:
            sign = -1 if order.descending else 1
            return value is None, 0 if value is None else sign * value, row

        places = {
            place(_order_value(memory, order), memory.row): memory
            for memory in self._state().memories(reach)
            if memory_matches(where, memory)
        }
        following = sorted(p for p in places if after is None or p > place(after.value, after.row))
        return [places[p] for p in following[: max(0, limit)]]

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return what ranking needs."""
        wanted = [int(row) for row in rows]
        return Candidates.of(candidate_of(memory) for memory in self.by_rows(wanted, reach=reach).values())

    def keyword_hits(self, terms: Sequence[str], *, reach: Reach, where: Filter | None, limit: int) -> list[Hit]:
        """Search the keyword table."""
        hits = []
        for memory in self._state().memories(reach):
            weights = {keyword.term: keyword.weight for keyword in memory.keywords}
            matched = [weight for term, weight in weights.items() if term in terms]
            if matched and is_live(memory) and memory_matches(where, memory):
                score = min(0.3 * sum(matched) + 0.2 * len(matched), 1.0)
                hits.append(Hit(entry_id(memory.row, View.CHUNK, 0), round(score, _DIGITS)))
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[: max(0, limit)]

    def rows_where(self, where: Filter, *, reach: Reach) -> list[int]:
        """Return the rows that match, ascending."""
        return [memory.row for memory in self._state().memories(reach) if memory_matches(where, memory)]

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return stored chunks."""
        records = self._state().records
        stored = {
            (row, chunk.ordinal): chunk
            for row in {row for row, _ in wanted} & records.keys()
            if len(records[row].chunks) > 1
            for chunk in records[row].chunks
        }
        return {name: stored[name] for name in wanted if name in stored}

    def essentials(self, essential: Essential, *, reach: Reach, now: datetime, limit: int) -> list[Memory]:
        """Return what is loaded at a start."""
        found = [
            memory
            for memory in self._state().memories(reach)
            if is_in_use(memory, now) and memory.layer is not Layer.SESSION and _is_essential(memory, essential)
        ]
        return sorted(found, key=lambda memory: (-memory.importance, memory.row))[: max(0, limit)]

    def next_essential(self, *, reach: Reach, now: datetime) -> datetime | None:
        """Return when the next essential memory begins to hold."""
        moments = (
            memory.valid_from
            for memory in self._state().memories(reach)
            if memory.status is Status.ACTIVE
            and memory.layer is not Layer.SESSION
            and any(_is_essential(memory, essential) for essential in Essential)
        )
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def session_rows(self, session_id: str, *, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of a session."""
        rows = [
            memory.row
            for memory in self._state().memories(reach)
            if is_in_use(memory, now)
            and memory.scope.session_id == session_id
            and (memory.layer is Layer.SESSION or memory.kind is Kind.MESSAGE)
        ]
        return rows[::-1][: max(0, limit)]

    def recent_rows(self, *, since: datetime, reach: Reach, now: datetime, limit: int) -> list[int]:
        """Return the rows of what was changed lately."""
        found = [
            memory
            for memory in self._state().memories(reach)
            if is_in_use(memory, now) and memory.layer is Layer.SHORT_TERM and memory.update_time >= since
        ]
        found.sort(key=lambda memory: (memory.update_time, memory.row), reverse=True)
        return [memory.row for memory in found[: max(0, limit)]]

    def revision(self, memory_id: str, revision: int, *, reach: Reach) -> Memory | None:
        """Return one revision of a memory."""
        state = self._state()
        current = self.get([memory_id], reach=reach).get(memory_id)
        if current is None or current.revision == revision:
            return current
        return state.revisions.get((current.row, revision))

    def counts(self, *, reach: Reach) -> MemoryCounts:
        """Count the memories of the reach."""
        state = self._state()
        every = list(state.memories(reach))
        live = [memory for memory in every if is_live(memory)]
        return MemoryCounts(
            total=len(live),
            by_layer=Counter(memory.layer.value for memory in live),
            by_kind=Counter(memory.kind.value for memory in live),
            by_tier=Counter(memory.tier.value for memory in live),
            by_status=Counter(memory.status.value for memory in every),
            content_bytes=sum(len(memory.content.encode()) for memory in live),
            core_tokens=sum(_tokens(memory) for memory in live if memory.layer is Layer.CORE),
            session_tokens=sum(_tokens(memory) for memory in live if memory.layer is Layer.SESSION),
            chunks=sum(_chunk_count(state, memory.row) for memory in live),
        )


class InprocIndexFeed:
    """`memsvc.ports.metadata.IndexFeed`."""

    def __init__(self, state: Callable[[], State], change: Callable[[Callable[[State], int]], int]) -> None:
        """Read what *state* returns, and change it by *change*."""
        self._state = state
        self._change = change

    def documents(self, rows: Sequence[int]) -> list[Document]:
        """Return memories for indexing."""
        state = self._state()
        wanted = set(rows)
        return [state.document(record) for record in state.indexed() if record.memory.row in wanted]

    def scan(self, *, after_row: int, limit: int) -> list[Document]:
        """Return the next memories for indexing."""
        state = self._state()
        following = [record for record in state.indexed() if record.memory.row > after_row]
        return [state.document(record) for record in following[: max(0, limit)]]

    def expected(self, *, after_row: int, limit: int) -> list[Expected]:
        """Return what the indexes should hold."""
        state = self._state()
        following = [record.memory for record in state.indexed() if record.memory.row > after_row]
        return [Expected(m.row, fingerprint(m), _chunk_count(state, m.row)) for m in following[: max(0, limit)]]

    def indexable(self) -> int:
        """Count the memories that the indexes should hold."""
        return len(self._state().indexed())

    def pending(self, *, limit: int) -> list[Change]:
        """Return the oldest changes that are not applied."""
        state = self._state()
        return [state.outbox[position] for position in sorted(state.pending)[: max(0, limit)]]

    @contextmanager
    def claim(self, wanted: Sequence[int], *, limit: int) -> Iterator[list[Change]]:
        """Lend the changes wanted, or the oldest; there is nobody else."""
        state = self._state()
        found = sorted(state.pending.intersection(wanted)) or sorted(state.pending)
        yield [state.outbox[position] for position in found[: max(0, limit)]]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Do nothing: there is nobody else."""
        yield

    def require_lent(self) -> None:
        """Return: there is nobody else."""

    def applied_among(self, positions: Sequence[int]) -> set[int]:
        """Return those that are applied."""
        return set(positions) - self._state().pending

    def since(self, position: int, *, limit: int) -> list[Change]:
        """Return the changes after a position."""
        outbox = self._state().outbox
        return [outbox[later] for later in sorted(outbox) if later > position][: max(0, limit)]

    def mark_applied(self, changes: Sequence[Change]) -> None:
        """Note that changes are applied."""

        def mark(state: State) -> int:
            state.pending -= {change.position for change in changes}
            return len(changes)

        self._change(mark)

    def settle(self) -> None:
        """Return: what is noted is kept at once."""

    def head(self) -> int:
        """Return the newest position."""
        return self._state().last_position

    def applied(self) -> int:
        """Return the position below the oldest change that is not applied."""
        state = self._state()
        return min(state.pending) - 1 if state.pending else state.last_position

    def pending_count(self) -> int:
        """Count the changes that are not applied."""
        return len(self._state().pending)

    def trim(self, *, before: datetime) -> int:
        """Remove the oldest changes."""
        bound = to_micros(before)

        def remove(state: State) -> int:
            held = [p for p, change in state.outbox.items() if p in state.pending or change.time >= bound]
            first = min(held, default=state.last_position + 1)
            old = [p for p in state.outbox if p < first]
            for position in old:
                del state.outbox[position], state.places[position]
            return len(old)

        return self._change(remove)


def _order_value(memory: Memory, order: Order) -> int | None:
    value = getattr(memory, order.field.value)
    return to_micros(value) if isinstance(value, datetime) else value


def _is_essential(memory: Memory, essential: Essential) -> bool:
    return {
        Essential.CORE: memory.layer is Layer.CORE or memory.tier is Tier.CORE,
        Essential.ACTIVE: memory.tier is Tier.ACTIVE,
        Essential.PREFERENCE: memory.kind is Kind.PREFERENCE,
    }[essential]


def _chunk_count(state: State, row: int) -> int:
    return max(1, len(state.records[row].chunks))


def _tokens(memory: Memory) -> int:
    return -(-len(memory.content.encode()) // 4)


# Daily logs of the dict-based metadata store.


class InprocLogs:
    """`memsvc.ports.operations.LogReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def old_logs(self, area: Area, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next old logs."""
        logs = {
            (memory.key, memory.row): memory
            for memory in (record.memory for record in self._state().live())
            if memory.status is Status.ACTIVE and memory.key.startswith(DAILY) and memory.key < before
            and area.holds(memory.scope)
        }  # fmt: skip
        following = sorted(place for place in logs if place > (after.key, after.row))
        return [logs[place] for place in following[: max(0, limit)]]
