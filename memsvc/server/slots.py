"""Slots of streams and turns of calls on threads, of which no tenant, no key and no user can hold all."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import ParamSpec, TypeVar

from memsvc.domain.errors import LimitExceededError, LimitKind
from memsvc.engine.user_data.export import MAX_CONCURRENT_EXPORTS
from memsvc.server import call_context
from memsvc.server.call_context import Principal

P = ParamSpec("P")
T = TypeVar("T")
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

    Without authentication anybody can name any user, so that the share of a user then only keeps users from holding
    all slots by accident.
    """

    def __init__(self, count: int, options: SlotOptions, *, name: str) -> None:
        """Give out *count* slots; *name* says in errors what they are for, with the setting of their number."""
        self._count = count
        self._of_tenant = max(1, int(count * options.tenant_share))
        self._of_key = max(1, int(count * options.key_share))
        self._of_user = ceil(count * options.tenant_share)
        self._name = name
        self.held = 0
        self._tenants: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    @contextmanager
    def acquired(self, user: str = "") -> Iterator[None]:
        """Hold a slot for the caller while the context is open.

        Args:
            user: The user that the call is for, who has a share of the slots if the caller has no key.

        Raises:
            LimitExceededError: There is none, or the caller's tenant, key or user holds as many as it may.
        """
        principal = call_context.principal.get()
        if problem := self.problem(principal, user):
            raise LimitExceededError(problem, retry_seconds=1.0, kind=LimitKind.SLOTS)
        self.take(principal, user)
        try:
            yield
        finally:
            self.release(principal, user)

    def problem(self, principal: Principal, user: str = "") -> str:
        """Return the limit that keeps a caller from a slot; empty if it can have one."""
        if self.held >= self._count:
            return f"{self._count} {self._name}"
        if not principal.key_id:
            is_full = bool(user) and self._users[user] >= self._of_user
            return self._share(self._of_user, "user", "tenant_share") if is_full else ""
        if self._tenants[principal.tenant_id] >= self._of_tenant:
            return self._share(self._of_tenant, "tenant", "tenant_share")
        if self._keys[principal.key_id] >= self._of_key:
            return self._share(self._of_key, "key", "key_share")
        return ""

    def take(self, principal: Principal, user: str = "") -> None:
        """Count a slot as held."""
        self._add(principal, user, 1)

    def release(self, principal: Principal, user: str = "") -> None:
        """Count a slot as free."""
        self._add(principal, user, -1)

    def _share(self, share: int, of: str, setting: str) -> str:
        return f"{share} of {self._count} {self._name} by one {of} (setting server.{setting})"

    def _add(self, principal: Principal, user: str, change: int) -> None:
        self.held += change
        if principal.key_id:
            _add(self._tenants, principal.tenant_id, change)
            _add(self._keys, principal.key_id, change)
        elif user:
            _add(self._users, user, change)


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:
        del counter[name]


# Turns of calls on pools of threads.


class CallClass(StrEnum):
    """Classes of calls, each with a bound of the time that a call may wait for a thread."""

    SEARCH = "search"
    READ = "read"
    WRITE = "write"
    LANGUAGE = "language"
    BULK = "bulk"
    ADMIN = "admin"


BULK_METHODS = frozenset(
    {
        "BatchCreateMemories", "BatchSearch", "ImportMemories", "IngestDocument", "ImportUser", "ExportUser",
        "EraseUser", "RollbackToCheckpoint", "RunMaintenance", "DetectConflicts", "ConsolidateMemories",
        "CheckIntegrity", "Reindex", "CreateBackup", "MigrateBackend", "SyncVault",
    }
)  # fmt: skip
"""Methods of the class BULK, which yield to the others."""
_CLASSES: Mapping[str, CallClass] = {
    **dict.fromkeys(BULK_METHODS, CallClass.BULK),
    **dict.fromkeys(("Search", "SearchAll", "StreamSearch", "BuildContext", "RenderContext"), CallClass.SEARCH),
    **dict.fromkeys(("GetStats", "Diagnose", "GetPerformance"), CallClass.ADMIN),
    **dict.fromkeys(("CreateApiKey", "ListApiKeys", "RevokeApiKey"), CallClass.ADMIN),
    **dict.fromkeys(("SetQuota", "GetQuota", "ListQuotas"), CallClass.ADMIN),
    **dict.fromkeys(("ListDeadLetters", "RetryDeadLetters", "DropDeadLetters"), CallClass.ADMIN),
}
_BRIEF = frozenset({CallClass.READ, CallClass.WRITE})
"""Classes of calls to which bulk work yields while they run. A search sees to that itself, for less than the call."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of waits, in seconds."""
SMOOTHING = 0.1
"""The weight of the latest call in the mean duration of calls."""
LONGEST_RETRY_SECONDS = 30.0


