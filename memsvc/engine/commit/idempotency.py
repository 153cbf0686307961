"""Requests that are recognised when they come again: same id, same answer, and nothing happens twice."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from memsvc.domain.conflicts import Conflict, ConflictState, Contradiction
from memsvc.domain.errors import MemoryNotFoundError, RequestIdReusedError, Violation
from memsvc.domain.memory import Json, Memory
from memsvc.domain.scope import Reach
from memsvc.domain.write_requests import Outcome, Rejected, UpsertResult, Written
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.features import ConflictReads
from memsvc.ports.metadata import MemoryReads, RequestRecord, Transaction

RETENTION = timedelta(hours=24)
"""How long a request is remembered."""


RequestResult: TypeAlias = Written | Rejected | MemoryNotFoundError
"""One result of a request. The error stands for what is gone by the time the request is repeated."""


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request as it is recognised. Without an id it is not.

    Attributes:
        reach: Where the memories of its answer lie.
    """

    method: str
    id: str
    digest: str
    reach: Reach


@dataclass(frozen=True, slots=True)
class IdempotentResult:
    """The results of a request, what else belongs to its answer, and the position at which indexes know them."""

    results: list[RequestResult]
    note: Json
    position: int


@dataclass(frozen=True, slots=True)
class _Remembered:
    answer: Mapping[str, Any]


class IdempotentExecutor:
    """Runs works that answer with memories, each request once."""

    def __init__(self, committer: GroupCommitter, reads: MemoryReads, conflicts: ConflictReads) -> None:
        """Run works by *committer*; *reads* and *conflicts* find what repeated answers speak of."""
        self._committer = committer
        self._reads = reads
        self._conflicts = conflicts

    def run_once(
        self, request: IdempotentRequest, work: Callable[[Transaction], Sequence[UpsertResult | Rejected]]
    ) -> tuple[list[RequestResult], int]:
        """Run *work* and return its results with the position, or those of the first time the request came.

        Memories of a repeated answer are as they were then; one that was removed for good meanwhile is an error.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        noted = self.run_once_with_note(request, lambda transaction: (work(transaction), None))
        return noted.results, noted.position

    def run_once_with_note(
        self, request: IdempotentRequest, work: Callable[[Transaction], tuple[Sequence[UpsertResult | Rejected], Json]]
    ) -> IdempotentResult:
        """Run *work* as `run_once` does and also store a note, which a repeated request returns unchanged.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        committed = self._committer.submit(lambda transaction: _recognise(transaction, request, work))
        if isinstance(committed.value, _Remembered):
            return self._repeated(committed.value.answer, committed.position, request.reach)
        results, note = committed.value
        written = [_with_changes(_written(one, committed.position), committed.changes) for one in results]
        return IdempotentResult(written, note, committed.position)

    def find_answer(self, request: IdempotentRequest) -> IdempotentResult | None:
        """Return the answer that *request* got before, or None, so that dear work is not done in vain.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        if not request.id:
            return None
        committed = self._committer.submit(lambda transaction: recall_answer(transaction, request))
        if committed.value is None:
            return None
        return self._repeated(committed.value, committed.position, request.reach)

    def _repeated(self, answer: Mapping[str, Any], head: int, reach: Reach) -> IdempotentResult:
        position = answer["position"] or head
        again = self._again(answer["results"], position, reach)
        changed = [_with_changes(one, answer.get("changes", 1)) for one in again]
        return IdempotentResult(changed, answer.get("note"), position)

    def _again(self, results: Sequence[Any], position: int, reach: Reach) -> list[RequestResult]:
        known = self._reads.get([result["id"] for result in results if "id" in result], reach=reach)
        return [self._one_again(result, known, position, reach) for result in results]

    def _one_again(
        self, result: Mapping[str, Any], known: Mapping[str, Memory], position: int, reach: Reach
    ) -> RequestResult:
        if "reason" in result:
            violations = tuple(Violation(*violation) for violation in result["violations"])
            return Rejected(result["reason"], result["message"], violations)
        memory = known.get(result["id"])
        if memory is not None and memory.revision != result["revision"]:
            memory = self._reads.revision(memory.id, result["revision"], reach=reach)
        if memory is None:
            return MemoryNotFoundError(result["id"])
        conflicts = self._conflicts_again(result.get("conflicts", ()), reach)
        return Written(memory, Outcome(result["outcome"]), position, conflicts)

    def _conflicts_again(self, told: Sequence[Any], reach: Reach) -> tuple[Contradiction, ...]:
        """Return the conflicts of a repeated answer in the states they had then, their memories as they are now."""
        if not told:
            return ()
        known = self._conflicts.get([one["id"] for one in told], reach=reach)
        states = {one["id"]: ConflictState(one["state"]) for one in told}
        found = [
            conflict if conflict.state is states[name] else replace(conflict, state=states[name], resolve_time=None)
            for name, conflict in sorted(known.items())
        ]
        return hydrate_conflicts(self._reads, found, reach)


def hydrate_conflicts(reads: MemoryReads, conflicts: Sequence[Conflict], reach: Reach) -> tuple[Contradiction, ...]:
    """Return conflicts with their memories as they are now; a deleted one is shown, one removed for good is not."""
    memories = reads.get([side for one in conflicts for side in (one.older_id, one.newer_id)], reach=reach)
    return tuple(Contradiction(one, memories.get(one.older_id), memories.get(one.newer_id)) for one in conflicts)


def not_found_error(answered: Rejected | MemoryNotFoundError) -> MemoryNotFoundError:
    """Return the error to raise for a write of one memory whose repetition finds it removed."""
    # A Rejected never is the answer of such a write: its work raises instead.
    return answered if isinstance(answered, MemoryNotFoundError) else MemoryNotFoundError(answered.reason)


def forget_old_requests(committer: GroupCommitter, now: datetime) -> int:
    """Forget the requests of more than 24 hours before *now*; return how many. To be called now and then."""
    return committer.submit(lambda transaction: transaction.forget_requests(before=now - RETENTION)).value


def recall_answer(transaction: Transaction, request: IdempotentRequest) -> Any | None:
    """Return the answer that *request* got before, as JSON, or None.

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
    """Remember the *answer* of a request that has an id; it becomes durable with the transaction."""
    if request.id:
        record = RequestRecord(request.digest, json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        transaction.remember_request(request.reach.owner, request.method, request.id, record)


def request_digest(*asked: object) -> str:
    """Return a digest that is equal for equal requests, whatever the order of names in their mappings.

    Fields that are None do not count, so that a later version may add some.
    """
    text = json.dumps(asked, default=_plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value):
        given = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: part for name, part in given if part is not None}
    if isinstance(value, array):
        # A vector: number by number it would take fourteen times as long as all the rest of a request.
        return hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    message = f"{type(value).__name__} is no part of a request."
    raise TypeError(message)


