"""The log of changes of the dict-based metadata store, for those who watch memories."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.ports.change_feed import ChangePage, LoggedChange
from memsvc_backends.in_memory.state import State


class InprocChangeFeed:
    """`memsvc.ports.change_feed.ChangeFeed`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read what *state* returns."""
        self._state = state
        self._identity = uuid.uuid4().hex

    @property
    def identity(self) -> str:
        """Return a fresh name: nothing outlives the store."""
        return self._identity

    def after(self, position: int, *, reach: Reach, limit: int) -> ChangePage:
        """Return the changes after a position."""
        state = self._state()
        found = list(_within(state, position, reach))
        changes = tuple(found[:limit])
        is_all = len(found) < limit
        return ChangePage(
            changes=changes,
            position=max(position, state.last_position) if is_all else changes[-1].change.position,
            is_all=is_all,
            kept_after=min(state.outbox, default=state.last_position + 1) - 1,
            head=state.last_position,
        )

    def count(self, position: int, *, reach: Reach) -> int:
        """Count the changes after a position."""
        return sum(1 for _ in _within(self._state(), position, reach))

    def states(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Memory]:
        """Return memories as they were."""
        state = self._state()
        found: dict[tuple[int, int], Memory] = {}
        for row, revision in wanted:
            current = state.memory(row)
            memory = current if current and current.revision == revision else state.revisions.get((row, revision))
            if memory is not None:
                found[row, revision] = memory
        return found


def _within(state: State, position: int, reach: Reach) -> Iterator[LoggedChange]:
    for later in sorted(state.outbox):
        owner, project, private_session = state.places[later]
        if later > position and owner == reach.owner and project in reach.project_ids:
            yield LoggedChange(state.outbox[later], private_session)
