"""Mixed load of a campaign: writers with sessions, searchers and watchers, and what each was told."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.campaign.environment import Environment
from tests.support.rpc import HYBRID, KEYWORD, SEMANTIC, Refusal
from tests.support.server_process import Stubs
from tests.support.sessions import open_session, place, say

PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)
"""Errors that a client repeats the call after."""
CALL_SECONDS = 10.0
GIVE_UP_SECONDS = 120.0
"""A call that is refused for so long is a fault of the service."""
PAUSE_SECONDS = 0.03
"""Pause between two writes of a user."""
ABANDONED_SHARE = 0.2
"""Share of the failed writes that are not repeated: it stays unknown whether they took place."""
EVERY_STATUS = filters_pb.Filter(statuses=[1, 2, 3, 4, 5, 6, 7])  # type: ignore[list-item]
STORED, INDEXED = types_pb.WAIT_FOR_STORED, types_pb.WAIT_FOR_INDEXED


@dataclass
class Entry:
    """A memory as its writer knows it; several *contents* or states are possible after a change without an answer."""

    memory_id: str
    revision: int
    contents: set[str]
    is_deleted: bool = False
    is_uncertain: bool = False


@dataclass
class Figures:
    """Counts of one kind of fault, or of the time without one."""

    faults: int = 0
    searches: int = 0
    degraded: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    writes: int = 0
    repeated: int = 0
    notices: int = 0
    recoveries: list[float] = field(default_factory=list)


class Ledger:
    """What the load saw, by kind of fault, and what is wrong. Thread-safe."""

    def __init__(self, report: Callable[[str], None] = lambda _text: None) -> None:
        """Call *report* with each violation."""
        self._lock = threading.Lock()
        self._report = report
        self.figures: dict[str, Figures] = {"none": Figures()}
        self.violations: list[str] = []
        self.fault = "none"

    @contextmanager
    def noted(self) -> Iterator[Figures]:
        """Lend the figures of the present fault."""
        with self._lock:
            yield self.figures.setdefault(self.fault, Figures())

    def violate(self, text: str) -> None:
        """Note a broken promise."""
        with self._lock:
            self.violations.append(f"[{self.fault}] {text}")
            self._report(self.violations[-1])


class Worker:
    """A thread of the load that can be paused between two of its calls."""

    def __init__(self, environment: Environment, ledger: Ledger, seed: int) -> None:
        self.environment = environment
        self.ledger = ledger
        self.chance = random.Random(seed)
        self._go = threading.Event()
        self._rests = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the thread, paused."""
        self._thread.start()

    def resume(self) -> None:
        """Go on."""
        self._rests.clear()
        self._go.set()

    def pause(self) -> None:
        """Ask for a pause; `wait_paused` returns when it has begun."""
        self._go.clear()

    def wait_paused(self) -> None:
        """Return when no call is under way; report one that does not end."""
        if not self._rests.wait(GIVE_UP_SECONDS + 2 * CALL_SECONDS):
            self.ledger.violate(f"{type(self).__name__} does not end its call")

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._go.set()
        self._thread.join(CALL_SECONDS)

    def rest(self, seconds: float) -> None:
        """Pause for a moment."""
        self._ended.wait(seconds)

    def step(self, stubs: Stubs) -> None:
        """Make one call, or a few."""
        raise NotImplementedError

    def _run(self) -> None:
        with self.environment.stubs() as stubs:
            while not self._ended.is_set():
                if not self._go.is_set():
                    self._rests.set()
                    self._go.wait()
                    continue
                try:
                    self.step(stubs)
                except Exception as error:  # noqa: BLE001 - reported as a violation
                    self.ledger.violate(f"{type(self).__name__}: {error!r}"[:500])
                    self.rest(1.0)


