"""Idempotent requests: a repeated `request_id` returns the first answer, and the request takes effect once."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from memsvc.domain.conflicts import Conflict, ConflictState, Contradiction
from memsvc.domain.errors import MemoryNotFoundError, RequestIdReusedError, Violation
from memsvc.domain.memory import Json, Memory
from memsvc.domain.scope import Reach
from memsvc.domain.write_requests import Outcome, RejectedItem, UpsertResult, WriteResult
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.features import ConflictReads
from memsvc.ports.metadata import MemoryReads, RequestRecord, Transaction

RETENTION = timedelta(hours=24)
"""Period for which the answer to a request is stored."""
_NONCE_BYTES = 16
RequestResult: TypeAlias = WriteResult | RejectedItem | MemoryNotFoundError
"""One result of a request; the error marks a memory that was purged before the request was repeated."""


class IdempotentExecutor:
    """Execution of work that returns memories, once for each request."""

    def __init__(self, committer: GroupCommitter, reads: MemoryReads, conflicts: ConflictReads) -> None:
        """Run work with *committer*; *reads* and *conflicts* load the content of repeated answers."""
        self._committer = committer
        self._reads = reads
        self._conflicts = conflicts

    def run_once(
        self,
        request: IdempotentRequest,
        work: Callable[[Transaction], Sequence[UpsertResult | RejectedItem]],
        *,
        size: int = 1,
    ) -> tuple[list[RequestResult], int]:
        """Run *work* and return its results with the position; a repeated request returns the first results.

        Memories of a repeated answer are returned at their revision then. A memory purged since is an error. The *size*
        is that of `GroupCommitter.submit`.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        result = self.run_once_with_note(request, lambda transaction: (work(transaction), None), size=size)
        return result.results, result.position

    def run_once_with_note(
        self,
        request: IdempotentRequest,
        work: Callable[[Transaction], tuple[Sequence[UpsertResult | RejectedItem], Json]],
        *,
        size: int = 1,
    ) -> IdempotentResult:
        """Run *work* as `run_once` does and also store a note, which a repeated request returns unchanged.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        committed = self._committer.submit(
            lambda transaction: _run_or_recall(transaction, request, work), owner=request.reach.owner, size=size
        )
        if isinstance(committed.value, _StoredAnswer):
            return self._load_answer(committed.value.answer, committed.position, request.reach)
        results, note = committed.value
        written = [_with_changes(with_position(one, committed.position), committed.changes) for one in results]
        return IdempotentResult(written, note, committed.position)

    def find_answer(self, request: IdempotentRequest) -> IdempotentResult | None:
        """Return the stored answer to *request*, or None, so that expensive preparation can be skipped.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        if not request.id:
            return None
        committed = self._committer.submit(
            lambda transaction: recall_answer(transaction, request), owner=request.reach.owner
        )
        if committed.value is None:
            return None
        return self._load_answer(committed.value, committed.position, request.reach)

    def _load_answer(self, answer: Mapping[str, Any], head: int, reach: Reach) -> IdempotentResult:
        position = answer["position"] or head
        # The answers of session calls that an earlier version stored hold a value and no results.
        again = self._load_results(answer.get("results", ()), position, reach)
        changed = [_with_changes(one, answer.get("changes", 1)) for one in again]
        return IdempotentResult(changed, answer.get("note", answer.get("value")), position)

    def _load_results(self, results: Sequence[Any], position: int, reach: Reach) -> list[RequestResult]:
        known = self._reads.get([result["id"] for result in results if "id" in result], reach=reach)
        return [self._load_result(result, known, position, reach) for result in results]

    def _load_result(
        self, result: Mapping[str, Any], known: Mapping[str, Memory], position: int, reach: Reach
    ) -> RequestResult:
        if "reason" in result:
            violations = tuple(Violation(*violation) for violation in result["violations"])
            return RejectedItem(result["reason"], result["message"], violations)
        memory = known.get(result["id"])
        if memory is not None and memory.revision != result["revision"]:
            memory = self._reads.revision(memory.id, result["revision"], reach=reach)
        if memory is None:
            return MemoryNotFoundError(result["id"])
        conflicts = self._load_conflicts(result.get("conflicts", ()), reach)
        return WriteResult(memory, Outcome(result["outcome"]), position, conflicts)

    def _load_conflicts(self, stored: Sequence[Any], reach: Reach) -> tuple[Contradiction, ...]:
        """Return the conflicts of a stored answer in their states then, with their memories as they are now."""
        if not stored:
            return ()
        known = self._conflicts.get([one["id"] for one in stored], reach=reach)
        states = {one["id"]: ConflictState(one["state"]) for one in stored}
        found = [
            conflict if conflict.state is states[name] else replace(conflict, state=states[name], resolve_time=None)
            for name, conflict in sorted(known.items())
        ]
        return hydrate_conflicts(self._reads, found, reach)


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request with its idempotency key. Without an id it is not deduplicated.

    Attributes:
        digest: The digest of the request's content; the same id with another digest is an error.
        reach: The scope of the memories in its answer.
    """

    method: str
    id: str
    digest: str
    reach: Reach


@dataclass(frozen=True, slots=True)
class IdempotentResult:
    """The results of a request, a note that belongs to its answer, and the position at which indexes contain them."""

    results: list[RequestResult]
    note: Json
    position: int


@dataclass(frozen=True, slots=True)
class _StoredAnswer:
    """The answer to an earlier request with the same id."""

    answer: Mapping[str, Any]


def hydrate_conflicts(reads: MemoryReads, conflicts: Sequence[Conflict], reach: Reach) -> tuple[Contradiction, ...]:
    """Return conflicts with their memories as they are now; deleted ones are included, purged ones are None."""
    memories = reads.get([side for one in conflicts for side in (one.older_id, one.newer_id)], reach=reach)
    return tuple(Contradiction(one, memories.get(one.older_id), memories.get(one.newer_id)) for one in conflicts)


def not_found_error(answered: RejectedItem | MemoryNotFoundError) -> MemoryNotFoundError:
    """Return the error for a repeated write of one memory that was purged since."""
    # Rejected cannot occur here: the work of such a write raises instead.
    return answered if isinstance(answered, MemoryNotFoundError) else MemoryNotFoundError(answered.reason)


def forget_old_requests(committer: GroupCommitter, now: datetime) -> int:
    """Delete the stored answers older than 24 hours at *now*; return their number. To be called periodically."""
    return committer.submit(lambda transaction: transaction.forget_requests(before=now - RETENTION)).value


def recall_answer(transaction: Transaction, request: IdempotentRequest) -> Any | None:
    """Return the stored answer to *request* as JSON, or None.

    Raises:
        RequestIdReusedError: The id was used for another request.
    """
    if not request.id:
        return None
    record = transaction.recall_request(request.reach.owner, request.method, request.id)
    if record is None:
        return None
    if record.digest != request.digest:
        raise RequestIdReusedError(request.id)
    return json.loads(record.answer)


def remember_answer(transaction: Transaction, request: IdempotentRequest, answer: Any) -> None:
    """Store the *answer* to a request that has an id; it becomes durable with the transaction."""
    if request.id:
        record = RequestRecord(request.digest, json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        transaction.remember_request(request.reach.owner, request.method, request.id, record)


def seal(text: str, content: str) -> str:
    """Return *text* in a form that only a caller who has *content*, which is part of the request, can read.

    A stored answer must not keep text of a memory that is purged. A repeated request brings its content again, so an
    answer need not be readable without it. A guess of the content can be checked, as with the digest of the request.
    The text is combined (XOR) with bytes of SHAKE-256 of random bytes and the content.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return b64encode(nonce + _combine(text.encode(), nonce, content)).decode()


