"""Capture: memories from the statements of one text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memsvc.domain import limits
from memsvc.domain.capture import CaptureReason, CaptureResult, ChatMessage, Decider, Decision, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import Json, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import (
    Draft,
    OnDuplicate,
    Outcome,
    Redaction,
    RejectedItem,
    UpsertResult,
    WriteOptions,
    WriteResult,
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
    seal,
    unseal,
)
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.memories.upsert import Upserter, as_rejection
from memsvc.engine.records.memory_builder import ExtractedImages, MemoryBuilder, PreparedMemory, store_part_images
from memsvc.ports.metadata import MemoryReads, Transaction

_METHOD = "CaptureMemory"
_CUT = f"Only the first {limits.STATEMENTS} statements were processed; capture the others separately."


@dataclass(frozen=True, slots=True)
class CaptureLabels:
    """Labels that a caller adds to captured memories."""

    tags: tuple[str, ...] = ()
    source: str = ""

    def applied_to(self, draft: Draft) -> Draft:
        """Return the draft with the labels, its own tags first; tags beyond the limit of a memory are dropped."""
        tags = tuple(dict.fromkeys((*(draft.tags or ()), *self.tags)))[: limits.TAGS]
        return replace(draft, tags=tags or None, source=self.source or draft.source)


class CaptureService:
    """Selects the statements of a text to remember, and stores them in one transaction."""

    def __init__(self, extractor: StatementExtractor, writer: CaptureWriter, reads: MemoryReads) -> None:
        """Capture by these parts; *reads* loads the memories of repeated answers."""
        self._extractor = extractor
        self._writer = writer
        self._reads = reads

    @property
    def asks_a_model(self) -> bool:
        """Return whether a call may take as long as a language model."""
        return self._extractor.asks_a_model

    def capture(
        self,
        scope: Scope,
        message: ChatMessage,
        labels: CaptureLabels,
        *,
        is_dry_run: bool,
        options: WriteOptions,
        deadline: Deadline,
    ) -> CaptureResult:
        """Return a decision for each statement of *message*; remembered ones are durable, unless *is_dry_run*.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
            InvalidRequestError: An image in *message* cannot be stored.
        """
        request_id = "" if is_dry_run else options.request_id
        digest = request_digest(scope, message, labels, options.on_conflict) if request_id else ""
        request = capture_request(_METHOD, scope, request_id, digest)
        repeated = self._writer.find_answer(request)
        if repeated is not None:
            return self._result(scope, repeated, message.content)
        images = self._writer.extract_images(scope, message.content, field="message.content")
        extraction = self._extract(scope, replace(message, content=images.text), deadline)
        if is_dry_run:
            return self._preview(scope, extraction, labels)
        note = _note_from(extraction, message.content)
        drafts = self._drafts(scope, extraction, labels, images)
        answer = self._writer.store(scope, drafts, request, note, options.on_conflict)
        return self._result(scope, answer, message.content)

    def _extract(self, scope: Scope, message: ChatMessage, deadline: Deadline) -> Extraction:
        clean, redactions = self._extractor.redact(message.content)
        cited = self._extractor.find_cited(scope, clean)
        like = SourceStatement("", message.role, 0, message.speaker, message.event_time)
        said = split_statements(clean, cited, like, most=limits.STATEMENTS + 1)
        extraction = self._extractor.evaluate(scope, said[: limits.STATEMENTS], redactions, deadline)
        is_cut = len(said) > limits.STATEMENTS
        return extraction.with_notice(_CUT if is_cut else "")

    def _preview(self, scope: Scope, extraction: Extraction, labels: CaptureLabels) -> CaptureResult:
        decisions = []
        for extracted in extraction.statements:
            memory = extracted.known
            if extracted.verdict.remember:
                memory = self._writer.preview(scope, labels.applied_to(draft_from_statement(extracted)))
            verdict = extracted.verdict
            decisions.append(
                Decision(extracted.statement.text, verdict.remember, verdict.reason, verdict.detail, memory)
            )
        return CaptureResult(tuple(decisions), extraction.redactions, extraction.decider, extraction.notice, 0)

    @staticmethod
    def _drafts(scope: Scope, extraction: Extraction, labels: CaptureLabels, images: ExtractedImages) -> list[Draft]:
        """Return the drafts of the statements to remember; their images are stored."""
        remembered = [
            labels.applied_to(draft_from_statement(extracted))
            for extracted in extraction.statements
            if extracted.verdict.remember
        ]
        return [store_part_images(images, scope, draft) for draft in remembered]

    def _result(self, scope: Scope, answer: IdempotentResult, content: str) -> CaptureResult:
        note: Any = answer.note
        # Answers stored by an earlier version have the texts in the decisions.
        texts = json.loads(unseal(note["texts"], content)) if "texts" in note else None
        known = self._reads.get(
            [one["known"] for one in note["decisions"] if one["known"]], reach=Reach.from_scope(scope)
        )
        results = iter(answer.results)
        listed = note["decisions"] if texts is None else map(_with_texts, note["decisions"], texts)
        decisions = tuple(_decision(one, results, known) for one in listed)
        return CaptureResult(
            decisions,
            redactions_from_json(note["redactions"]),
            Decider(note["decider"]),
            note["notice"],
            answer.position,
        )


def _note_from(extraction: Extraction, content: str) -> Json:
    """Return what `CaptureService._result` reads, stored with the request; no text of *content* can be read in it."""
    texts = [[extracted.statement.text, extracted.verdict.detail] for extracted in extraction.statements]
    return {
        "texts": seal(json.dumps(texts), content),
        "decisions": [
            {
                # Processes of an earlier version read "text" and "detail".
                "text": "",
                "remember": extracted.verdict.remember,
                "reason": extracted.verdict.reason.value,
                "detail": "",
                "known": extracted.known.id if extracted.known else "",
            }
            for extracted in extraction.statements
        ],
        "redactions": redactions_to_json(extraction.redactions),
        "decider": extraction.decider.value,
        "notice": extraction.notice,
    }


def _with_texts(one: Mapping[str, Any], texts: Sequence[str]) -> Mapping[str, Any]:
    text, detail = texts
    return {**one, "text": text, "detail": detail}


def _decision(one: Mapping[str, Any], results: Iterator[RequestResult], known: Mapping[str, Memory]) -> Decision:
    reason = CaptureReason(one["reason"])
    if not one["remember"]:
        return Decision(one["text"], False, reason, one["detail"], known.get(one["known"]))  # noqa: FBT003 - in order
    answered = next(results)
    if isinstance(answered, WriteResult):
        stored = (answered.memory, answered.outcome, answered.conflicts)
        return Decision(one["text"], True, reason, one["detail"], *stored)  # noqa: FBT003
    # The memory was purged since the first request.
    return Decision(one["text"], True, reason, one["detail"])  # noqa: FBT003


class CaptureWriter:
    """Idempotent writes of drafts together with a note that belongs to the answer."""

    def __init__(
        self, memory_builder: MemoryBuilder, upserter: Upserter, requests: IdempotentExecutor, accesses: AccessCounts
    ) -> None:
        """Write by these parts; duplicates count as accesses."""
        self._memory_builder = memory_builder
        self._upserter = upserter
        self._requests = requests
        self._accesses = accesses

    def find_answer(self, request: IdempotentRequest) -> IdempotentResult | None:
        """Return the stored answer to *request*, or None.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        return self._requests.find_answer(request)

    def extract_images(self, scope: Scope, text: str, *, field: str) -> ExtractedImages:
        """Return the text with references in place of its images; nothing is stored yet.

        Raises:
            InvalidRequestError: An image cannot be stored; it names *field*.
        """
        return self._memory_builder.extract_images(scope, text, field=field)

    def preview(self, scope: Scope, draft: Draft) -> Memory:
        """Return the memory that *draft* would become, without an id and at revision 0."""
        memory = self._memory_builder.prepare(scope, draft).record.memory
        return replace(memory, id="", revision=0)

    def store(
        self,
        scope: Scope,
        drafts: Sequence[Draft],
        request: IdempotentRequest,
        note: Json,
        on_conflict: ConflictPolicy,
    ) -> IdempotentResult:
        """Store *drafts* in order in one transaction; return them with *note* once they are durable.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        items = self.prepare(scope, drafts)

        def work(transaction: Transaction) -> tuple[list[UpsertResult | RejectedItem], Json]:
            return self.upsert(transaction, items, on_conflict), note

        answer = self._requests.run_once_with_note(request, work, size=sum(item.size for item in items))
        self.note_duplicates(answer.results)
        return answer

    def prepare(self, scope: Scope, drafts: Sequence[Draft]) -> list[PreparedMemory]:
        """Return *drafts* prepared for `upsert`."""
        return [self._memory_builder.prepare(scope, draft) for draft in drafts]

    def upsert(
        self,
        transaction: Transaction,
        items: Sequence[PreparedMemory | RejectedItem],
        on_conflict: ConflictPolicy,
    ) -> list[UpsertResult | RejectedItem]:
        """Store prepared drafts in order; a duplicate is the existing memory."""
        placed = self._upserter.upsert(transaction, items, OnDuplicate.RETURN_EXISTING, on_conflict)
        return [as_rejection(result) for result in placed]

    def note_duplicates(self, results: Iterable[RequestResult]) -> None:
        """Count duplicates among committed *results* as accesses."""
        self._accesses.note(
            result.memory.id
            for result in results
            if isinstance(result, WriteResult) and result.outcome is Outcome.DUPLICATE
        )


def capture_request(method: str, scope: Scope, request_id: str, digest: str) -> IdempotentRequest:
    """Return an idempotent request whose memories are in the scope's project or global."""
    return IdempotentRequest(method, request_id, digest, Reach.from_scope(scope))


def redactions_to_json(redactions: Iterable[Redaction]) -> Json:
    """Return redactions as JSON."""
    return [[redaction.kind, redaction.count] for redaction in redactions]


def redactions_from_json(listed: Any) -> tuple[Redaction, ...]:
    """Return the redactions of a note."""
    return tuple(Redaction(kind, count) for kind, count in listed)
