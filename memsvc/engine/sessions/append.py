"""Appending of messages to a session, and their removal: durable when acknowledged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    SessionNotActiveError,
    SessionNotFoundError,
    Violation,
)
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import (
    ORIGINS,
    SOURCE,
    AutoTrim,
    Message,
    MessageRecord,
    MessageState,
    NewMessage,
    Session,
    SessionName,
    SessionState,
    SessionStatus,
    ToolCall,
)
from memsvc.domain.write_requests import Draft
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.sessions.serialization import Json, SessionResult, run_once
from memsvc.engine.sessions.service import session_request
from memsvc.ports.features import SessionReads
from memsvc.ports.metadata import Record, Transaction
from memsvc.ports.models import Tokenizer


class MessageAppender:
    """Appends messages to sessions. Each is a memory of layer SESSION with an ordinal and a role."""

    def __init__(  # noqa: PLR0913 - a part each
        self,
        committer: GroupCommitter,
        memory_builder: MemoryBuilder,
        tokenizer: Tokenizer,
        on_full: Callable[[Scope], object],
        is_due: Callable[[int], bool],
        now: Callable[[], datetime],
        *,
        keep_rounds: int,
    ) -> None:
        """Write by these parts.

        *on_full* receives the scope of a session to trim, or to flush because *is_due* accepts its unflushed tokens; it
        must return at once. *keep_rounds* is the number of last rounds that are never trimmed.
        """
        self._committer = committer
        self._memory_builder = memory_builder
        self._tokenizer = tokenizer
        self._on_full = on_full
        self._is_due = is_due
        self._now = now
        self._keep_rounds = keep_rounds

    def append(self, scope: Scope, messages: Sequence[NewMessage], request_id: str) -> SessionResult[AppendResult]:
        """Append *messages* in order to the session of *scope*.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionNotActiveError: The session is closed or archived.
            InvalidRequestError: A single message has more tokens than the session may have.
            RequestIdReusedError: The request_id was used for another request.
        """
        prepared = [self._prepare(scope, message, place) for place, message in enumerate(messages)]
        request = session_request("AppendMessages", scope, (scope, messages), request_id)
        answer = run_once(
            self._committer,
            request,
            lambda transaction: self._append(transaction, scope, prepared),
            to_json=_as_json,
            from_json=_from_json,
            size=len(messages),
        )
        if answer.value.is_full or self._is_due(answer.value.unflushed_tokens):
            self._on_full(scope)
        return answer

    def _prepare(self, scope: Scope, message: NewMessage, place: int) -> _PreparedMessage:
        message = self._redact_tool_calls(self._store_images(scope, message, place))
        called = tool_call_text(message.tool_calls)
        tokens = message.token_count
        if tokens is None:
            tokens = self._tokenizer.count(message.content) + self._tokenizer.count(called)
        draft = Draft(
            content=message.content or called,
            layer=Layer.SESSION,
            kind=Kind.MESSAGE,
            category=message.role.value.lower(),
            speaker=message.speaker,
            event_time=message.event_time,
            source=SOURCE,
            file_refs=tuple(dict.fromkeys(ref for call in message.tool_calls for ref in call.files))[: limits.FILE_REFS]
            or None,
            metadata=message.metadata,
            origin=ORIGINS[message.role],
        )
        return _PreparedMessage(message, self._memory_builder.prepare(scope, draft).record, tokens)

    def _store_images(self, scope: Scope, message: NewMessage, place: int) -> NewMessage:
        content = self._memory_builder.store_text_images(scope, message.content, field=f"messages[{place}].content")
        return message if content is message.content else replace(message, content=content)

    def _redact_tool_calls(self, message: NewMessage) -> NewMessage:
        """Return the message with secrets in its tool calls replaced; its text is redacted like any text."""
        clean = self._memory_builder.redactor.json
        calls = tuple(replace(call, arguments=clean(dict(call.arguments))) for call in message.tool_calls)
        return replace(message, tool_calls=calls) if calls else message

    def _append(self, transaction: Transaction, scope: Scope, prepared: Sequence[_PreparedMessage]) -> AppendResult:
        status = active_session(transaction, scope)
        session = status.session
        _require_room(session, prepared)
        records = [one.record for one in prepared]
        first = records[0]
        records[0] = replace(first, memory=replace(first.memory, previous_row=status.newest_row))
        stored = transaction.insert(records)
        rows = [
            _message_record(one, memory.row, ordinal)
            for ordinal, (one, memory) in enumerate(zip(prepared, stored, strict=True), start=session.last_ordinal + 1)
        ]
        transaction.sessions.append(session, rows)
        now = self._now()
        session = replace(session, last_ordinal=rows[-1].ordinal, last_message_time=now, update_time=now)
        transaction.sessions.update(session)
        added = sum(row.token_count for row in rows)
        live = status.live_tokens + added
        return AppendResult(
            messages=tuple(
                AppendedMessage(memory.id, row.ordinal, row.token_count)
                for memory, row in zip(stored, rows, strict=True)
            ),
            live_tokens=live,
            token_limit=session.token_limit,
            is_full=live >= session.token_limit
            and session.auto_trim is AutoTrim.AT_LIMIT
            and transaction.sessions.has_droppable(session, before=session.last_ordinal, keep_rounds=self._keep_rounds),
            unflushed_tokens=status.unflushed_tokens + added,
        )


REMOVED_AT_ONCE = 100
"""Messages that one transaction removes."""
_ATTEMPTS = 8
"""Attempts to remove the last messages of a session to which messages are being appended."""
_STATES = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})


@dataclass(frozen=True, slots=True)
class PopResult:
    """Messages that were removed from the end of a session, oldest first, and the tokens of its live messages."""

    messages: tuple[Message, ...]
    live_tokens: int


class _MessagesChangedError(Exception):
    """Messages were appended, changed or removed since they were read."""


class MessageRemover:
    """Removes messages of sessions; the memory of each is softly deleted."""

    def __init__(
        self,
        committer: GroupCommitter,
        reads: SessionReads,
        record_builder: RecordBuilder,
        now: Callable[[], datetime],
    ) -> None:
        """Write by *committer*, and read messages from *reads*; *now* is the clock."""
        self._committer = committer
        self._reads = reads
        self._record_builder = record_builder
        self._conflict_states = ConflictStateUpdater(record_builder, now)
        self._now = now

    def pop(self, scope: Scope, count: int, request_id: str) -> SessionResult[PopResult]:
        """Remove the newest *count* live messages of the session of *scope*, or all when there are fewer.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionNotActiveError: The session is closed or archived.
            LimitExceededError: Concurrent calls kept changing the same messages; nothing was changed.
            RequestIdReusedError: The request_id was used for another request.
        """
        request = session_request("PopMessages", scope, (scope, count), request_id)
        for _ in range(_ATTEMPTS):
            session = self._require(scope)
            last = self._reads.messages(session, states={MessageState.ACTIVE}, after=None, limit=count, descending=True)
            try:
                answer = run_once(
                    self._committer,
                    request,
                    lambda transaction, plan=(session, last): self._pop(transaction, scope, *plan),  # type: ignore[misc]
                    to_json=lambda popped: {"ordinals": popped[0], "live_tokens": popped[1]},
                    from_json=lambda known: (known["ordinals"], known["live_tokens"]),
                )
            except _MessagesChangedError:
                continue
            ordinals, live_tokens = answer.value
            return SessionResult(PopResult(self._messages(session, ordinals), live_tokens), answer.position)
        limit = "removals from the same session at a time"
        raise LimitExceededError(limit)

    def clear(self, scope: Scope, deadline: Deadline) -> tuple[int, int]:
        """Remove all messages of the session of *scope*, the newest first; return their number and the position.

        Messages that are appended in the meantime stay.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionNotActiveError: The session is closed or archived.
            DeadlineExceededError: The deadline passed; the newest messages are removed.
        """
        session = self._require(scope)
        after, removed = session.last_ordinal + 1, 0
        committed = self._committer.submit(lambda transaction: active_session(transaction, scope), owner=scope.owner)
        position = committed.position
        while found := self._reads.messages(
            session, states=_STATES, after=after, limit=REMOVED_AT_ONCE, descending=True
        ):
            if deadline.has_passed():
                message = f"the removal of messages ({removed} are removed; repeat the request to continue)"
                raise DeadlineExceededError(message)
            batch = self._committer.submit(
                lambda transaction, found=found: self._clear_some(transaction, scope, found),  # type: ignore[misc]
                owner=scope.owner,
            )
            removed += batch.value
            position = max(position, batch.position)
            after = found[-1].record.ordinal
        return removed, position

    def _require(self, scope: Scope) -> Session:
        session = self._reads.get(SessionName.from_scope(scope))
        if session is None:
            raise SessionNotFoundError(scope.session_id)
        return session

    def _pop(
        self, transaction: Transaction, scope: Scope, session: Session, last: Sequence[Message]
    ) -> tuple[list[int], int]:
        status = active_session(transaction, scope)
        is_same = status.session.last_ordinal == session.last_ordinal and transaction.sessions.are_live(last)
        if not (is_same and all(self._remove(transaction, message) for message in last)):
            raise _MessagesChangedError
        tokens = sum(message.record.token_count for message in last)
        if last:
            transaction.sessions.update(replace(status.session, update_time=self._now()))
        return sorted(message.record.ordinal for message in last), status.live_tokens - tokens

    def _clear_some(self, transaction: Transaction, scope: Scope, found: Sequence[Message]) -> int:
        status = active_session(transaction, scope)
        removed = sum(self._remove(transaction, message) for message in found)
        transaction.sessions.update(replace(status.session, update_time=self._now()))
        return removed

    def _remove(self, transaction: Transaction, message: Message) -> bool:
        """Delete the memory of a message; return False if it is gone already."""
        before = transaction.get(message.memory.id, reach=Reach.from_scope(message.memory.scope))
        if before is None or before.status is Status.DELETED:
            return False
        after = replace(before, status=Status.DELETED, update_time=self._now(), revision=before.revision + 1)
        record = self._record_builder.record(before, after)
        transaction.update(before, record, ChangeAction.DELETED)
        self._conflict_states.update(transaction, [record.memory])
        return True

    def _messages(self, session: Session, ordinals: Sequence[int]) -> tuple[Message, ...]:
        if not ordinals:
            return ()
        first, last = ordinals[0], ordinals[-1]
        found = self._reads.messages(
            session, states=set(MessageState), after=first - 1, limit=last - first + 1, descending=False
        )
        return tuple(message for message in found if message.record.ordinal in set(ordinals))


@dataclass(frozen=True, slots=True)
class AppendedMessage:
    """The id, ordinal and token count of an appended message."""

    memory_id: str
    ordinal: int
    token_count: int


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The result of an append: the messages and the size of the session.

    Attributes:
        is_full: Whether the session reached its limit and will be trimmed automatically. False if only messages that
            always stay could be dropped: the last rounds, the last message, system messages and pinned ones.
        unflushed_tokens: The tokens of live messages that were not flushed yet.
    """

    messages: tuple[AppendedMessage, ...]
    live_tokens: int
    token_limit: int
    is_full: bool
    unflushed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _PreparedMessage:
    message: NewMessage
    record: Record
    token_count: int


