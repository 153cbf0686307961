"""Idempotent changes of sessions: results as JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from memsvc.domain.clock import EPOCH, to_micros
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import AutoTrim, CountedSession, Session, SessionCounts, SessionState
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer
from memsvc.ports.metadata import Transaction

Json = Mapping[str, Any]
T = TypeVar("T")

_SCOPE = ("user_id", "project_id", "agent_id", "session_id", "tenant_id")
_TIMES = ("create_time", "update_time", "last_message_time", "end_time", "trim_time")
_PLAIN = ("token_limit", "row", "title", "last_ordinal", "trim_count", "flushed_ordinal")


@dataclass(frozen=True, slots=True)
class SessionResult(Generic[T]):
    """The result of a change, and the position at which indexes contain it."""

    value: T
    position: int


def run_once(
    committer: GroupCommitter,
    request: IdempotentRequest,
    work: Callable[[Transaction], T],
    *,
    to_json: Callable[[T], Json],
    from_json: Callable[[Json], T],
    size: int = 1,
) -> SessionResult[T]:
    """Run *work* in a transaction and return its result; a repeated request returns the first result.

    The *size* is that of `GroupCommitter.submit`.

    Raises:
        RequestIdReusedError: The id was used for another request.
    """

    def run_or_recall(transaction: Transaction) -> tuple[T, int]:
        known = recall_answer(transaction, request)
        if known is not None:
            return from_json(known["value"]), known["position"]
        value = work(transaction)
        remember_answer(transaction, request, {"value": to_json(value), "position": transaction.position})
        return value, transaction.position

    committed = committer.submit(run_or_recall, owner=request.reach.owner, size=size)
    value, position = committed.value
    return SessionResult(value, position or committed.position)


def session_as_json(counted: CountedSession) -> dict[str, Any]:
    """Return a session and its counts as JSON for a stored answer, without its title and metadata, which are stored."""
    session, counts = replace(counted.session, title="", metadata={}), counted.counts
    return {
        "scope": [getattr(session.scope, name) for name in _SCOPE],
        "times": [_micros(getattr(session, name)) for name in _TIMES],
        "plain": [getattr(session, name) for name in _PLAIN],
        "state": session.state.value,
        "auto_trim": session.auto_trim.value,
        "metadata": dict(session.metadata),
        "counts": [counts.live_messages, counts.live_tokens, counts.archived_messages, counts.archived_tokens],
    }


def session_from_json(known: Json) -> CountedSession:
    """Return the session that `session_as_json` encoded, without its title and metadata."""
    times: dict[str, Any] = dict(zip(_TIMES, map(_moment, known["times"]), strict=True))
    session = Session(
        scope=Scope(*known["scope"]),
        state=SessionState(known["state"]),
        auto_trim=AutoTrim(known["auto_trim"]),
        metadata=known["metadata"],
        **times,
        # Answers stored by an earlier version have fewer fields.
        **dict(zip(_PLAIN, known["plain"], strict=False)),
    )
    return CountedSession(session, SessionCounts(*known["counts"]))


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)
