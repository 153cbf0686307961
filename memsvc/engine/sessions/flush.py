"""Flushing of sessions: memories are extracted before messages are trimmed, and periodically."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

from memsvc.domain import limits
from memsvc.domain.capture import ChatMessage
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import Message, MessageState, SessionName
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.metadata import MetadataStore, Transaction

SECONDS = 120.0
"""Maximum duration of one flush, including a language model."""
_READABLE = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})
_PAGE = 200
"""Messages flushed in one transaction."""
log = logging.getLogger(__name__)


class SessionFlusher:
    """Extracts memories from messages of sessions, each message once.

    Memories are stored before the session records the progress. After an interruption in between the same statements
    are extracted again and recognised as known.
    """

    def __init__(
        self, committer: GroupCommitter, store: MetadataStore, flush: ConversationFlusher, flush_tokens: int
    ) -> None:
        """Flush by these parts when more than *flush_tokens* are unflushed; 0: never."""
        self._committer = committer
        self._store = store
        self._flush = flush
        self._flush_tokens = flush_tokens
        # One flush of a session at a time: a requested trim and a background flush may coincide.
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._locks: WeakValueDictionary[SessionName, _SessionLock] = WeakValueDictionary()

    def stop(self) -> None:
        """Start no further transaction; the rest is flushed after the next append to its session."""
        self._stopping.set()

    def is_due(self, unflushed_tokens: int) -> bool:
        """Return whether this number of unflushed tokens requires a flush."""
        return 0 < self._flush_tokens < unflushed_tokens

    def flush_when_due(self, scope: Scope) -> None:
        """Flush the session of *scope* if enough messages were appended since the last flush."""
        name = SessionName.from_scope(scope)
        with self._lock_session(name):
            # Read the status under the lock, after an earlier flush has finished.
            status = self._committer.submit(lambda transaction: transaction.sessions.status(name)).value
            if status is not None and self.is_due(status.unflushed_tokens):
                self._flush_all(name)

    def flush_before_trimming(self, scope: Scope) -> None:
        """Flush the session of *scope* before messages are archived.

        A failure does not prevent the trim: unflushed messages stay, archived, and are flushed the next time.
        """
        if not self._flush_tokens:
            return
        try:
            self.flush(scope)
        except MemsvcError as error:
            log.warning("a flush before a trim failed; the next flush includes its messages: %s", error)

    def flush(self, scope: Scope) -> None:
        """Flush all unflushed messages of the session of *scope*, if it exists."""
        name = SessionName.from_scope(scope)
        with self._lock_session(name):
            self._flush_all(name)

    @contextmanager
    def _lock_session(self, name: SessionName) -> Iterator[None]:
        with self._lock:
            session_lock = self._locks.setdefault(name, _SessionLock())
        with session_lock.lock:
            yield

    def _flush_all(self, name: SessionName) -> None:
        while not self._stopping.is_set() and (session := self._store.sessions.get(name)) is not None:
            page = self._store.sessions.messages(
                session, states=_READABLE, after=session.flushed_ordinal, limit=_PAGE, descending=False
            )
            if not page:
                return
            messages = _first_messages(page)
            self._flush.flush(
                session.scope,
                [_as_chat(message) for message in messages],
                (),
                options=WriteOptions(),
                deadline=Deadline.after(SECONDS),
            )
            self._note(name, messages[-1].record.ordinal)

    def _note(self, name: SessionName, ordinal: int) -> None:
        def note(transaction: Transaction) -> None:
            session = transaction.sessions.get(name)
            if session is not None and session.flushed_ordinal < ordinal:
                transaction.sessions.update(replace(session, flushed_ordinal=ordinal))

        self._committer.submit(note)


class _SessionLock:
    """The lock of one session; garbage-collected when no thread waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _first_messages(page: Sequence[Message]) -> Sequence[Message]:
    """Return the first messages of a page, at least one, within the size limit of a flush."""
    length = 0
    for place, message in enumerate(page):
        length += len(message.memory.content)
        if place and length > limits.CONTENT:
            return page[:place]
    return page


def _as_chat(message: Message) -> ChatMessage:
    memory, record = message.memory, message.record
    content = memory.content if record.has_content else ""
    return ChatMessage(record.role, content, memory.speaker, memory.event_time or memory.create_time)
