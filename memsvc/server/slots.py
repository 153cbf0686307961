"""Slots of streams and searches, of which no tenant and no key can hold all."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from memsvc.domain.errors import LimitExceededError
from memsvc.engine.user_data.export import MAX_CONCURRENT_EXPORTS
from memsvc.server import call_context
from memsvc.server.call_context import Principal

MAX_IMPORTS = 16
"""Streams of imports and documents under way."""


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """Shares of slots, and the time that a silent client may hold one.

    Attributes:
        tenant_share: The share of the slots of each kind that the keys of one tenant may hold, at least one slot.
        key_share: That of one key.
        first_message_seconds: The time that a client has for the first message of a stream of requests.
        next_message_seconds: The time that it has for each of the others.
        reader_seconds: The time that it has to read a message of a stream of responses.
    """

    tenant_share: float = 0.75
    key_share: float = 0.5
    first_message_seconds: float = 10.0
    next_message_seconds: float = 60.0
    reader_seconds: float = 60.0


class Slots:
    """A number of slots of one kind. To be used in one thread: that of the event loop.

    Calls without a key have no share: without authentication all callers are one.
    """

    def __init__(self, count: int, options: SlotOptions, *, name: str) -> None:
        """Give out *count* slots; *name* says in errors what they are for, with the setting of their number."""
        self._count = count
        self._of_tenant = max(1, int(count * options.tenant_share))
        self._of_key = max(1, int(count * options.key_share))
        self._name = name
        self._held = 0
        self._tenants: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()

    @contextmanager
    def acquired(self) -> Iterator[None]:
        """Hold a slot for the caller while the context is open.

        Raises:
            LimitExceededError: There is none, or the caller's tenant or key holds as many as it may.
        """
        principal = call_context.principal.get()
        if problem := self.problem(principal):
            raise LimitExceededError(problem, retry_seconds=1.0)
        self.take(principal)
        try:
            yield
        finally:
            self.release(principal)

    def problem(self, principal: Principal) -> str:
        """Return the limit that keeps a caller from a slot; empty if it can have one."""
        if self._held >= self._count:
            return f"{self._count} {self._name}"
        if not principal.key_id:
            return ""
        if self._tenants[principal.tenant_id] >= self._of_tenant:
            return f"{self._of_tenant} of {self._count} {self._name} by one tenant (setting server.tenant_share)"
        if self._keys[principal.key_id] >= self._of_key:
            return f"{self._of_key} of {self._count} {self._name} by one key (setting server.key_share)"
        return ""

    def take(self, principal: Principal) -> None:
        """Count a slot as held."""
        self._add(principal, 1)

    def release(self, principal: Principal) -> None:
        """Count a slot as free."""
        self._add(principal, -1)

    def _add(self, principal: Principal, change: int) -> None:
        self._held += change
        if principal.key_id:
            for counter, name in ((self._tenants, principal.tenant_id), (self._keys, principal.key_id)):
                counter[name] += change
                if not counter[name]:
                    del counter[name]


class Turns:
    """Turns of calls with keys on a pool of threads, each key in turn. To be used in the thread of the event loop.

    A key waits in a line of its own, so that the calls of one do not fill the queue that the others wait in.
    """

    def __init__(self, threads: int, queued: int, options: SlotOptions, *, name: str) -> None:
        """Let calls use *threads* threads; those of one key that wait are at most its share of *queued*."""
        self._slots = Slots(threads, options, name=name)
        self._queued = max(1, int(queued * options.key_share))
        self._waiting: dict[str, deque[tuple[Principal, asyncio.Future[None]]]] = {}
        self._name = name

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a thread's slot while the context is open, once it is the caller's turn; at once without a key.

        Raises:
            LimitExceededError: Too many calls of the key wait.
        """
        principal = call_context.principal.get()
        if not principal.key_id:
            yield
            return
        if principal.key_id in self._waiting or self._slots.problem(principal):
            await self._wait(principal)
        else:
            self._slots.take(principal)
        try:
            yield
        finally:
            self._slots.release(principal)
            self._wake()

    async def _wait(self, principal: Principal) -> None:
        waiting = self._waiting.setdefault(principal.key_id, deque())
        if len(waiting) >= self._queued:
            limit = f"{self._queued} {self._name} of one key that wait (settings server.queue_factor, server.key_share)"
            raise LimitExceededError(limit)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((principal, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._slots.release(principal)
            self._wake()
            raise

    def _wake(self) -> None:
        """Give free slots to those who wait, the key whose turn is the longest ago first."""
        for key_id in list(self._waiting):
            waiting = self._waiting[key_id]
            while waiting and waiting[0][1].done():
                waiting.popleft()
            has_turn = bool(waiting) and not self._slots.problem(waiting[0][0])
            if has_turn:
                principal, turn = waiting.popleft()
                self._slots.take(principal)
                turn.set_result(None)
            if has_turn or not waiting:
                del self._waiting[key_id]
                if waiting:
                    self._waiting[key_id] = waiting


@dataclass(frozen=True, slots=True)
class ServerSlots:
    """The slots of a server.

    Attributes:
        files: Those of uploads and downloads.
        watches: Those of watches.
        exports: Those of exports of users.
        imports: Those of imports and of documents.
        searches: The turns of searches.
    """

    files: Slots
    watches: Slots
    exports: Slots
    imports: Slots
    searches: Turns

    @classmethod
    def of(
        cls, options: SlotOptions, *, files: int, watches: int, search_threads: int, queue_factor: int
    ) -> ServerSlots:
        """Return all of them, none held."""
        return cls(
            Slots(files, options, name="uploads and downloads at a time (setting files.max_streams)"),
            Slots(watches, options, name="watches (setting watch.max_streams)"),
            Slots(MAX_CONCURRENT_EXPORTS, options, name="exports at a time"),
            Slots(MAX_IMPORTS, options, name="imports at a time"),
            Turns(search_threads, search_threads * queue_factor, options, name="searches"),
        )
