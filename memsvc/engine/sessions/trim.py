"""Trimming: the oldest messages of a full session make room, summed up and archived, never lost."""

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
    Message,
    MessageRecord,
    MessageState,
    Session,
    SessionName,
    SessionState,
    dropped_ordinals,
    ordinals_over_limit,
)
from memsvc.domain.write_requests import Draft
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer
from memsvc.engine.records.memory_builder import MemoryBuilder
from memsvc.engine.sessions.append import SOURCE, active_session
from memsvc.engine.sessions.serialization import Json, SessionResult, run_once
from memsvc.engine.sessions.service import session_request
from memsvc.engine.sessions.summarizers import Summarizer
from memsvc.ports.metadata import MetadataStore, Record, Transaction

log = logging.getLogger(__name__)

_EVERY = 1_000_000
_ATTEMPTS = 3
SUMMARY_SHARE = 4
"""A summary takes a quarter of the tokens of what it stands for: a longer one would be a copy."""
LEAST_SUMMARY = 40
"""But so many it may always take: a sentence."""


@dataclass(frozen=True, slots=True)
class TrimRules:
    """How much is trimmed, and what it leaves behind.

    Attributes:
        to_share: What share of the token limit remains.
        keep_rounds: How many of the last rounds stay while there is room for them.
        summary_tokens: How long the summary may be, beside `SUMMARY_SHARE` of what it stands for.
    """

    to_share: float = 0.5
    keep_rounds: int = 3
    summary_tokens: int = 500


@dataclass(frozen=True, slots=True)
class TrimRequest:
    """A trim as a caller asks for it; None means as the rules say."""

    target_tokens: int | None = None
    keep_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class TrimResult:
    """What a trim came to; without messages to drop, everything is zero and there is no summary."""

    summary: Memory | None
    summary_id: str
    archived_messages: int
    archived_tokens: int
    live_tokens: int


@dataclass(frozen=True, slots=True)
class TrimHooks:
    """What is done with what leaves a session.

    Attributes:
        redactor: Takes the secrets out of the summary, which others may read.
        flush: Is called with the session before any of its messages is chosen to be put away.
    """

    redactor: Redactor
    flush: Callable[[Scope], object]


class _OutdatedPlanError(Exception):
    """What was to be dropped is not all there any more."""