def class_of(method: str, default: CallClass) -> CallClass:
    """Return the class of a method; *default* unless it has one whatever threads it runs in."""
    return _CLASSES.get(method, default)


@dataclass(frozen=True, slots=True)
class WaitBounds:
    """Longest waits of calls for a thread by class, in seconds."""

    search: float = 3.0
    read: float = 3.0
    write: float = 5.0
    language: float = 20.0
    bulk: float = 20.0
    admin: float = 10.0


class AdmissionCounts:
    """Waits of calls by class, and refusals by class and cause. To be written in the thread of the event loop."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.waits = {one: [0] * (len(BUCKETS) + 1) for one in CallClass}
        self.seconds = dict.fromkeys(CallClass, 0.0)
        self.refusals: Counter[tuple[CallClass, LimitKind]] = Counter()

    def add_wait(self, kind: CallClass, seconds: float) -> None:
        """Count a call that a thread began after so many seconds."""
        self.waits[kind][bisect_left(BUCKETS, seconds)] += 1
        self.seconds[kind] += seconds


@dataclass(frozen=True, slots=True)
class Admission:
    """Rules that the pools of a server share.

    Attributes:
        options: The shares of keys.
        bounds: The longest waits.
        counts: Receives waits and refusals.
        yielding: The context in which bulk work yields; open while a call waits that is not bulk.
        priority: The context in which a thread runs a read or a write of a few memories.
        clock: The time in seconds.
    """

    options: SlotOptions
    bounds: WaitBounds
    counts: AdmissionCounts
    yielding: Callable[[], AbstractContextManager[None]] = nullcontext
    priority: Callable[[], AbstractContextManager[None]] = nullcontext
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True, eq=False)
class Turn:
    """A call on the way to a thread, or in it.

    Attributes:
        since: The time of its arrival, by `time.monotonic`.
        taken: The time at which it got a slot; 0: it waits.
        began: The time at which a thread began it; 0: none has.
        user: The user that it is for, as far as that is known; set when it waits.
        waiting: Resolved when it gets a slot; None if it did not wait.
        is_refusable: False for a further part of a call that was admitted.
        context: The context in which it runs.
    """

    principal: Principal
    kind: CallClass
    since: float
    taken: float = 0.0
    began: float = 0.0
    user: bytes = b""
    waiting: asyncio.Future[None] | None = None
    is_refusable: bool = True
    context: Callable[[], AbstractContextManager[None]] = nullcontext

    def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call in the calling thread, and note when it began."""
        self.began = time.monotonic()
        with self.context():
            return call(*args, **kwargs)


class _Line:
    """Turns of one key that wait, each user in turn."""

    def __init__(self) -> None:
        self._users: dict[bytes, deque[Turn]] = {}
        self.length = 0

    def append(self, turn: Turn) -> None:
        self._users.setdefault(turn.user, deque()).append(turn)
        self.length += 1

    def first(self) -> Turn:
        return next(iter(self._users.values()))[0]

    def pop(self) -> Turn:
        """Remove and return the first turn; its user comes last from now on."""
        user = next(iter(self._users))
        turns = self._users.pop(user)
        turn = turns.popleft()
        if turns:
            self._users[user] = turns
        self.length -= 1
        return turn

    def remove(self, turn: Turn) -> None:
        turns = self._users[turn.user]
        turns.remove(turn)
        if not turns:
            del self._users[turn.user]
        self.length -= 1

    def count_ahead(self, user: bytes) -> int:
        """Return the number of turns before a new one of *user*."""
        mine = len(self._users.get(user, ()))
        return sum(min(len(turns), mine + (name != user)) for name, turns in self._users.items())

    def latest_of_longest(self, user: bytes) -> Turn | None:
        """Return the latest turn of the user with most of them, if these are more than those of *user* with one more.

        One that cannot be refused is not returned.
        """
        longest = max(self._users.values(), key=len, default=deque[Turn]())
        if len(longest) <= len(self._users.get(user, ())) + 1:
            return None
        return longest[-1] if longest[-1].is_refusable else None


