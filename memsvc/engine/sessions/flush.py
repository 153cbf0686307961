"""Flushing sessions: what was said in them is captured before it is trimmed away, and every so often."""

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
"""How long one flush may take, with a language model."""
_KEPT = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})
_PAGE = 200
"""So many messages are flushed in one transaction."""

log = logging.getLogger(__name__)


class _Turn:
    """Whose turn it is to flush a session; it is forgotten when nobody waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class SessionFlusher:
    """Extracts memories from the messages of sessions, each message once.

    What was extracted is stored before the session notes how far it came. Whoever is stopped in between extracts the
    same again, and finds it known.
    """

    def __init__(
        self, committer: GroupCommitter, store: MetadataStore, flush: ConversationFlusher, flush_tokens: int
    ) -> None:
        """Flush by these parts when more than *flush_tokens* were said; 0: never."""
        self._committer = committer
        self._store = store
        self._flush = flush
        self._flush_tokens = flush_tokens
        # One flush of a session at a time: a trim that is asked for may meet the one in the background.
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._under_way: WeakValueDictionary[SessionName, _Turn] = WeakValueDictionary()

    def stop(self) -> None:
        """Begin no further transaction: what is left is flushed after the next append to its session."""
        self._stopping.set()

    def is_due(self, unflushed_tokens: int) -> bool:
        """Return whether so many tokens of live messages are to be flushed."""
        return 0 < self._flush_tokens < unflushed_tokens

    def flush_when_due(self, scope: Scope) -> None:
        """Flush the session that *scope* names if enough was said in it since the last time."""
        name = SessionName.from_scope(scope)
        with self._turn(name):
            # Only now is known what the one before has left to flush.
            standing = self._committer.submit(lambda transaction: transaction.sessions.standing(name)).value
            if standing is not None and self.is_due(standing.unflushed_tokens):
                self._flush_all(name)

    def flush_before_trimming(self, scope: Scope) -> None:
        """Flush the session that *scope* names before messages of it are put away.

        A failure holds up no trim: what was not flushed is still there, archived, and is flushed the next time.
        """
        if not self._flush_tokens:
            return
        try:
            self.flush(scope)
        except MemsvcError as error:
            log.warning("a session was trimmed before it was flushed; the next flush makes up for it: %s", error)

    def flush(self, scope: Scope) -> None:
        """Flush all messages of the session that *scope* names that no flush has met, if there is such a session."""
        name = SessionName.from_scope(scope)
        with self._turn(name):
            self._flush_all(name)

    @contextmanager
    def _turn(self, name: SessionName) -> Iterator[None]:
        with self._lock:
            turn = self._under_way.setdefault(name, _Turn())
        with turn.lock:
            yield

    def _flush_all(self, name: SessionName) -> None:
        while not self._stopping.is_set() and (session := self._store.sessions.get(name)) is not None:
            page = self._store.sessions.messages(
                session, states=_KEPT, after=session.flushed_ordinal, limit=_PAGE, descending=False
            )
            if not page:
                return
            said = _within(page)
            self._flush.flush(
                session.scope,
                [_as_chat(message) for message in said],
                (),
                options=WriteOptions(),
                deadline=Deadline.after(SECONDS),
            )
            self._note(name, said[-1].record.ordinal)

    def _note(self, name: SessionName, ordinal: int) -> None:
        def note(transaction: Transaction) -> None:
            session = transaction.sessions.get(name)
            if session is not None and session.flushed_ordinal < ordinal:
                transaction.sessions.update(replace(session, flushed_ordinal=ordinal))

        self._committer.submit(note)


def _within(page: Sequence[Message]) -> Sequence[Message]:
    """Return the first messages of a page, at least one, that are together no longer than a flush takes."""
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