class SessionTrimmer:
    """Trims sessions: plan, summarise outside of any transaction, then change everything in one."""

    def __init__(
        self,
        committer: GroupCommitter,
        store: MetadataStore,
        memory_builder: MemoryBuilder,
        summarizer: Summarizer,
        leaving: TrimHooks,
        rules: TrimRules,
    ) -> None:
        """Trim by these parts; *memory_builder* brings the clock."""
        self._committer = committer
        self._store = store
        self._memory_builder = memory_builder
        self._summarizer = summarizer
        self._leaving = leaving
        self._rules = rules

    @property
    def asks_a_model(self) -> bool:
        """Return whether a trim may take as long as a language model takes."""
        return self._summarizer.asks_a_model

    def trim(self, scope: Scope, order: TrimRequest, request_id: str = "") -> SessionResult[TrimResult]:
        """Archive the oldest messages of the session that *scope* names, and store their summary.

        Messages that are appended meanwhile stay.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionNotActiveError: It is closed or archived.
            LimitExceededError: Others kept changing the same messages; nothing was changed.
            RequestIdReusedError: The request_id was used for another request.
        """
        request = session_request("TrimSession", scope, (scope, order), request_id)
        self._leaving.flush(scope)
        for _ in range(_ATTEMPTS):
            plan = self._plan(scope, order, request)
            try:
                answer = run_once(
                    self._committer,
                    request,
                    lambda transaction, plan=plan: self._carry_out(transaction, scope, plan),  # type: ignore[misc]
                    to_json=_as_json,
                    from_json=_from_json,
                )
            except _OutdatedPlanError:
                continue
            return replace(answer, value=self._with_summary(answer.value, scope))
        limit = "trims of the same session at a time"
        raise LimitExceededError(limit)

    def trim_when_full(self, scope: Scope) -> None:
        """Trim a session that has reached its limit, unless it was closed or trimmed meanwhile."""
        session = self._store.sessions.get(SessionName.from_scope(scope))
        if session is None or session.state is not SessionState.ACTIVE:
            return
        if self._store.sessions.counts([session])[session.row].live_tokens >= session.token_limit:
            self.trim(scope, TrimRequest())

    def _plan(self, scope: Scope, order: TrimRequest, request: IdempotentRequest) -> tuple[Sequence[Message], str]:
        """Return what to drop, and the text that stands for it; nothing for a request that was answered before."""
        if (
            request.id
            and self._committer.submit(lambda transaction: recall_answer(transaction, request)).value is not None
        ):
            return (), ""
        session = self._store.sessions.get(SessionName.from_scope(scope))
        if session is None:
            raise SessionNotFoundError(scope.session_id)
        if session.state is not SessionState.ACTIVE:
            raise SessionNotActiveError(scope.session_id, session.state.value)
        live = self._store.sessions.messages(
            session, states={MessageState.ACTIVE}, after=None, limit=_EVERY, descending=False
        )
        dropped = self._dropped(session, [message.record for message in live], order)
        victims = [message for message in live if message.record.ordinal in dropped]
        if not victims:
            return (), ""
        share = sum(message.record.token_count for message in victims) // SUMMARY_SHARE
        most = min(self._rules.summary_tokens, max(share, LEAST_SUMMARY))
        return victims, self._summarizer.summarize(victims, most_tokens=most)

    def _dropped(self, session: Session, live: Sequence[MessageRecord], order: TrimRequest) -> set[int]:
        """Return what to drop: rounds that the caller counted stay whatever they cost, others if there is room."""
        share = int(session.token_limit * self._rules.to_share)
        target = share if order.target_tokens is None else order.target_tokens
        if order.keep_rounds is not None:
            return set(dropped_ordinals(live, target_tokens=target, keep_rounds=order.keep_rounds))
        plan = ordinals_over_limit(
            live,
            target_tokens=target,
            keep_rounds=self._rules.keep_rounds,
            rounds_tokens=share if order.target_tokens is None else session.token_limit - 1,
            token_limit=session.token_limit,
        )
        return set(plan)

    def _carry_out(self, transaction: Transaction, scope: Scope, plan: tuple[Sequence[Message], str]) -> TrimResult:
        victims, text = plan
        standing = active_session(transaction, scope)
        if not victims:
            return TrimResult(None, "", 0, 0, standing.live_tokens)
        if not transaction.sessions.are_live(victims):
            raise _OutdatedPlanError
        [summary] = transaction.insert([self._summary(standing.session, victims, text)])
        transaction.put_away([message.memory for message in victims], Status.ARCHIVED)
        transaction.sessions.summarised([message.record.row for message in victims], summary.id)
        now = self._memory_builder.now()
        session = standing.session
        transaction.sessions.update(replace(session, trim_count=session.trim_count + 1, trim_time=now, update_time=now))
        tokens = sum(message.record.token_count for message in victims)
        return TrimResult(summary, summary.id, len(victims), tokens, standing.live_tokens - tokens)

    def _summary(self, session: Session, victims: Sequence[Message], text: str) -> Record:
        """Return the summary as a memory: found from every session of the project, linked to what it stands for."""
        newest = victims[-1].memory
        draft = Draft(
            content=text,
            layer=Layer.SHORT_TERM,
            kind=Kind.SUMMARY,
            title=session.title[:TITLE],
            source=SOURCE,
            event_time=newest.event_time or newest.create_time,
            related_ids=tuple(message.memory.id for message in victims[-RELATED_IDS:]),
            metadata={
                "session_id": session.scope.session_id,
                "first_ordinal": victims[0].record.ordinal,
                "last_ordinal": victims[-1].record.ordinal,
                "message_count": len(victims),
            },
        )
        draft, _ = self._leaving.redactor.draft(draft)
        # Two trims may come to the same words, and each has its own originals.
        return replace(self._memory_builder.prepare(session.scope, draft).record, is_unique=False)

    def _with_summary(self, trimmed: TrimResult, scope: Scope) -> TrimResult:
        """Return what a repeated request was told, with the summary as it was then unless it is gone."""
        if trimmed.summary is not None or not trimmed.summary_id:
            return trimmed
        reach = Reach.from_scope(scope)
        return replace(trimmed, summary=self._store.memories.revision(trimmed.summary_id, 1, reach=reach))


class BackgroundTrimmer:
    """Trims sessions that have become full, in a thread of its own: an append need not wait for a summary.

    What is left undone at the end is done after the next append to the session.
    """

    def __init__(self, trim: Callable[[Scope], object]) -> None:
        """Trim by *trim*, one session at a time."""
        self._trim = trim
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="trimming")
        self._lock = threading.Lock()
        self._waiting: set[SessionName] = set()

    def request(self, scope: Scope) -> Future[None] | None:
        """Have a session trimmed soon; None when it waits for that already."""
        name = SessionName.from_scope(scope)
        with self._lock:
            if name in self._waiting:
                return None
            self._waiting.add(name)
        try:
            future = self._pool.submit(self._run, name, scope)
        except RuntimeError:  # the service is stopping
            return None
        future.add_done_callback(_tell)
        return future

    def close(self) -> None:
        """Finish the session at hand and drop the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, name: SessionName, scope: Scope) -> None:
        with self._lock:
            self._waiting.discard(name)
        self._trim(scope)


def _tell(future: Future[None]) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if isinstance(error, SessionNotActiveError | SessionNotFoundError):
        log.info("a full session was closed before it was trimmed")
    elif error is not None:
        log.warning("a session was not flushed or trimmed; the next append to it tries again", exc_info=error)


def _as_json(trimmed: TrimResult) -> Json:
    return {
        "summary_id": trimmed.summary_id,
        "archived_messages": trimmed.archived_messages,
        "archived_tokens": trimmed.archived_tokens,
        "live_tokens": trimmed.live_tokens,
    }


def _from_json(known: Json) -> TrimResult:
    return TrimResult(summary=None, **known)