class User(Worker):
    """The writer of one user: memories, a session, and users that it makes and erases."""

    def __init__(self, environment: Environment, ledger: Ledger, seed: int, name: str) -> None:
        super().__init__(environment, ledger, seed)
        self.name = name
        self.scope = types_pb.Scope(user_id=name)
        self.session = place(name, "talk")
        self.entries: dict[str, Entry] = {}
        self.unknown: set[str] = set()
        self.said: list[str] = []
        self.unknown_said: set[str] = set()
        self.erased: list[str] = []
        self.token = ""
        self._number = 0
        self._has_session = False

    def step(self, stubs: Stubs) -> None:
        """Write something."""
        [work] = self.chance.choices(
            (self._create, self._create_batch, self._update, self._delete, self._say, self._erase),
            (100, 16, 28, 20, 32, 1),
        )
        work(stubs)
        self.rest(PAUSE_SECONDS)

    def content(self, word: str, what: str) -> str:
        """Return the content of a memory; the name of the user shows data of others."""
        return f"The {word} of {self.name} {what} 在动物园。"

    def _word(self) -> str:
        self._number += 1
        return f"zebra{self.name}n{self._number}x"

    def _write(self, call: Callable[..., Any], request: Any, *, must_end: bool = False) -> Any:
        """Repeat a call until it is answered; return the reply, or None if it was given up, so that it is unknown."""
        request.request_id = str(uuid.uuid4())
        until = time.monotonic() + GIVE_UP_SECONDS
        is_abandoned = not must_end and self.chance.random() < ABANDONED_SHARE
        while True:
            try:
                reply, done = call.with_call(request, timeout=CALL_SECONDS)  # type: ignore[attr-defined]
            except grpc.RpcError as error:
                if error.code() not in PASSING:
                    self.ledger.violate(f"{type(request).__name__}: {Refusal.from_error(error)}")
                    return None
                with self.ledger.noted() as figures:
                    figures.repeated += 1
                if is_abandoned:
                    return None
                if time.monotonic() > until:
                    self.ledger.violate(f"{type(request).__name__} fails for {GIVE_UP_SECONDS} s: {error.details()}")
                    return None
                self.rest(0.2)
                continue
            has_notice = any(name == "x-memsvc-notice" for name, _ in done.trailing_metadata())
            with self.ledger.noted() as figures:
                figures.writes += 1
                figures.notices += has_notice
            self.token = getattr(reply, "consistency_token", "") or self.token
            return reply

    def _create(self, stubs: Stubs) -> None:
        word = self._word()
        content = self.content(word, "was seen")
        request = memory_pb.CreateMemoryRequest(
            scope=self.scope, memory=types_pb.Memory(content=content), wait_for=self.chance.choice((STORED, INDEXED))
        )
        self.unknown.add(word)
        if reply := self._write(stubs.memory.CreateMemory, request):
            self._note_created(word, content, reply.memory)

    def _note_created(self, word: str, content: str, memory: types_pb.Memory) -> None:
        if memory.content != content:
            self.ledger.violate(f"the receipt of {word} has the content {memory.content!r}")
        self.unknown.discard(word)
        self.entries[word] = Entry(memory.id, memory.revision, {content})

    def _create_batch(self, stubs: Stubs) -> None:
        made = {word: self.content(word, "came in a herd") for word in (self._word() for _ in range(5))}
        request = memory_pb.BatchCreateMemoriesRequest(
            scope=self.scope,
            memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=content)) for content in made.values()],
            wait_for=self.chance.choice((STORED, INDEXED)),
        )
        self.unknown.update(made)
        if reply := self._write(stubs.memory.BatchCreateMemories, request):
            for (word, content), result in zip(made.items(), reply.results, strict=True):
                if result.status.code:
                    self.ledger.violate(f"an item of a batch failed: {result.status.message}")
                else:
                    self._note_created(word, content, result.memory)

    def _choose(self) -> tuple[str, Entry] | None:
        live = [(word, entry) for word, entry in self.entries.items() if not (entry.is_deleted or entry.is_uncertain)]
        return self.chance.choice(live) if live else None

    def _update(self, stubs: Stubs) -> None:
        if (chosen := self._choose()) is None:
            return
        word, entry = chosen
        content = self.content(word, f"changed {uuid.uuid4().hex[:8]}")
        request = memory_pb.UpdateMemoryRequest(
            scope=self.scope, memory=types_pb.Memory(id=entry.memory_id, content=content), wait_for=STORED
        )
        request.update_mask.paths.append("content")
        reply = self._write(stubs.memory.UpdateMemory, request)
        if reply is None:
            entry.contents.add(content)
            entry.is_uncertain = True
        else:
            if reply.memory.revision <= entry.revision:
                self.ledger.violate(f"the update of {word} has the revision {reply.memory.revision}")
            entry.contents, entry.revision = {content}, reply.memory.revision

    def _delete(self, stubs: Stubs) -> None:
        if (chosen := self._choose()) is None:
            return
        _, entry = chosen
        request = memory_pb.DeleteMemoryRequest(scope=self.scope, id=entry.memory_id, wait_for=STORED)
        if self._write(stubs.memory.DeleteMemory, request) is None:
            entry.is_uncertain = True
        else:
            entry.is_deleted = True

    def _say(self, stubs: Stubs) -> None:
        if not self._has_session:
            try:
                open_session(stubs, self.session)
            except grpc.RpcError as error:
                if error.code() not in {*PASSING, grpc.StatusCode.ALREADY_EXISTS}:
                    raise
                if error.code() in PASSING:
                    return
            self._has_session = True
        text = f"{self.name} says {self._word()} 你好"
        request = session_pb.AppendMessagesRequest(scope=self.session, messages=[say(text)], wait_for=STORED)
        self.unknown_said.add(text)
        if self._write(stubs.session.AppendMessages, request):
            self.unknown_said.discard(text)
            self.said.append(text)

    def _erase(self, stubs: Stubs) -> None:
        """Make a user with a few memories and erase it."""
        name = f"{self.name}temp{self._number}"
        scope = types_pb.Scope(user_id=name)
        for number in range(3):
            content = f"The okapi {number} of {name} hides 在森林。"
            request = memory_pb.CreateMemoryRequest(
                scope=scope, memory=types_pb.Memory(content=content), wait_for=STORED
            )
            if self._write(stubs.memory.CreateMemory, request, must_end=True) is None:
                return
        reply = self._write(
            stubs.lifecycle.EraseUser, lifecycle_pb.EraseUserRequest(scope=scope, confirm=True), must_end=True
        )
        if reply is not None:
            if not reply.receipt.clean:
                # A dependency was away: the receipt says so, and the erasure is repeated.
                reply = self._write(
                    stubs.lifecycle.EraseUser, lifecycle_pb.EraseUserRequest(scope=scope, confirm=True), must_end=True
                )
            if reply is not None and reply.receipt.clean:
                self.erased.append(name)