class Turns:
    """Turns of calls on a pool of threads: each key in turn, and of each key each user.

    To be used in the thread of the event loop. A key waits in a line of its own, so that the calls of one do not fill
    the queue that the others wait in. Calls without a key share a line and have no share of the threads. Bulk calls
    have half of the threads at most; they get one if they have none, and more when no other call waits.

    A call is refused when it arrives if the calls before it, at the measured rate, make it wait for longer than the
    bound of its class or than its caller does, and later when it has waited for so long.
    """

    def __init__(self, kind: CallClass, threads: int, queued: int, admission: Admission, *, name: str) -> None:
        """Let calls use *threads* threads; those of one key that wait are at most its share of *queued*.

        *kind* is the class of calls whose method has none of its own; *name* is the noun for the calls in errors.
        """
        self._kind = kind
        self._threads = threads
        self._slots = Slots(threads, admission.options, name=name)
        self._key_threads = max(1, int(threads * admission.options.key_share))
        self._queued, self._key_queued = queued, max(1, int(queued * admission.options.key_share))
        self._name = name
        self._admission = admission
        self._clock = admission.clock
        self._interactive: dict[str, _Line] = {}
        self._bulk: dict[str, _Line] = {}
        self._bulk_threads, self._bulk_held = max(1, threads // 2), 0
        self._mean = {False: 0.0, True: 0.0}
        self._moved = 0.0

    @property
    def waiting(self) -> int:
        """Return the number of calls that wait for a slot."""
        return sum(line.length for lines in (self._interactive, self._bulk) for line in lines.values())

    def arrive(self, *, is_refusable: bool = True) -> Turn:
        """Return the turn of the present call; it waits if `taken` is 0."""
        call = call_context.current.get()
        kind = self._kind if call is None else class_of(call.method, self._kind)
        turn = Turn(call_context.principal.get(), kind, self._clock(), is_refusable=is_refusable)
        if kind in _BRIEF:
            turn.context = self._admission.priority
        if turn.principal.key_id not in self._lines_of(turn) and self._has_room(turn):
            self._take(turn)
        return turn

    async def wait(self, turn: Turn) -> None:
        """Return when *turn* has a slot.

        Raises:
            LimitExceededError: It would wait, or has waited, for longer than it may, or too many calls wait.
        """
        turn.user = _user_of_call()
        lines = self._lines_of(turn)
        line = lines.get(turn.principal.key_id) or _Line()
        if turn.is_refusable:
            self._refuse_in_vain(turn, line)
            self._make_room(turn, line)
        loop = asyncio.get_running_loop()
        turn.waiting = loop.create_future()
        line.append(turn)
        lines[turn.principal.key_id] = line
        timer = loop.call_later(self._bound(turn), self._give_up, turn) if turn.is_refusable else None
        try:
            with nullcontext() if turn.kind is CallClass.BULK else self._admission.yielding():
                await turn.waiting
        except asyncio.CancelledError:
            if turn.taken:
                self.leave(turn)
            else:
                self._remove(turn)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def leave(self, turn: Turn) -> None:
        """Give back the slot of a call that has ended, and measure it."""
        now, is_bulk = self._clock(), turn.kind is CallClass.BULK
        self._slots.release(turn.principal)
        self._bulk_held -= is_bulk
        if turn.began:
            self._admission.counts.add_wait(turn.kind, turn.began - turn.since)
            mean = self._mean[is_bulk]
            self._mean[is_bulk] = mean + (now - turn.taken - mean) * (SMOOTHING if mean else 1.0)
        self._moved = now
        if self._interactive or self._bulk:
            self._wake()

    def _lines_of(self, turn: Turn) -> dict[str, _Line]:
        return self._bulk if turn.kind is CallClass.BULK else self._interactive

    def _has_room(self, turn: Turn) -> bool:
        if turn.kind is CallClass.BULK and self._bulk_held >= self._bulk_threads:
            return False
        if turn.principal.key_id:
            return not self._slots.problem(turn.principal)
        # One more for each thread, so that a thread that ends a call has the next one at hand.
        return self._slots.held < 2 * self._threads

    def _take(self, turn: Turn) -> None:
        turn.taken = self._moved = self._clock()
        self._slots.take(turn.principal)
        self._bulk_held += turn.kind is CallClass.BULK

    def _bound(self, turn: Turn) -> float:
        bound: float = getattr(self._admission.bounds, turn.kind.value)
        return bound

    def _refuse_in_vain(self, turn: Turn, line: _Line) -> None:
        """Refuse a call that would wait for longer than its class or its caller does."""
        expected, bound = self._expected_wait(turn, line), self._bound(turn)
        remaining = call_context.deadline.get().remaining_seconds()
        if expected > bound or (remaining is not None and expected > remaining):
            raise self._refusal(turn, f"would wait for about {expected:.1f} s", expected - bound)

    def _expected_wait(self, turn: Turn, line: _Line) -> float:
        """Return the time until a new call gets a slot if calls go on to end as they did."""
        is_bulk = turn.kind is CallClass.BULK
        mean, threads = self._mean[is_bulk], self._bulk_threads if is_bulk else self._threads
        mine = line.count_ahead(turn.user)
        others = [one for one in self._lines_of(turn).values() if one is not line]
        if is_bulk:
            others += self._interactive.values()
        ahead = mine + sum(min(one.length, mine + 1) for one in others)
        # When no call ends, the mean of those before says nothing.
        expected = (ahead + 1) * max(mean / threads, self._clock() - self._moved)
        return max(expected, (mine + 1) * mean / self._key_threads) if turn.principal.key_id else expected

    def _make_room(self, turn: Turn, line: _Line) -> None:
        """Refuse a call of the user with most of those in a full line: the latest of these, or *turn*."""
        key_id = turn.principal.key_id
        limit = self._key_queued if key_id else self._queued
        if line.length < limit:
            return
        of, share = (" of one key", ", server.key_share") if key_id else ("", "")
        message = f"{limit} {self._name}{of} that wait (settings server.queue_factor{share})"
        refusal = LimitExceededError(message, kind=LimitKind.QUEUE)
        other = line.latest_of_longest(turn.user)
        if other is None or other.waiting is None:
            raise refusal
        line.remove(other)
        _settle(other, refusal)

    def _give_up(self, turn: Turn) -> None:
        """Refuse a call that has waited for as long as it may."""
        if not turn.taken and turn.waiting is not None and not turn.waiting.done():
            self._remove(turn)
            waited = self._clock() - turn.since
            turn.waiting.set_exception(self._refusal(turn, f"has waited for {waited:.1f} s", waited))

    def _refusal(self, turn: Turn, problem: str, retry_seconds: float) -> LimitExceededError:
        setting = f"server.wait.{turn.kind.value}_seconds"
        limit = f"a call of class {turn.kind.value} {problem} for a thread, at most {self._bound(turn):g} s ({setting})"
        retry = min(max(retry_seconds, 0.1), LONGEST_RETRY_SECONDS)
        return LimitExceededError(limit, retry_seconds=retry, kind=LimitKind.WAIT)

    def _remove(self, turn: Turn) -> None:
        lines, key_id = self._lines_of(turn), turn.principal.key_id
        if (line := lines.get(key_id)) is not None:
            with suppress(KeyError, ValueError):
                line.remove(turn)
            if not line.length:
                del lines[key_id]

    def _wake(self) -> None:
        """Give free slots to calls that wait, the key whose turn is the longest ago first."""
        order = (self._interactive, self._bulk) if self._bulk_held else (self._bulk, self._interactive)
        for lines in order:
            for key_id in list(lines):
                line = lines[key_id]
                turn = line.first()
                if not self._has_room(turn):
                    continue
                line.pop()
                # The key comes last from now on.
                del lines[key_id]
                if line.length:
                    lines[key_id] = line
                self._take(turn)
                _settle(turn)


def _settle(turn: Turn, refusal: LimitExceededError | None = None) -> None:
    """End the wait of a call, unless it was cancelled at this moment: its task then gives back what it was given."""
    if turn.waiting is None or turn.waiting.done():
        return
    if refusal is None:
        turn.waiting.set_result(None)
    else:
        turn.waiting.set_exception(refusal)


_SCOPE_FIELD = 0x0A
"""The tag of field 1 if it is a message or a text: in a request its scope, in a scope the user."""


def _user_of_call() -> bytes:
    """Return the user that the present call names, without decoding its request; empty if that is not to be seen."""
    call = call_context.current.get()
    body = b"" if call is None else call.request
    if isinstance(body, bytes):
        return user_of_bytes(body)
    return str(getattr(getattr(body, "scope", None), "user_id", "")).encode()


def user_of_bytes(body: bytes) -> bytes:
    """Return the user in the bytes of a request whose first field is its scope; else nothing."""
    at = 0
    for _ in range(2):
        if body[at : at + 1] != bytes([_SCOPE_FIELD]):
            return b""
        # Lengths below 128 have one byte, those of scopes at most two.
        size, at = body[at + 1 : at + 2], at + 2
        if not size:
            return b""
        length = size[0]
        if length > _LAST_SHORT:
            length, at = (length & _LAST_SHORT) | body[at] << 7 if len(body) > at else 0, at + 1
    return body[at : at + min(length, _LONGEST_USER)]


_LAST_SHORT, _LONGEST_USER = 0x7F, 512


@dataclass(frozen=True, slots=True)
class ServerSlots:
    """The slots of a server.

    Attributes:
        files: Those of uploads and downloads.
        watches: Those of watches.
        exports: Those of exports of users.
        imports: Those of imports and of documents.
        counts: Waits and refusals of all calls.
    """

    files: Slots
    watches: Slots
    exports: Slots
    imports: Slots
    counts: AdmissionCounts

    @classmethod
    def of(cls, options: SlotOptions, *, files: int, watches: int) -> ServerSlots:
        """Return all of them, none held."""
        return cls(
            Slots(files, options, name="uploads and downloads at a time (setting files.max_streams)"),
            Slots(watches, options, name="watches (setting watch.max_streams)"),
            Slots(MAX_CONCURRENT_EXPORTS, options, name="exports at a time"),
            Slots(MAX_IMPORTS, options, name="imports at a time"),
            AdmissionCounts(),
        )
