"""Summarize: a month, a span of time or a topic in one memory that is kept up to date under its key (row L8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import MemoryExistsError, MemsvcError, NothingToSummarizeError
from memsvc.domain.limits import DERIVED_FROM, TITLE
from memsvc.domain.memory import Json, Kind, Layer, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.summaries import CATEGORY, PERIOD, Period, summary_key, when
from memsvc.domain.write_requests import Draft, OnDuplicate, WriteOptions, Written
from memsvc.engine.commit.idempotency import IdempotentExecutor, Noted, Request, digest_of, gone
from memsvc.engine.memories.upsert import Upserter, UpsertResult
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory
from memsvc.engine.summaries.material import SummarySources
from memsvc.engine.summaries.summarizer import SummedUp, TextSummarizer
from memsvc.ports.metadata import Transaction
from memsvc.text.context_phrases import day_text

METHOD = "SummarizePeriod"


@dataclass(frozen=True, slots=True)
class PeriodSummary:
    """A summary as it was stored.

    Attributes:
        source_count: Of how many memories it was made; it is derived from the 64 that matter most.
        notice: Why a language model did not write it, if it should have.
    """

    written: Written
    source_count: int
    notice: str = ""


@dataclass(frozen=True, slots=True)
class PeriodRequest:
    """What is to be summed up, in at most so many tokens (None: as the settings say). An empty topic is every topic."""

    scope: Scope
    period: Period
    topic: str
    most_tokens: int | None = None


class SummarizePeriod:
    """Writes summaries, each one transaction."""

    def __init__(
        self,
        drafting: MemoryBuilder,
        placing: Upserter,
        requests: IdempotentExecutor,
        material: SummarySources,
        summing: TextSummarizer,
        *,
        most_tokens: int,
    ) -> None:
        """Write by the first three; *material* finds what *summing* sums up in *most_tokens* unless asked otherwise."""
        self._drafting = drafting
        self._placing = placing
        self._requests = requests
        self._material = material
        self._summing = summing
        self._most_tokens = most_tokens

    def summarize(self, wish: PeriodRequest, options: WriteOptions, deadline: Deadline) -> PeriodSummary:
        """Sum up what is wished for and keep it under its key, where an earlier summary of the same gets a revision.

        Raises:
            NothingToSummarizeError: There are no such memories.
            MemoryExistsError: The key is that of a memory which is no such summary.
            BackendUnavailableError: The lexical index cannot be searched for the topic.
            DeadlineExceededError: The deadline passed first; nothing was written.
            MemorySupersededError: The summary under the key was superseded.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = digest_of(wish) if options.request_id else ""
        request = Request(METHOD, options.request_id, digest, Reach.from_scope(wish.scope))
        known = self._requests.known(request)
        if known is not None:
            return _told(known)
        sources = self._material.of(wish.scope, wish.period, wish.topic, deadline)
        summed = self._summed_up(wish, sources, deadline)
        prepared = self._drafting.prepare(wish.scope, _draft(wish, sources, summed))
        note: Json = {"sources": len(sources), "notice": summed.notice}
        noted = self._requests.once_noted(request, lambda transaction: ([self._place(transaction, prepared)], note))
        told = _told(noted)
        return replace(told, written=replace(told.written, redactions=prepared.redactions))

    def _summed_up(self, wish: PeriodRequest, sources: Sequence[Memory], deadline: Deadline) -> SummedUp:
        texts = [memory.content for memory in sources if memory.content.strip()]
        if not texts:
            raise NothingToSummarizeError(wish.period.name, wish.topic)
        if self._summing.asks_a_model:
            texts = [f"{day_text(when(memory))}: {memory.content}" for memory in sources]
        about = f" about {wish.topic!r}" if wish.topic else ""
        what = f"notes{about} of the time {wish.period.name}, the oldest first"
        summed = self._summing.sum_up(
            texts, what=what, most_tokens=wish.most_tokens or self._most_tokens, deadline=deadline
        )
        if not summed.text:
            raise NothingToSummarizeError(wish.period.name, wish.topic)
        return summed

    def _place(self, transaction: Transaction, prepared: PreparedMemory) -> UpsertResult:
        memory = prepared.record.memory
        name = (memory.scope.project_id, memory.key)
        bearer = transaction.find_keys(memory.scope.owner, [name]).get(name)
        if bearer is not None and bearer.source != PERIOD:
            raise MemoryExistsError(bearer.id, key=bearer.key)
        [placed] = self._placing.place(transaction, [prepared], OnDuplicate.KEEP_BOTH, None)
        if isinstance(placed, MemsvcError):
            raise placed
        assert isinstance(placed, UpsertResult)  # noqa: S101 - only items that came rejected are returned so
        return placed


def _draft(wish: PeriodRequest, sources: Sequence[Memory], summed: SummedUp) -> Draft:
    title = f"{wish.period.name} {wish.topic}" if wish.topic else wish.period.name
    return Draft(
        summed.text,
        key=summary_key(wish.period, wish.topic),
        session_id="",
        layer=Layer.LONG_TERM,
        kind=Kind.SUMMARY,
        category=CATEGORY,
        title=title[:TITLE],
        event_time=max(when(memory) for memory in sources),
        source=PERIOD,
        metadata={"source_count": len(sources)},
        trust=min(memory.trust for memory in sources),
        derived_from=tuple(memory.id for memory in _weightiest(sources, summed.text)),
    )


def _weightiest(sources: Sequence[Memory], summary: str) -> list[Memory]:
    """Return the sources that a summary is derived from: those it quotes, then the important, then the late ones."""
    lines = summary.splitlines()
    flat = {memory.id: " ".join(memory.content.split()) for memory in sources}
    quoted = {name for name, text in flat.items() if any(line.rstrip("…") in text for line in lines if line.strip())}
    ordered = sorted(sources, key=lambda one: (one.id in quoted, one.importance, when(one)), reverse=True)
    return sorted(ordered[:DERIVED_FROM], key=lambda one: (when(one), one.row))


def _told(noted: Noted) -> PeriodSummary:
    [written] = noted.results
    if not isinstance(written, Written):
        raise gone(written)
    note = noted.note
    assert isinstance(note, dict)  # noqa: S101 - every answer of this method has one
    return PeriodSummary(written, int(str(note["sources"])), str(note["notice"]))