def active_session(transaction: Transaction, scope: Scope) -> SessionStatus:
    """Return the status of the active session of *scope*.

    Raises:
        SessionNotFoundError: There is no session.
        SessionNotActiveError: The session is closed or archived.
    """
    status = transaction.sessions.status(SessionName.from_scope(scope))
    if status is None:
        raise SessionNotFoundError(scope.session_id)
    if status.session.state is not SessionState.ACTIVE:
        raise SessionNotActiveError(scope.session_id, status.session.state.value)
    return status


def tool_call_text(calls: Sequence[ToolCall]) -> str:
    """Return tool calls as text, for counting tokens and as the content of messages without text."""
    return "\n".join(f"{call.name}({json.dumps(dict(call.arguments), ensure_ascii=False)})" for call in calls)


def _message_record(prepared: _PreparedMessage, row: int, ordinal: int) -> MessageRecord:
    message = prepared.message
    return MessageRecord(
        row=row,
        ordinal=ordinal,
        role=message.role,
        token_count=prepared.token_count,
        is_pinned=message.is_pinned,
        has_content=bool(message.content),
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
    )


def _require_room(session: Session, prepared: Sequence[_PreparedMessage]) -> None:
    violations = [
        Violation(
            f"messages[{index}].content",
            f"must take at most the session's {session.token_limit} tokens, not {one.token_count}: split it",
        )
        for index, one in enumerate(prepared)
        if one.token_count > session.token_limit
    ]
    if violations:
        raise InvalidRequestError(violations)


def _as_json(appended: AppendResult) -> Json:
    return {
        "messages": [(one.memory_id, one.ordinal, one.token_count) for one in appended.messages],
        "live_tokens": appended.live_tokens,
        "token_limit": appended.token_limit,
        "is_full": appended.is_full,
    }


def _from_json(known: Json) -> AppendResult:
    return AppendResult(
        messages=tuple(AppendedMessage(*one) for one in known["messages"]),
        live_tokens=known["live_tokens"],
        token_limit=known["token_limit"],
        is_full=known["is_full"],
    )
