"""Reads of memories by id, by key and by page, and access counts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import InvalidRequestError, MemoryNotFoundError
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, conjunction
from memsvc.domain.memory import UNNAMED, Memory, Status
from memsvc.domain.scope import Reach, Scope, SessionVisibility, Visibility
from memsvc.domain.search import Order, PageCursor, Selection
from memsvc.domain.visibility import session_privacy, visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.conflicts.supersession import supersession_chain
from memsvc.ports.metadata import MemoryReads, Transaction


@dataclass(frozen=True, slots=True)
class MemoryName:
    """The name of one memory in a request: its id, or else its key in exactly the scope's project."""

    id: str = ""
    key: str = ""

    @contextmanager
    def name_violations(self) -> Iterator[None]:
        """Report what is wrong with the memory's id as an error of its key if the request names it by that.

        Raises:
            InvalidRequestError: As the block raised it, with the field of the request.
        """
        try:
            yield
        except InvalidRequestError as error:
            if not self.key:
                raise
            own = (replace(one, field="key") if one.field == "id" else one for one in error.violations)
            raise InvalidRequestError(tuple(own)) from error


class KeyResolver:
    """Resolves the key that a request names its memory by, with the same result when the request is repeated."""

    def __init__(self, reads: MemoryReads, committer: GroupCommitter) -> None:
        """Resolve keys by *reads*; results of requests with an id are remembered with the request."""
        self._reads = reads
        self._committer = committer

    def id_of(
        self, scope: Scope, name: MemoryName, *, method: str, request_id: str = "", prefer: Status | None = None
    ) -> str:
        """Return the id of the memory that *name* means.

        Of a key that is the memory that holds it, or else the last changed one that was deleted with it. With *prefer*
        memories of that status, which do not hold their key, come first.

        Raises:
            MemoryNotFoundError: There is none, or it is private to another session.
            RequestIdReusedError: The request_id was used for another request.
        """
        if name.id:
            return name.id
        if not request_id:
            return self._find(scope, name.key, prefer)
        reach = Reach.from_scope(scope)
        request = IdempotentRequest(f"{method}/key", request_id, request_digest(scope, name.key), reach)

        def work(transaction: Transaction) -> str:
            answer = recall_answer(transaction, request)
            if answer is not None:
                return str(answer)
            memory_id = self._find(scope, name.key, prefer)
            remember_answer(transaction, request, memory_id)
            return memory_id

        return self._committer.submit(work, owner=scope.owner).value

    def _find(self, scope: Scope, key: str, prefer: Status | None) -> str:
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        found = None if prefer is None else self._reads.get_by_former_key(key, prefer, reach=reach)
        found = found or self._reads.get_by_key(key, reach=reach)
        found = found or self._reads.get_by_former_key(key, Status.DELETED, reach=reach)
        if found is None or not visible(found, scope):
            raise MemoryNotFoundError(key)
        return found.id


_HOLDS_KEY = Not(AnyOf(Field.STATUS, tuple(status.value for status in UNNAMED)))
"""The rule of `MemoryReads.get_by_key`."""
INTERVAL = timedelta(hours=1)
"""Accesses of a memory count at most once within this time."""
_MOST_TRACKED = 100_000
"""Number of memories whose latest access is kept in memory; beyond it the oldest may count again too early."""


