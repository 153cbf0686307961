"""Flushing of sessions: memories are extracted before messages are trimmed, and periodically."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from memsvc.domain import limits
from memsvc.domain.capture import ChatMessage
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemsvcError
from memsvc.domain.memory import Json
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import Message, MessageState, Session, SessionName
from memsvc.domain.write_requests import RejectedItem, UpsertResult, WriteResult
from memsvc.engine.capture.flush import EMPTY_NOTE, ConversationFlusher, PreparedFlush, sum_notes
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import RequestResult, with_position
from memsvc.ports.metadata import MetadataStore, Transaction

SECONDS = 120.0
"""Maximum duration of one flush, including a language model."""
_READABLE = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})
_PAGE = 200
"""Messages flushed in one transaction."""
log = logging.getLogger(__name__)


class SessionFlusher:
    """Extracts memories from messages of sessions, each message once.

    Memories and the progress of the session are stored in one transaction: after an interruption both are there or
    neither.
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
            status = self._committer.submit(
                lambda transaction: transaction.sessions.status(name), owner=scope.owner
            ).value
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

    @property
    def asks_a_model(self) -> bool:
        """Return whether a flush may take as long as a language model."""
        return self._flush.asks_a_model

    @contextmanager
    def _lock_session(self, name: SessionName) -> Iterator[None]:
        with self._lock:
            session_lock = self._locks.setdefault(name, _SessionLock())
        with session_lock.lock:
            yield

    def _flush_all(self, name: SessionName) -> None:
        while not self._stopping.is_set() and (session := self._store.sessions.get(name)) is not None:
            part = self._prepare(session, Deadline.after(SECONDS))
            if not part.rows:
                return
            self._write(part)

    def prepare_end(self, session: Session, deadline: Deadline) -> SessionFlush:
        """Return the flush of all that *session* holds unflushed, to be written when its state changes.

        A long session is flushed up to its last messages at once, in a transaction for each page; the results of these
        are part of the flush.
        """
        before: tuple[WriteResult, ...] = ()
        notes: tuple[Json, ...] = ()
        while not (part := self._prepare(session, deadline)).is_last:
            result = self._write(part)
            if result is not None:
                before += tuple(one for one in result if isinstance(one, WriteResult))
                notes += (part.prepared.note,)
            current = self._store.sessions.get(session.name)
            if current is None:
                break
            session = current
        return SessionFlush(part, before, notes)

    def write_end(
        self, transaction: Transaction, session: Session, flush: SessionFlush | None
    ) -> tuple[Session, list[UpsertResult | RejectedItem]]:
        """Write the rest of a flush; return the session with the progress, which the caller stores, and all results.

        None is the flush of a session that was opened after the sessions to flush were read.

        Raises:
            OutdatedFlushError: Messages were appended or flushed since. Nothing was written.
        """
        if flush is None or session.last_ordinal != flush.part.session.last_ordinal:
            raise OutdatedFlushError
        session, written = self._apply(transaction, session, flush.part)
        earlier = [UpsertResult(one.memory, one.outcome, one.conflicts) for one in flush.before]
        return session, [*earlier, *written]

    def note_duplicates(self, results: Sequence[RequestResult]) -> None:
        """Count the accesses of memories that a committed flush found to exist already."""
        self._flush.note_duplicates(results)

    def _prepare(self, session: Session, deadline: Deadline) -> _Part:
        page = self._store.sessions.messages(
            session, states=_READABLE, after=session.flushed_ordinal, limit=_PAGE, descending=False
        )
        messages = _first_messages(page)
        # A page read after an append may hold messages that this state of the session does not know of.
        is_last = len(page) < _PAGE and len(messages) == len(page)
        until = max(session.last_ordinal, session.flushed_ordinal) if is_last else messages[-1].record.ordinal
        messages = [message for message in messages if message.record.ordinal <= until]
        prepared = PreparedFlush((), EMPTY_NOTE)
        if messages:
            prepared = self._flush.prepare(session.scope, [_as_chat(message) for message in messages], deadline)
        rows = tuple(message.record.row for message in messages)
        return _Part(session, until, rows, prepared, is_last=is_last)

    def _write(self, part: _Part) -> list[RequestResult] | None:
        """Write one part with the progress, in one transaction; return None if another flush was faster."""

        def work(transaction: Transaction) -> list[UpsertResult | RejectedItem] | None:
            session = transaction.sessions.get(part.session.name)
            if session is None:
                return None
            try:
                session, written = self._apply(transaction, session, part)
            except OutdatedFlushError:
                return None
            transaction.sessions.update(session)
            return written

        committed = self._committer.submit(work, owner=part.session.scope.owner)
        if committed.value is None:
            return None
        results: list[RequestResult] = [with_position(one, committed.position) for one in committed.value]
        self._flush.note_duplicates(results)
        return results

    def _apply(
        self, transaction: Transaction, session: Session, part: _Part
    ) -> tuple[Session, list[UpsertResult | RejectedItem]]:
        if session.row != part.session.row or session.flushed_ordinal != part.session.flushed_ordinal:
            raise OutdatedFlushError
        results: list[UpsertResult | RejectedItem] = []
        if part.rows:
            written = self._flush.write(transaction, part.prepared)
            results = written.results
            transaction.sessions.note_extractions(
                {part.rows[place]: found for place, found in written.extracted.items()}
            )
        return replace(session, flushed_ordinal=part.until), results


@dataclass(frozen=True, slots=True)
class _Part:
    """Prepared memories of the next messages of a session.

    Attributes:
        session: The session as it was read.
        until: The ordinal up to which the session is flushed with this part.
        rows: The rows of the messages.
        is_last: Whether no messages follow.
    """

    session: Session
    until: int
    rows: tuple[int, ...]
    prepared: PreparedFlush
    is_last: bool


@dataclass(frozen=True, slots=True)
class SessionFlush:
    """The flush of a session that ends: what was written already, and the part that is written with the end.

    Attributes:
        before: The results of earlier parts.
        notes: The notes of earlier parts.
    """

    part: _Part
    before: tuple[WriteResult, ...]
    notes: tuple[Json, ...]

    def is_current(self, session: Session) -> bool:
        """Return whether *session* is as it was when this flush was prepared."""
        read = self.part.session
        return (session.row, session.flushed_ordinal, session.last_ordinal) == (
            read.row,
            read.flushed_ordinal,
            read.last_ordinal,
        )

    def after(self, earlier: SessionFlush) -> SessionFlush:
        """Return this flush with the parts that an *earlier* attempt wrote."""
        return replace(self, before=earlier.before + self.before, notes=earlier.notes + self.notes)

    @property
    def note(self) -> Json:
        """Return the notes of all parts as one."""
        return sum_notes((*self.notes, self.part.prepared.note))


class OutdatedFlushError(Exception):
    """Messages were appended or flushed after a flush was prepared."""


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
    return ChatMessage(record.role, content, memory.speaker, memory.moment, tool_calls=record.tool_calls)
