"""Keeps one child process running, with the same shards open, whatever becomes of it."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

from backends.qdrant.child import NO_HURRY, Child
from backends.qdrant.errors import NAME, ChildDiedError, EdgeFaultError, ShardClosedError
from backends.qdrant.frames import Message
from backends.qdrant.settings import QdrantEdgeSettings
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError

_log = logging.getLogger(__name__)

_ATTEMPTS = 4
"""How often an operation is tried; all are idempotent."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


class Supervisor:
    """Calls the child, and starts another with the same shards when it has died. Safe to call from several threads."""

    def __init__(self, settings: QdrantEdgeSettings) -> None:
        self._settings = settings
        self._shards: dict[str, tuple[Path, int]] = {}
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_closed = False
        self._not_before = 0.0
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """Return the process id of the child that runs now, for diagnosis."""
        child = self._child
        return None if child is None else child.pid

    def call(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Any:
        """Send a request and return the value of its reply; a child that dies of it is replaced and asked again.

        Raises:
            BackendClosedError: The supervisor was closed.
            DeadlineExceededError: The deadline passed first.
            ChildDiedError: No child could be kept running.
            EdgeFaultError: The engine refused.
            ShardClosedError: No shard of this name is open.
        """
        child: Child | None = None
        for attempt in range(_ATTEMPTS):
            try:
                child = self._running(child, deadline)
                return child.call(message, blob, deadline=deadline)
            except ChildDiedError:
                if attempt == _ATTEMPTS - 1:
                    raise
            except ShardClosedError:
                if child is None or attempt == _ATTEMPTS - 1 or not self._reopened(child, message[1]):
                    raise
        raise AssertionError

    def open(self, name: str, path: Path, dimension: int) -> None:
        """Open a shard, in this child and in every one that follows."""
        with self._lock:
            self._shards[name] = path, dimension
        try:
            self.call(("open", name, str(path), dimension))
        except (ChildDiedError, EdgeFaultError):
            with self._lock:
                self._shards.pop(name)
            raise

    def close_shard(self, name: str) -> None:
        """Close a shard if it is open; a child that cannot be reached does not have it open the next time."""
        with self._lock:
            self._shards.pop(name, None)
        try:
            self.call(("close", name))
        except (ChildDiedError, EdgeFaultError) as error:
            _log.warning("shard %s was not closed: %s", name, error)

    def close(self) -> None:
        """Close all shards and end the child."""
        with self._lock:
            self._is_closed = True
            child, self._child = self._child, None
        if child is not None:
            child.stop(*self._shards)

    def _running(self, failed: Child | None, deadline: Deadline) -> Child:
        """Return a child that is not the one that failed."""
        child = self._child
        if child is not None and child is not failed:
            return child
        remaining = deadline.remaining()
        if not self._lock.acquire(timeout=-1 if remaining is None else remaining):
            raise DeadlineExceededError(NAME)
        try:
            if self._is_closed:
                raise BackendClosedError(NAME)
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
        child = Child(connections=self._settings.connections)
        try:
            child.call(("ping",))
            are_open = [_is_open(child, name, *shard) for name, shard in self._shards.items()]
        except ChildDiedError:
            child.kill()
            self._note_failure()
            raise
        if all(are_open):
            self._failures = 0
        else:
            self._note_failure()
        _log.info("edge process started, pid %s", child.pid)
        return child

    def _reopened(self, child: Child, name: str) -> bool:
        """Return whether a shard that should be open is so now: it may have failed to open with the child."""
        with self._lock:
            shard = self._shards.get(name)
            if shard is None or time.monotonic() < self._not_before:
                return False
            if _is_open(child, name, *shard):
                self._failures = 0
                return True
            self._note_failure()
            return False

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures > 1:
            pause = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause


def _is_open(child: Child, name: str, path: Path, dimension: int) -> bool:
    """Open a shard unless it is. One that is damaged must not keep others, such as its successor, from being opened."""
    try:
        child.call(("open", name, str(path), dimension))
    except EdgeFaultError as error:
        _log.warning("shard %s cannot be opened: %s", name, error)
        return False
    return True
