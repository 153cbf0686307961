"""What upkeep is due, and leases, in dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.ports.operations import ScanPosition, Waiting
from memsvc_backends.in_memory.state import State


class InprocUpkeepReads:
    """`memsvc.ports.operations.UpkeepReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def expired(self, area: Area, *, at: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return what has expired."""
        places: dict[ScanPosition, Memory] = {
            (to_micros(memory.expire_time), memory.row): memory
            for memory in self._kept_up(area)
            if memory.expire_time is not None and memory.expire_time <= at
        }
        return _listed(places, after, limit)

    def read_often(self, area: Area, *, least: int, at: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return what was read often."""
        places: dict[ScanPosition, Memory] = {
            (memory.access_count, memory.row): memory
            for memory in self._kept_up(area, Layer.SHORT_TERM)
            if memory.access_count >= least
            and memory.update_time < at
            and (memory.expire_time is None or memory.expire_time > at)
            and not memory.work_in_progress
            and memory.kind is not Kind.MESSAGE
        }
        return _listed(places, after, limit)

    def unread(self, area: Area, *, since: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return what was not read lately."""
        places: dict[ScanPosition, Memory] = {}
        for memory in self._kept_up(area, Layer.LONG_TERM):
            if _is_used(memory, since):
                continue
            created = to_micros(memory.create_time)
            read = (0, created) if memory.access_time is None else (1, to_micros(memory.access_time), created)
            places[*read, memory.row] = memory
        return _listed(places, after, limit)

    def above(self, area: Area, *, content_bytes: int, since: datetime, at: datetime) -> dict[str, int]:
        """Return who keeps too much."""
        totals: dict[str, int] = defaultdict(int)
        for memory in self._kept_up(Area(area.owner), Layer.LONG_TERM):
            if memory.update_time < at and _is_used(memory, since):
                totals[memory.scope.owner] += len(memory.content.encode())
        return {owner: total - content_bytes for owner, total in sorted(totals.items()) if total > content_bytes}

    def least_useful(
        self, area: Area, *, owner: str, since: datetime, at: datetime, after: ScanPosition, limit: int
    ) -> list[Waiting]:
        """Return what is of little use."""
        places: dict[ScanPosition, Memory] = {
            (memory.importance, memory.access_count, memory.row): memory
            for memory in self._kept_up(area, Layer.LONG_TERM)
            if memory.scope.owner == owner and memory.update_time < at and _is_used(memory, since)
        }
        return _listed(places, after, limit)

    def _kept_up(self, area: Area, layer: Layer | None = None) -> Iterator[Memory]:
        for record in self._state().records.values():
            memory = record.memory
            is_active = (
                memory.status is Status.ACTIVE and memory.tier is not Tier.CORE and memory.layer is not Layer.CORE
            )
            if is_active and area.holds(memory.scope) and layer in {None, memory.layer}:
                yield memory


class InprocLeases:
    """`memsvc.ports.operations.Leases`."""

    def __init__(self, state: Callable[[], State], change: Callable[[Callable[[State], int]], int]) -> None:
        """Read what *state* returns, and change it by *change*."""
        self._state = state
        self._change = change

    def take(self, name: str, *, holder: str, now: datetime, until: datetime) -> bool:
        """Take a name."""

        def work(state: State) -> int:
            has, end, last_end = state.leases.get(name, ("", now, None))
            is_free = has == holder or end <= now
            if is_free:
                state.leases[name] = (holder, until, last_end)
            return is_free

        return bool(self._change(work))

    def release(self, name: str, *, holder: str, ended: datetime | None) -> None:
        """Let a name go."""

        def work(state: State) -> int:
            has, end, last_end = state.leases.get(name, ("", None, None))
            if has == holder and end is not None:
                state.leases[name] = (holder, datetime.min.replace(tzinfo=end.tzinfo), ended or last_end)
            return 0

        self._change(work)

    def last_end(self, name: str) -> datetime | None:
        """Return when work was finished last."""
        lease = self._state().leases.get(name)
        return None if lease is None else lease[2]


def _is_used(memory: Memory, since: datetime) -> bool:
    return memory.update_time >= since or (memory.access_time or memory.create_time) >= since


def _listed(places: dict[ScanPosition, Memory], after: ScanPosition, limit: int) -> list[Waiting]:
    following = sorted(place for place in places if not after or place > after)
    return [_waiting(place, places[place]) for place in following[: max(0, limit)]]


def _waiting(place: ScanPosition, memory: Memory) -> Waiting:
    size = len(memory.content.encode())
    return Waiting(memory.row, memory.id, memory.scope, place, memory.work_in_progress, size)
