"""Trimming of sessions: the oldest messages are summarised and archived."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from memsvc.domain.errors import LimitExceededError, SessionNotActiveError, SessionNotFoundError
from memsvc.domain.limits import RELATED_IDS, TITLE
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import (
    SOURCE,
    Message,
    MessageRecord,
    MessageState,
    Session,
    SessionName,
    SessionState,
    dropped_ordinals,
)
from memsvc.domain.summaries import summary_tokens
from memsvc.domain.write_requests import Draft
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer
from memsvc.engine.conflicts.extraction_marks import WithheldMessages
from memsvc.engine.records.memory_builder import MemoryBuilder
from memsvc.engine.sessions.append import active_session
from memsvc.engine.sessions.serialization import Json, SessionResult, run_once
from memsvc.engine.sessions.service import session_request
from memsvc.engine.sessions.summarizers import Summarizer
from memsvc.ports.metadata import MetadataStore, Record, Transaction

log = logging.getLogger(__name__)
_ALL = 1_000_000
_ATTEMPTS = 3
NO_SUMMARY = "…"
"""The summary of messages that may not be quoted."""


class SessionTrimmer:
    """Trims sessions: plan and summarise outside of a transaction, then apply everything in one."""

    def __init__(
        self,
        committer: GroupCommitter,
        store: MetadataStore,
        memory_builder: MemoryBuilder,
        summarizer: Summarizer,
        hooks: TrimHooks,
        rules: TrimRules,
    ) -> None:
        """Trim by these parts; *memory_builder* provides the clock."""
        self._committer = committer
        self._store = store
        self._memory_builder = memory_builder
        self._summarizer = summarizer
        self._hooks = hooks
        self._rules = rules

    @property
    def asks_a_model(self) -> bool:
        """Return whether a trim may take as long as a language model."""
        return self._summarizer.asks_a_model

    def trim(self, scope: Scope, trim_request: TrimRequest, request_id: str = "") -> SessionResult[TrimResult]:
        """Archive the oldest messages of the session of *scope*, and store their summary.

        Messages appended concurrently stay.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionNotActiveError: The session is closed or archived.
            LimitExceededError: Concurrent trims kept changing the same messages; nothing was changed.
            RequestIdReusedError: The request_id was used for another request.
        """
        request = session_request("TrimSession", scope, (scope, trim_request), request_id)
        if self._is_new(request):
            self._active(scope)  # a refused or repeated call extracts nothing
            self._hooks.flush(scope)
        for _ in range(_ATTEMPTS):
            plan = self._plan(scope, trim_request, request)
            try:
                answer = run_once(
                    self._committer,
                    request,
                    lambda transaction, plan=plan: self._apply(transaction, scope, trim_request, plan),  # type: ignore[misc]
                    to_json=_as_json,
                    from_json=_from_json,
                )
            except _OutdatedPlanError:
                continue
            return replace(answer, value=self._with_summary(answer.value, scope))
        limit = "trims of the same session at a time"
        raise LimitExceededError(limit)

    def trim_when_full(self, scope: Scope) -> None:
        """Trim a session that reached its limit, unless it was closed or trimmed concurrently."""
        session = self._store.sessions.get(SessionName.from_scope(scope))
        if session is None or session.state is not SessionState.ACTIVE:
            return
        if self._store.sessions.counts([session])[session.row].live_tokens >= session.token_limit:
            self.trim(scope, TrimRequest())

    def _plan(
        self, scope: Scope, trim_request: TrimRequest, request: IdempotentRequest
    ) -> tuple[Sequence[Message], str]:
        """Return the messages to drop and their summary; nothing for a request that was answered before."""
        if not self._is_new(request):
            return (), ""
        session = self._active(scope)
        live = self._store.sessions.messages(
            session, states={MessageState.ACTIVE}, after=None, limit=_ALL, descending=False
        )
        dropped = self._ordinals_to_drop(session, [message.record for message in live], trim_request)
        dropped_messages = [message for message in live if message.record.ordinal in dropped]
        if not dropped_messages:
            return (), ""
        withheld = self._hooks.withheld.among(
            [message.memory for message in dropped_messages], reach=Reach.from_scope(scope)
        )
        shown = [message for message in dropped_messages if message.memory.id not in withheld]
        tokens = sum(message.record.token_count for message in shown)
        most = summary_tokens(tokens, self._rules.summary_tokens)
        return dropped_messages, self._summarizer.summarize(shown, most_tokens=most) if shown else NO_SUMMARY

    def _is_new(self, request: IdempotentRequest) -> bool:
        """Return whether *request* was not answered before."""
        if not request.id:
            return True
        known = self._committer.submit(
            lambda transaction: recall_answer(transaction, request), owner=request.reach.owner
        )
        return known.value is None

    def _active(self, scope: Scope) -> Session:
        session = self._store.sessions.get(SessionName.from_scope(scope))
        if session is None:
            raise SessionNotFoundError(scope.session_id)
        if session.state is not SessionState.ACTIVE:
            raise SessionNotActiveError(scope.session_id, session.state.value)
        return session

    def _target(self, session: Session, trim_request: TrimRequest) -> int:
        if trim_request.target_tokens is not None:
            return trim_request.target_tokens
        return int(session.token_limit * self._rules.to_share)

    def _ordinals_to_drop(self, session: Session, live: Sequence[MessageRecord], trim_request: TrimRequest) -> set[int]:
        """Return the ordinals to drop: the last rounds always stay, as many as the caller or the rules say."""
        target, asked = self._target(session, trim_request), trim_request.keep_rounds
        rounds = self._rules.keep_rounds if asked is None else asked
        return set(dropped_ordinals(live, target_tokens=target, keep_rounds=rounds, keep_last=asked is None))

    def _apply(
        self, transaction: Transaction, scope: Scope, trim_request: TrimRequest, plan: tuple[Sequence[Message], str]
    ) -> TrimResult:
        dropped_messages, text = plan
        status = active_session(transaction, scope)
        target = self._target(status.session, trim_request)
        if not dropped_messages:
            return TrimResult(None, "", 0, 0, status.live_tokens, target)
        if not transaction.sessions.are_live(dropped_messages):
            raise _OutdatedPlanError
        [summary] = transaction.insert([self._summary(status.session, dropped_messages, text)])
        transaction.set_status([message.memory for message in dropped_messages], Status.ARCHIVED)
        transaction.sessions.set_summary([message.record.row for message in dropped_messages], summary.id)
        now = self._memory_builder.now()
        session = status.session
        transaction.sessions.update(replace(session, trim_count=session.trim_count + 1, trim_time=now, update_time=now))
        tokens = sum(message.record.token_count for message in dropped_messages)
        return TrimResult(summary, summary.id, len(dropped_messages), tokens, status.live_tokens - tokens, target)

    def _summary(self, session: Session, dropped_messages: Sequence[Message], text: str) -> Record:
        """Return the summary as a memory that every session of the project can find, linked to its messages."""
        newest = dropped_messages[-1].memory
        draft = Draft(
            content=text,
            layer=Layer.SHORT_TERM,
            kind=Kind.SUMMARY,
            title=session.title[:TITLE],
            source=SOURCE,
            event_time=newest.moment,
            related_ids=tuple(message.memory.id for message in dropped_messages[-RELATED_IDS:]),
            metadata={
                "session_id": session.scope.session_id,
                "first_ordinal": dropped_messages[0].record.ordinal,
                "last_ordinal": dropped_messages[-1].record.ordinal,
                "message_count": len(dropped_messages),
            },
        )
        draft, _ = self._hooks.redactor.draft(draft)
        # Two trims may have equal summaries, each of its own messages.
        return replace(self._memory_builder.prepare(session.scope, draft).record, is_unique=False)

    def _with_summary(self, trimmed: TrimResult, scope: Scope) -> TrimResult:
        """Return the result of a repeated request with the summary as it was then, unless it was purged."""
        if trimmed.summary is not None or not trimmed.summary_id:
            return trimmed
        reach = Reach.from_scope(scope)
        return replace(trimmed, summary=self._store.memories.revision(trimmed.summary_id, 1, reach=reach))


@dataclass(frozen=True, slots=True)
class TrimRules:
    """Rules for the size of a trim and its summary.

    Attributes:
        to_share: The share of the token limit that remains.
        keep_rounds: The number of last rounds that always stay.
        summary_tokens: The maximum length of the summary, in addition to that of `summary_tokens`.
    """

    to_share: float = 0.5
    keep_rounds: int = 3
    summary_tokens: int = 500


@dataclass(frozen=True, slots=True)
class TrimRequest:
    """A requested trim; None means according to the rules."""

    target_tokens: int | None = None
    keep_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class TrimResult:
    """The result of a trim; without dropped messages there is no summary.

    Attributes:
        live_tokens: The tokens that remain. More than *target_tokens* if the messages that always stay exceed it.
        target_tokens: The requested size; None in answers stored by an earlier version.
    """

    summary: Memory | None
    summary_id: str
    archived_messages: int
    archived_tokens: int
    live_tokens: int
    target_tokens: int | None = None

    @property
    def notice(self) -> str:
        """Return the reason why the target is not met, in English; empty if it is."""
        if self.target_tokens is None or self.live_tokens <= self.target_tokens:
            return ""
        return (
            f"{self.live_tokens} tokens remain, more than the target of {self.target_tokens}: the last rounds, system "
            "messages and pinned messages are never archived. Raise the token limit, or trim with fewer keep_rounds."
        )


@dataclass(frozen=True, slots=True)
class TrimHooks:
    """Processing of messages that leave a session.

    Attributes:
        redactor: Replaces secrets in the summary, which other sessions can read.
        flush: Called with the session before messages are selected.
        withheld: Finds the messages that the summary must not quote.
    """

    redactor: Redactor
    flush: Callable[[Scope], object]
    withheld: WithheldMessages


class _OutdatedPlanError(Exception):
    """Some messages of the plan are not live any more."""


class BackgroundTrimmer:
    """Trims full sessions in a thread of its own, so that an append does not wait for a summary.

    Work left at shutdown is done after the next append to the session.
    """

    def __init__(self, trim: Callable[[Scope], object]) -> None:
        """Trim by *trim*, one session at a time."""
        self._trim = trim
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="trimming")
        self._lock = threading.Lock()
        self._waiting: set[SessionName] = set()

    def request(self, scope: Scope) -> Future[None] | None:
        """Queue a session for trimming; return None if it is queued already."""
        name = SessionName.from_scope(scope)
        with self._lock:
            if name in self._waiting:
                return None
            self._waiting.add(name)
        try:
            future = self._pool.submit(self._run, name, scope)
        except RuntimeError:  # the service is stopping
            return None
        future.add_done_callback(_log_failure)
        return future

    def close(self) -> None:
        """Finish the current session and drop the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, name: SessionName, scope: Scope) -> None:
        with self._lock:
            self._waiting.discard(name)
        self._trim(scope)


def _log_failure(future: Future[None]) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if isinstance(error, SessionNotActiveError | SessionNotFoundError):
        log.info("a trim was skipped: the session was closed")
    elif error is not None:
        log.warning("a session was not flushed or trimmed; its next append retries", exc_info=error)


def _as_json(trimmed: TrimResult) -> Json:
    return {
        "summary_id": trimmed.summary_id,
        "archived_messages": trimmed.archived_messages,
        "archived_tokens": trimmed.archived_tokens,
        "live_tokens": trimmed.live_tokens,
        "target_tokens": trimmed.target_tokens,
    }


def _from_json(known: Json) -> TrimResult:
    return TrimResult(summary=None, **known)
