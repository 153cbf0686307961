"""Keeps one child process running for a generation, with its shard open, whatever becomes of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc_backends.qdrant_edge.child_process import NO_HURRY, Child, Exchange
from memsvc_backends.qdrant_edge.errors import NAME, ChildDiedError, EdgeFaultError, RetiredError
from memsvc_backends.qdrant_edge.ipc import Message

_log = logging.getLogger(__name__)

_ATTEMPTS = 4
"""How often an operation is tried; all are idempotent."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


class Supervisor:
    """Calls the child of one shard, and starts another when it has died. Safe to call from several threads."""

    def __init__(self, path: Path, *, dimension: int, connections: int) -> None:
        self._path = path
        self._dimension = dimension
        self._connections = connections
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._refusal: Callable[[], Exception] | None = None
        self._not_before = 0.0
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """Return the process id of the child that runs now, for diagnosis."""
        child = self._child
        return None if child is None else child.pid

    def open(self) -> None:
        """Start a child and open the shard in it, ready to be searched; what is raised is what `call` raises."""
        self._running(None, NO_HURRY)

    def begin(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Exchange | None:
        """Send a request whose reply `call` is asked for later, or return None: then it has to be sent there."""
        child = self._child
        if child is None:
            return None
        try:
            return child.begin(message, blob, deadline=deadline)
        except (ChildDiedError, DeadlineExceededError):
            return None

    def call(
        self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY, begun: Exchange | None = None
    ) -> Any:
        """Return the value of the reply to a request; a child that dies of it is replaced and asked again.

        Args:
            message: The request.
            blob: What goes with it.
            deadline: When to give up.
            begun: What `begin` returned for the same request, if that was called.

        Raises:
            BackendClosedError: The supervisor was closed.
            RetiredError: The supervisor was retired.
            DeadlineExceededError: The deadline passed first.
            ChildDiedError: No child could be kept running.
            EdgeFaultError: The engine refused.
        """
        child: Child | None = None
        for attempt in range(_ATTEMPTS):
            try:
                if begun is None:
                    child = self._running(child, deadline)
                    begun = child.begin(message, blob, deadline=deadline)
                child = begun.child
                return begun.result(deadline)
            except ChildDiedError:
                begun = None
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def retire(self) -> None:
        """End the child when it has answered what it was asked; who asks later is told to ask another."""
        self._end(RetiredError)

    def close(self) -> None:
        """Do the same for good: who asks later made a mistake."""
        self._end(partial(BackendClosedError, NAME))

    def _end(self, refusal: Callable[[], Exception]) -> None:
        with self._lock:
            self._refusal = refusal
            child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _running(self, failed: Child | None, deadline: Deadline) -> Child:
        """Return a child that is not the one that failed."""
        child = self._child
        if child is not None and child is not failed:
            return child
        remaining = deadline.remaining()
        if not self._lock.acquire(timeout=-1 if remaining is None else remaining):
            raise DeadlineExceededError(NAME)
        try:
            if self._refusal is not None:
                raise self._refusal()
            if self._child is None or self._child is failed:
                self._child = self._replace(self._child)
            return self._child
        finally:
            self._lock.release()

    def _replace(self, dead: Child | None) -> Child:
        if dead is not None:
            _log.warning("edge process died, pid %s", dead.pid)
            self._child = None
            dead.kill()
        if time.monotonic() < self._not_before:
            raise ChildDiedError
        child = Child(connections=self._connections)
        try:
            child.call(("open", str(self._path), self._dimension))
        except (ChildDiedError, EdgeFaultError) as error:
            _log.warning("edge process %s did not open %s: %s", child.pid, self._path.name, error)
            child.kill()
            self._note_failure()
            raise
        self._failures = 0
        _log.info("edge process started, pid %s", child.pid)
        return child

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures > 1:
            pause = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause
