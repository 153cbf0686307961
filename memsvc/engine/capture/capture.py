"""Capture: what one thing that was said leaves in the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memsvc.domain import limits
from memsvc.domain.capture import Captured, Decider, Decision, Reason, Statement
from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import Json, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.sessions import Role
from memsvc.domain.write_requests import (
    Draft,
    OnDuplicate,
    Outcome,
    Redaction,
    Rejected,
    UpsertResult,
    WriteOptions,
    Written,
)
from memsvc.engine.capture.statement_extraction import (
    Extraction,
    StatementExtractor,
    draft_from_statement,
    split_statements,
)
from memsvc.engine.commit.idempotency import (
    IdempotentExecutor,
    IdempotentRequest,
    IdempotentResult,
    RequestResult,
    request_digest,
)
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.memories.upsert import Upserter, as_rejection
from memsvc.engine.records.memory_builder import ExtractedImages, MemoryBuilder, store_part_images
from memsvc.ports.metadata import MemoryReads, Transaction

_METHOD = "CaptureMemory"
_CUT = f"Only the first {limits.STATEMENTS} statements were looked at; capture the others by themselves."


class CaptureService:
    """Decides what to remember of a text, and stores it in one transaction."""

    def __init__(self, extractor: StatementExtractor, writer: CaptureWriter, reads: MemoryReads) -> None:
        """Capture by these parts; *reads* finds the memories of repeated answers."""
        self._extractor = extractor
        self._writer = writer
        self._reads = reads

    @property
    def asks_a_model(self) -> bool:
        """Return whether a call may take as long as a language model takes."""
        return self._extractor.asks_a_model

    def capture(
        self, scope: Scope, text: str, role: Role, *, is_dry_run: bool, options: WriteOptions, deadline: Deadline
    ) -> Captured:
        """Return a decision for each statement of *text*; what is remembered is durable, unless *is_dry_run*.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
            InvalidRequestError: An image in *text* cannot be kept.
        """
        request_id = "" if is_dry_run else options.request_id
        digest = request_digest(scope, text, role) if request_id else ""
        request = capture_request(_METHOD, scope, request_id, digest)
        repeated = self._writer.find_answer(request)
        if repeated is not None:
            return self._told(scope, repeated)
        aside = self._writer.extract_images(scope, text, field="text")
        extraction = self._extract(scope, aside.text, role, deadline)
        if is_dry_run:
            return self._rehearsed(scope, extraction)
        return self._told(scope, self._stored(scope, extraction, aside, request))

    def _extract(self, scope: Scope, text: str, role: Role, deadline: Deadline) -> Extraction:
        clean, redactions = self._extractor.redact(text)
        cited = self._extractor.find_cited(scope, clean)
        said = split_statements(clean, cited, Statement("", role), most=limits.STATEMENTS + 1)
        extraction = self._extractor.evaluate(scope, said[: limits.STATEMENTS], redactions, deadline)
        is_cut = len(said) > limits.STATEMENTS
        return extraction.with_notice(_CUT if is_cut else "")

    def _rehearsed(self, scope: Scope, extraction: Extraction) -> Captured:
        decisions = []
        for heard in extraction.heard:
            memory = heard.known
            if heard.verdict.remember:
                memory = self._writer.preview(scope, draft_from_statement(heard))
            verdict = heard.verdict
            decisions.append(Decision(heard.statement.text, verdict.remember, verdict.reason, verdict.detail, memory))
        return Captured(tuple(decisions), extraction.redactions, extraction.decider, extraction.notice, 0)

    def _stored(
        self, scope: Scope, extraction: Extraction, aside: ExtractedImages, request: IdempotentRequest
    ) -> IdempotentResult:
        remembered = [draft_from_statement(heard) for heard in extraction.heard if heard.verdict.remember]
        drafts = [store_part_images(aside, scope, draft) for draft in remembered]
        note = _note_of(extraction)
        return self._writer.store(scope, drafts, request, note)

    def _told(self, scope: Scope, noted: IdempotentResult) -> Captured:
        note: Any = noted.note
        known = self._reads.get(
            [one["known"] for one in note["decisions"] if one["known"]], reach=Reach.from_scope(scope)
        )
        results = iter(noted.results)
        decisions = tuple(_decision(one, results, known) for one in note["decisions"])
        return Captured(
            decisions,
            redactions_from_json(note["redactions"]),
            Decider(note["decider"]),
            note["notice"],
            noted.position,
        )


def _note_of(extraction: Extraction) -> Json:
    return {
        "decisions": [
            {
                "text": heard.statement.text,
                "remember": heard.verdict.remember,
                "reason": heard.verdict.reason.value,
                "detail": heard.verdict.detail,
                "known": heard.known.id if heard.known else "",
            }
            for heard in extraction.heard
        ],
        "redactions": redactions_to_json(extraction.redactions),
        "decider": extraction.decider.value,
        "notice": extraction.notice,
    }


def _decision(one: Mapping[str, Any], results: Iterator[RequestResult], known: Mapping[str, Memory]) -> Decision:
    reason = Reason(one["reason"])
    if not one["remember"]:
        return Decision(one["text"], False, reason, one["detail"], known.get(one["known"]))  # noqa: FBT003 - in order
    answered = next(results)
    if isinstance(answered, Written):
        stored = (answered.memory, answered.outcome, answered.conflicts)
        return Decision(one["text"], True, reason, one["detail"], *stored)  # noqa: FBT003
    # Removed for good since the request came first.
    return Decision(one["text"], True, reason, one["detail"])  # noqa: FBT003


# Storing what was captured: all of it in one transaction, once for each request.


class CaptureWriter:
    """Stores drafts together with a note that belongs to the answer."""

    def __init__(
        self, memory_builder: MemoryBuilder, upserter: Upserter, requests: IdempotentExecutor, accesses: AccessCounts
    ) -> None:
        """Store by these parts; duplicates are counted as accesses."""
        self._memory_builder = memory_builder
        self._upserter = upserter
        self._requests = requests
        self._accesses = accesses

    def find_answer(self, request: IdempotentRequest) -> IdempotentResult | None:
        """Return the answer that *request* got before, or None.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        return self._requests.find_answer(request)

    def extract_images(self, scope: Scope, text: str, *, field: str) -> ExtractedImages:
        """Return what was said with references in the place of its images, none of which is kept yet.

        Raises:
            InvalidRequestError: An image cannot be kept; it names *field*.
        """
        return self._memory_builder.extract_images(scope, text, field=field)

    def preview(self, scope: Scope, draft: Draft) -> Memory:
        """Return the memory that *draft* would become, without an id and at no revision."""
        memory = self._memory_builder.prepare(scope, draft).record.memory
        return replace(memory, id="", revision=0)

    def store(self, scope: Scope, drafts: Sequence[Draft], request: IdempotentRequest, note: Json) -> IdempotentResult:
        """Store *drafts* in order and return them with *note* once all are durable.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        items = [self._memory_builder.prepare(scope, draft) for draft in drafts]

        def work(transaction: Transaction) -> tuple[list[UpsertResult | Rejected], Json]:
            placed = self._upserter.upsert(transaction, items, OnDuplicate.RETURN_EXISTING, ConflictPolicy.MARK)
            return [as_rejection(result) for result in placed], note

        noted = self._requests.run_once_with_note(request, work)
        self._accesses.note(
            result.memory.id
            for result in noted.results
            if isinstance(result, Written) and result.outcome is Outcome.DUPLICATE
        )
        return noted


def capture_request(method: str, scope: Scope, request_id: str, digest: str) -> IdempotentRequest:
    """Return a request whose memories lie in the scope's project or outside of all."""
    return IdempotentRequest(method, request_id, digest, Reach.from_scope(scope))


def redactions_to_json(redactions: Iterable[Redaction]) -> Json:
    """Return redactions as a note keeps them."""
    return [[redaction.kind, redaction.count] for redaction in redactions]


def redactions_from_json(listed: Any) -> tuple[Redaction, ...]:
    """Return the redactions of a note."""
    return tuple(Redaction(kind, count) for kind, count in listed)