class Searcher(Worker):
    """Searches of random users: each hit is of the user, and each answer is complete or says what is missing."""

    def __init__(self, environment: Environment, ledger: Ledger, seed: int, users: list[User]) -> None:
        super().__init__(environment, ledger, seed)
        self._users = users

    def step(self, stubs: Stubs) -> None:
        """Search once."""
        user = self.chance.choice(self._users)
        words = list(user.entries)
        word = self.chance.choice(words) if words else "zebra"
        mode = self.chance.choice((HYBRID, HYBRID, KEYWORD, SEMANTIC))
        query = self.chance.choice((f"Where was {word} seen {self.chance.random():.6f}?", f"{word}在哪里"))
        request = search_pb.SearchRequest(scope=user.scope, query=query, mode=mode, limit=10)
        fault, started = self.ledger.fault, time.monotonic()
        try:
            reply = stubs.search.Search(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() not in PASSING:
                self.ledger.violate(f"Search: {Refusal.from_error(error)}")
            with self.ledger.noted() as figures:
                figures.searches += 1
                figures.refused[error.code().name] += 1
            self.rest(0.1)
            return
        seconds = time.monotonic() - started
        foreign = [hit.memory.content for hit in reply.hits if f" of {user.name} " not in hit.memory.content]
        if foreign:
            self.ledger.violate(f"a search of {user.name} found {foreign[:3]}")
        with self.ledger.noted() as figures:
            figures.searches += 1
            figures.degraded += bool(reply.degraded)
            if fault == self.ledger.fault:
                figures.slowest = max(figures.slowest, seconds)
        self.rest(PAUSE_SECONDS)


class Watcher(Worker):
    """The watch of one user, resumed after every break."""

    def __init__(self, environment: Environment, ledger: Ledger, seed: int, user: User) -> None:
        super().__init__(environment, ledger, seed)
        self._user = user
        self._cursor = ""
        self._call: Any = None
        self.seen: Counter[tuple[str, int]] = Counter()

    def pause(self) -> None:
        """Watch on: what was committed before a pause comes during it."""

    def wait_paused(self) -> None:
        """Return: a watch has no end."""

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        if self._call is not None:
            self._call.cancel()
        super().stop()

    def step(self, stubs: Stubs) -> None:
        """Watch until it breaks."""
        request = memory_pb.WatchMemoriesRequest(
            scope=self._user.scope,
            filter=EVERY_STATUS,
            cursor=self._cursor,
            start=memory_pb.WATCH_START_OLDEST,
            heartbeat_interval=Duration(seconds=2),
        )
        self._call = stubs.memory.WatchMemories(request)
        try:
            for response in self._call:
                self._take(response)
        except grpc.RpcError as error:
            if error.code() not in PASSING:
                self.ledger.violate(f"WatchMemories: {Refusal.from_error(error)}")
            self.rest(0.2)

    def _take(self, response: memory_pb.WatchMemoriesResponse) -> None:
        if response.HasField("change"):
            change = response.change
            if change.HasField("memory"):
                content = change.memory.content
                if f" of {self._user.name} " not in content and not content.startswith(self._user.name):
                    self.ledger.violate(f"the watch of {self._user.name} told {content!r}")
            self.seen[change.memory_id, change.revision] += 1
        self._cursor = response.cursor or self._cursor
