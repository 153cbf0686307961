"""Storing what was captured: all of it in one transaction, once for each request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import Json, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import Draft, OnDuplicate, Outcome, Redaction, Rejected, Written
from memsvc.engine.commit.idempotency import IdempotentExecutor, Noted, Request
from memsvc.engine.memories.lifting import ExtractedImages
from memsvc.engine.memories.upsert import Upserter, UpsertResult, rejection
from memsvc.engine.records.memory_builder import MemoryBuilder
from memsvc.engine.search.access_counts import AccessCounts
from memsvc.ports.metadata import Transaction


class CaptureWriter:
    """Stores drafts together with a note that belongs to the answer."""

    def __init__(
        self, drafting: MemoryBuilder, placing: Upserter, requests: IdempotentExecutor, accesses: AccessCounts
    ) -> None:
        """Store by these parts; duplicates are counted as accesses."""
        self._drafting = drafting
        self._placing = placing
        self._requests = requests
        self._accesses = accesses

    def known(self, request: Request) -> Noted | None:
        """Return the answer that *request* got before, or None.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        return self._requests.known(request)

    def set_aside(self, scope: Scope, text: str, *, field: str) -> ExtractedImages:
        """Return what was said with references in the place of its images, none of which is kept yet.

        Raises:
            InvalidRequestError: An image cannot be kept; it names *field*.
        """
        return self._drafting.set_aside(scope, text, field=field)

    def rehearsed(self, scope: Scope, draft: Draft) -> Memory:
        """Return the memory that *draft* would become, without an id and at no revision."""
        memory = self._drafting.prepare(scope, draft).record.memory
        return replace(memory, id="", revision=0)

    def store(self, scope: Scope, drafts: Sequence[Draft], request: Request, note: Json) -> Noted:
        """Store *drafts* in order and return them with *note* once all are durable.

        Raises:
            RequestIdReusedError: The id was used for another request.
        """
        items = [self._drafting.prepare(scope, draft) for draft in drafts]

        def work(transaction: Transaction) -> tuple[list[UpsertResult | Rejected], Json]:
            placed = self._placing.place(transaction, items, OnDuplicate.RETURN_EXISTING, ConflictPolicy.MARK)
            return [rejection(result) for result in placed], note

        noted = self._requests.once_noted(request, work)
        self._accesses.note(
            result.memory.id
            for result in noted.results
            if isinstance(result, Written) and result.outcome is Outcome.DUPLICATE
        )
        return noted


def request_of(method: str, scope: Scope, request_id: str, digest: str) -> Request:
    """Return a request whose memories lie in the scope's project or outside of all."""
    return Request(method, request_id, digest, Reach.from_scope(scope))


def listed_redactions(redactions: Iterable[Redaction]) -> Json:
    """Return redactions as a note keeps them."""
    return [[redaction.kind, redaction.count] for redaction in redactions]


def redactions_from(listed: Any) -> tuple[Redaction, ...]:
    """Return the redactions of a note."""
    return tuple(Redaction(kind, count) for kind, count in listed)