def unseal(sealed: str, content: str) -> str:
    """Return the text that `seal` was given with the same *content*."""
    raw = b64decode(sealed)
    return _combine(raw[_NONCE_BYTES:], raw[:_NONCE_BYTES], content).decode()


def _combine(data: bytes, nonce: bytes, content: str) -> bytes:
    size = len(data)
    stream = hashlib.shake_256(nonce + content.encode()).digest(size)
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")


def request_digest(*parts: object) -> str:
    """Return a digest that is equal for equal requests, independent of the order of mapping keys.

    Fields that are None do not count, so that a later version can add fields.
    """
    text = json.dumps(parts, default=_plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value):
        given = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: part for name, part in given if part is not None}
    if isinstance(value, array):
        # Hash vectors as bytes: number by number took fourteen times as long as the rest of a request.
        return hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    message = f"{type(value).__name__} cannot be part of a request."
    raise TypeError(message)


def _run_or_recall(
    transaction: Transaction,
    request: IdempotentRequest,
    work: Callable[[Transaction], tuple[Sequence[UpsertResult | RejectedItem], Json]],
) -> tuple[Sequence[UpsertResult | RejectedItem], Json] | _StoredAnswer:
    answer = recall_answer(transaction, request)
    if answer is not None:
        return _StoredAnswer(answer)
    before = transaction.changes
    results, note = work(transaction)
    remembered = {
        "results": [_result_to_json(result) for result in results],
        "position": transaction.position,
        "changes": transaction.changes - before,
    }
    remember_answer(transaction, request, remembered if note is None else remembered | {"note": note})
    return results, note


def _with_changes(answered: RequestResult, changes: int) -> RequestResult:
    return replace(answered, changes=changes) if isinstance(answered, WriteResult) and changes > 1 else answered


def _result_to_json(result: UpsertResult | RejectedItem) -> dict[str, Any]:
    if isinstance(result, RejectedItem):
        violations = [(violation.field, violation.description) for violation in result.violations]
        return {"reason": result.reason, "message": result.message, "violations": violations}
    answer = {"id": result.memory.id, "revision": result.memory.revision, "outcome": result.outcome.value}
    if not result.conflicts:
        return answer
    conflicts = [{"id": one.conflict.id, "state": one.conflict.state.value} for one in result.conflicts]
    return answer | {"conflicts": conflicts}


def with_position(result: UpsertResult | RejectedItem, position: int) -> WriteResult | RejectedItem:
    """Return the result of a committed write with the position at which indexes contain it."""
    if isinstance(result, RejectedItem):
        return result
    return WriteResult(result.memory, result.outcome, position, result.conflicts)