class MemoryReader:
    """Reads from the store, so that every acknowledged change is visible."""

    def __init__(self, reads: MemoryReads, accesses: AccessCounts) -> None:
        """Read from *reads*; record accesses in *accesses*."""
        self._reads = reads
        self._accesses = accesses

    def get(self, scope: Scope, memory_id: str) -> Memory:
        """Return a memory of the scope's project or a global one; counts as an access.

        Raises:
            MemoryNotFoundError: The memory does not exist, is deleted, or is private to another session.
        """
        memory = self.get_many(scope, (memory_id,)).get(memory_id)
        if memory is None:
            raise MemoryNotFoundError(memory_id)
        return memory

    def get_by_key(self, scope: Scope, key: str) -> Memory:
        """Return the memory with *key* in exactly the scope's project; counts as an access.

        Raises:
            MemoryNotFoundError: As for `get`.
        """
        memory = self._reads.get_by_key(key, reach=Reach.from_scope(scope, Visibility.PROJECT))
        if memory is None or not _is_visible(memory, scope):
            raise MemoryNotFoundError(key)
        self._accesses.note((memory.id,))
        return memory

    def get_many(
        self, scope: Scope, ids: Sequence[str], sessions: SessionVisibility = SessionVisibility.CURRENT
    ) -> dict[str, Memory]:
        """Return the memories that `get` would return, by id; counts as an access of each."""
        stored = self._reads.get(ids, reach=Reach.from_scope(scope))
        found = {memory_id: memory for memory_id, memory in stored.items() if _is_visible(memory, scope, sessions)}
        self._accesses.note(found)
        return found

    def get_many_by_key(self, scope: Scope, keys: Sequence[str]) -> dict[str, Memory]:
        """Return the memories that `get_by_key` would return, by key; counts as an access of each."""
        if not keys:
            return {}
        where = And((AnyOf(Field.KEY, tuple(keys)), _HOLDS_KEY))
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        stored = self._reads.page(reach=reach, where=where, order=Order(), after=None, limit=len(keys))
        found = {memory.key: memory for memory in stored if _is_visible(memory, scope)}
        self._accesses.note(memory.id for memory in found.values())
        return found

    def chain(self, scope: Scope, memory: Memory) -> list[Memory]:
        """Return the supersession chain of *memory*, oldest first; not an access."""
        return supersession_chain(self._reads, scope, memory)

    def page(
        self, scope: Scope, selection: Selection, *, order: Order, after: PageCursor | None, limit: int
    ) -> tuple[list[Memory], PageCursor | None]:
        """Return the next *limit* memories and the cursor of the next page, None at the end. Not an access.

        A memory that exists unchanged during the whole iteration is returned exactly once.
        """
        reach, where = reach_of_selection(scope, selection)
        memories = self._reads.page(reach=reach, where=where, order=order, after=after, limit=limit + 1)
        if limit < 1 or len(memories) <= limit:
            return memories[:limit], None
        return memories[:limit], _cursor(memories[limit - 1], order)


def reach_of_selection(scope: Scope, selection: Selection) -> tuple[Reach, Filter | None]:
    """Return what a caller in *scope* may see of a selection: the reach, and the filter with the rule of privacy."""
    where = conjunction(selection.where, session_privacy(scope, selection.sessions))
    return Reach.from_scope(scope, selection.visibility), where


def _is_visible(memory: Memory, scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> bool:
    return memory.status is not Status.DELETED and visible(memory, scope, sessions)


def _cursor(memory: Memory, order: Order) -> PageCursor:
    value: datetime | int | None = getattr(memory, order.field.value)
    return PageCursor(to_micros(value) if isinstance(value, datetime) else value, memory.row)


# Access counts are recorded in memory and written in batches, so that reads stay fast.


class AccessCounts:
    """Access counts that wait to be written. Thread-safe.

    Only a crash loses counts, if `flush` runs every few seconds and once before the committer closes.
    """

    def __init__(self, committer: GroupCommitter, now: Callable[[], datetime]) -> None:
        """Write by *committer*; *now* is the clock."""
        self._committer = committer
        self._now = now
        self._lock = threading.Lock()
        self._counted: OrderedDict[str, datetime] = OrderedDict()
        self._pending: dict[str, tuple[int, datetime]] = {}

    def note(self, ids: Iterable[str]) -> None:
        """Count an access of each memory, unless one was counted within the last hour. Does no I/O."""
        now = self._now()
        with self._lock:
            for memory_id in ids:
                latest = self._counted.get(memory_id)
                if latest is None or now - latest >= INTERVAL:
                    self._counted[memory_id] = now
                    self._counted.move_to_end(memory_id)
                    self._add(memory_id, 1, now)
            while len(self._counted) > _MOST_TRACKED:
                self._counted.popitem(last=False)

    def flush(self) -> None:
        """Write the recorded counts; return once they are durable.

        Raises:
            BackendUnavailableError: The store cannot be reached; the counts are kept for the next flush.
            BackendClosedError: The committer is closed; the counts are kept.
        """
        with self._lock:
            accesses, self._pending = self._pending, {}
        if not accesses:
            return
        is_written = False
        try:
            self._committer.submit(lambda transaction: transaction.add_accesses(accesses))
            is_written = True
        finally:
            if not is_written:
                with self._lock:
                    for memory_id, (count, time) in accesses.items():
                        self._add(memory_id, count, time)

    def _add(self, memory_id: str, count: int, time: datetime) -> None:
        before, latest = self._pending.get(memory_id, (0, time))
        self._pending[memory_id] = (before + count, max(latest, time))