def _recognise(
    transaction: Transaction,
    request: IdempotentRequest,
    work: Callable[[Transaction], tuple[Sequence[UpsertResult | Rejected], Json]],
) -> tuple[Sequence[UpsertResult | Rejected], Json] | _Remembered:
    answer = recall_answer(transaction, request)
    if answer is not None:
        return _Remembered(answer)
    before = transaction.changes
    results, note = work(transaction)
    remembered = {
        "results": [_as_json(result) for result in results],
        "position": transaction.position,
        "changes": transaction.changes - before,
    }
    remember_answer(transaction, request, remembered if note is None else remembered | {"note": note})
    return results, note


def _with_changes(answered: RequestResult, changes: int) -> RequestResult:
    return replace(answered, changes=changes) if isinstance(answered, Written) and changes > 1 else answered


def _as_json(result: UpsertResult | Rejected) -> dict[str, Any]:
    if isinstance(result, Rejected):
        violations = [(violation.field, violation.description) for violation in result.violations]
        return {"reason": result.reason, "message": result.message, "violations": violations}
    answer = {"id": result.memory.id, "revision": result.memory.revision, "outcome": result.outcome.value}
    if not result.conflicts:
        return answer
    told = [{"id": one.conflict.id, "state": one.conflict.state.value} for one in result.conflicts]
    return answer | {"conflicts": told}


def _written(result: UpsertResult | Rejected, position: int) -> Written | Rejected:
    if isinstance(result, Rejected):
        return result
    return Written(result.memory, result.outcome, position, result.conflicts)
