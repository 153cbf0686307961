"""Responses of SearchService."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memsvc.domain import limits
from memsvc.domain.conflicts import CurrencyMark, stored_mark
from memsvc.domain.context import ContextItem, ContextNotice, ContextPlan, ContextSummary, CoreContext, Event
from memsvc.domain.memory import Memory
from memsvc.domain.search import (
    Explanation,
    FailedRetriever,
    FoundPassage,
    GlobalReply,
    ResultGroup,
    SearchHit,
    SearchQuery,
    SearchReply,
)
from memsvc.domain.use_feedback import FeedbackRules, StoredUseReport, UseFeedback
from memsvc.engine.context.service import RenderedContext
from memsvc.engine.files.service import FileRefResolver
from memsvc.engine.search.use_feedback import UseReceipt
from memsvc.server import tokens
from memsvc.server.enums import (
    CATEGORY_NUMBERS,
    CURRENCY,
    DEGRADATION_REASONS,
    FEEDBACK_STATE,
    FILE_CATEGORY,
    OMISSION_REASON,
    REFINEMENT_STAGES,
    RETRIEVER,
    SECTION,
    SEVERITY,
    USE_OUTCOME,
    WARNING_CODES,
)
from memsvc.server.requests.memory_fields import file_ref_from_proto
from memsvc.server.requests.search import search_digest
from memsvc.server.responses.file import fill_resolved, linked_content
from memsvc.server.responses.memories import (
    apply_read_mask,
    fill_memory,
    fill_occurrence,
    fill_time,
    seconds_to_proto,
    use_counts,
)
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

HEADING_SEPARATOR = " > "
PACK_ITEMS = 256
PACK_CHARS = 192 * 1024
"""The content of one message of a stream: a character takes at most four bytes, so that it stays under 1 MiB."""


def fill_search_response(
    response: search_pb.SearchResponse,
    reply: SearchReply,
    request: search_pb.SearchRequest,
    query: SearchQuery,
    resolver: FileRefResolver,
    marks: Mapping[str, CurrencyMark],
) -> None:
    """Fill in one page of hits, and the token of the next where there is one; *marks* are those beyond stored ones."""
    response.next_page_token = _next_page_token(reply, request, query)
    response.candidate_count = reply.total_candidates
    for hit in reply.hits:
        message = response.hits.add()
        _fill_hit(message, hit, include_files=request.include_files)
        mark = marks.get(hit.memory.id) or stored_mark(hit.memory, query.valid_time)
        message.currency, message.newer_memory_id = CURRENCY.to_proto[mark.currency], mark.newer_id
    for hit in reply.archived:
        _fill_hit(response.archived_hits.add(), hit, include_files=request.include_files)
    found = [*response.hits, *response.archived_hits]
    if request.include_files:
        _add_files(found, resolver, query)
    apply_read_mask((hit.memory for hit in found), request.read_mask)
    response.degraded.extend(_degraded(reply.degraded))
    for one in reply.skipped:
        response.skipped.add(stage=REFINEMENT_STAGES[one.stage.upper()], reason=DEGRADATION_REASONS[one.reason])
    response.nothing_relevant = reply.nothing_relevant
    response.embedded_query_chars = reply.embedded_chars
    if request.explain:
        response.timings.extend(
            search_pb.StageTiming(stage=stage, duration=seconds_to_proto(seconds)) for stage, seconds in reply.timings
        )


def search_all_response(
    reply: GlobalReply, query: SearchQuery | None, resolver: FileRefResolver, request: search_pb.SearchAllRequest
) -> search_pb.SearchAllResponse:
    """Return the hits of every group; *query* is the search for memories, None when they were not searched."""
    response = search_pb.SearchAllResponse()
    if reply.memories is not None and query is not None:
        for hit in reply.memories.hits:
            _fill_hit(response.memories.add(), hit, include_files=request.include_files)
        if request.include_files:
            _add_files(response.memories, resolver, query)
        apply_read_mask((hit.memory for hit in response.memories), request.read_mask)
        response.degraded.extend(_degraded(reply.memories.degraded))
        response.embedded_query_chars = reply.memories.embedded_chars
        response.nothing_relevant = reply.memories.nothing_relevant
    lists = {
        ResultGroup.FILES: response.files,
        ResultGroup.REPORTS: response.reports,
        ResultGroup.CHARTS: response.charts,
    }
    for group, hits in lists.items():
        for found in reply.files.get(group, ()):
            file_hit = hits.add(score=found.score)
            fill_resolved(file_hit.file, resolver.of(found.file))
            for passage in found.passages:
                _fill_passage(file_hit.passages.add(), passage)
    return response


def _fill_passage(message: search_pb.FilePassage, found: FoundPassage) -> None:
    message.score, message.snippet = found.score, found.snippet
    message.start_line, message.end_line = found.start_line, found.end_line
    message.page, message.section = found.passage.page, found.passage.section
    message.ordinal, message.id = found.passage.ordinal, found.passage_id
    for start, end in found.spans:
        message.spans.add(start=start, end=end)


def _file_place(found: FoundPassage) -> search_pb.ContextFilePassage:
    """Return the place of a passage in a context."""
    return search_pb.ContextFilePassage(
        file=types_pb.FileRef(category=FILE_CATEGORY.to_proto[found.file.category], id=found.file.id),
        name=found.file.name,
        start_line=found.passage.start_line,
        end_line=found.passage.end_line,
        page=found.passage.page,
        section=found.passage.section,
        ordinal=found.passage.ordinal,
    )


def _degraded(lost: Iterable[FailedRetriever]) -> list[search_pb.DegradedRetriever]:
    return [
        search_pb.DegradedRetriever(
            retriever=RETRIEVER.to_proto[one.retriever], reason=DEGRADATION_REASONS[one.reason], message=one.message
        )
        for one in lost
    ]


def _fill_hit(message: search_pb.Hit, hit: SearchHit, *, include_files: bool) -> None:
    message.score = hit.score
    if hit.relevance is not None:
        message.relevance = hit.relevance
    message.snippet = hit.snippet
    message.start_line, message.end_line = hit.start_line, hit.end_line
    message.chunk_ordinal = hit.chunk_ordinal
    fill_memory(message.memory, hit.memory)
    if hit.heading_path:
        message.heading_path = HEADING_SEPARATOR.join(hit.heading_path)
    for start, end in hit.spans:
        message.spans.add(start=start, end=end)
    if include_files:
        for ref in hit.memory.file_refs:
            message.file_refs.add(category=CATEGORY_NUMBERS[ref.category], id=ref.id)
    if hit.collapsed_ids:
        message.collapsed_ids.extend(hit.collapsed_ids)
    if hit.explanation is not None:
        message.explanation.SetInParent()
        _fill_explanation(message.explanation, hit.explanation)


def _add_files(hits: Sequence[search_pb.Hit], resolver: FileRefResolver, query: SearchQuery) -> None:
    """Add to hits the files that their references lead to, with one read of the store for the whole page."""
    refs = [file_ref_from_proto(ref) for hit in hits for ref in hit.file_refs]
    resolved = resolver.resolve(query.scope, refs)
    for hit in hits:
        own = [resolved[file_ref_from_proto(ref)] for ref in hit.file_refs]
        for one in own:
            fill_resolved(hit.files.add(), one)
        hit.linked_content = linked_content(hit.memory.content, own)


def _fill_explanation(message: search_pb.Explanation, explanation: Explanation) -> None:
    """Fill in the parts of a score, the retrievers in the order of the enum."""
    for score in sorted(explanation.retrievers, key=lambda one: RETRIEVER.to_proto[one.retriever]):
        message.retrievers.add(
            retriever=RETRIEVER.to_proto[score.retriever],
            rank=score.rank,
            raw_score=score.raw_score,
            normalized_score=score.normalized_score,
            share=score.share,
        )
    for name, value in explanation.boosts:
        message.boosts.add(name=name, value=value)
    message.fused_score = explanation.fused_score


def _next_page_token(reply: SearchReply, request: search_pb.SearchRequest, query: SearchQuery) -> str:
    following = query.offset + len(reply.hits)
    if not reply.has_more or not reply.hits or following >= limits.SEARCH_DEPTH:
        return ""
    return tokens.search_token(following, search_digest(request))


# Contexts.


def build_context_responses(run_id: bytes, events: Iterable[tuple[int, Event]]) -> list[search_pb.BuildContextResponse]:
    """Return the events of a context as messages, each with its cursor; consecutive items share a message."""
    responses: list[search_pb.BuildContextResponse] = []
    pack: list[ContextItem] = []
    end = chars = 0
    for index, event in events:
        if pack and (
            not isinstance(event, ContextItem) or len(pack) == PACK_ITEMS or chars + len(event.text) > PACK_CHARS
        ):
            responses.append(_items(run_id, end, pack))
            pack, chars = [], 0
        if isinstance(event, ContextItem):
            pack.append(event)
            end, chars = index, chars + len(event.text)
        else:
            responses.append(_response(run_id, index, event))
    return [*responses, _items(run_id, end, pack)] if pack else responses


def render_context_response(rendered: RenderedContext) -> search_pb.RenderContextResponse:
    """Return a context as one text."""
    response = search_pb.RenderContextResponse(markdown=rendered.markdown)
    offset = 0
    for index, event in enumerate(rendered.events):
        if isinstance(event, ContextNotice):
            response.warnings.append(_warning(event))
            continue
        if isinstance(event, ContextItem):
            response.citations.add(
                memory_id=event.memory_id,
                revision=event.revision,
                section=SECTION.to_proto[event.section],
                start=offset + event.heading_chars,
                end=offset + len(event.text),
                **_held_fields(event),
            )
        elif isinstance(event, ContextSummary):
            response.token_count = event.token_count
            response.summary.CopyFrom(_summary(event, tokens.context_cursor(rendered.run_id, index)))
            response.summary.ClearField("text")
        offset += len(event.text)
    return response


def resolve_citations_response(
    request: search_pb.ResolveCitationsRequest, found: Sequence[tuple[str, int]], memories: Mapping[str, Memory]
) -> search_pb.ResolveCitationsResponse:
    """Return the memories of citations, in their order."""
    response = search_pb.ResolveCitationsResponse()
    for citation, (memory_id, revision) in zip(request.citations, found, strict=True):
        one = response.citations.add(citation=citation, memory_id=memory_id, revision=revision)
        if memory_id in memories:
            fill_memory(one.memory, memories[memory_id])
    apply_read_mask((one.memory for one in response.citations if one.HasField("memory")), request.read_mask)
    return response


def report_use_response(receipt: UseReceipt) -> search_pb.ReportUseResponse:
    """Return how many reports were stored."""
    return search_pb.ReportUseResponse(stored_count=receipt.stored, missing=receipt.missing)


def list_use_reports_response(
    found: Sequence[StoredUseReport], next_page_token: str
) -> search_pb.ListUseReportsResponse:
    """Return one page of reports."""
    response = search_pb.ListUseReportsResponse(next_page_token=next_page_token)
    for one in found:
        message = response.reports.add(
            memory_id=one.report.memory_id,
            outcome=USE_OUTCOME.to_proto[one.report.outcome],
            revision=one.report.revision,
            position=one.report.position,
            query=one.query,
        )
        fill_time(message.report_time, one.time)
        message.scope.user_id, message.scope.project_id = one.scope.user_id, one.scope.project_id
        message.scope.agent_id, message.scope.session_id = one.scope.agent_id, one.scope.session_id
    return response


def get_use_feedback_response(feedback: UseFeedback, rules: FeedbackRules) -> search_pb.GetUseFeedbackResponse:
    """Return the state of the reports of a user, by *rules*."""
    response = search_pb.GetUseFeedbackResponse(
        state=FEEDBACK_STATE.to_proto[feedback.state(rules)],
        enabled=rules.is_default,
        counts=use_counts(feedback.counts),
        call_count=feedback.calls,
        pending_count=feedback.pending,
        weight=rules.weight,
        min_report_count=rules.min_reports,
        min_tested_count=rules.min_queries,
        min_gain=rules.min_gain,
    )
    if (replay := feedback.replay) is not None:
        message = response.replay
        fill_time(message.replay_time, replay.time)
        message.call_count, message.tested_count = replay.calls, replay.tested
        for name in ("mrr_without", "mrr_with", "ndcg_without", "ndcg_with", "standard_error"):
            setattr(message, name, getattr(replay, name))
    return response


def load_core_response(loaded: CoreContext, marks: Mapping[str, CurrencyMark]) -> search_pb.LoadCoreResponse:
    """Return the core memories that an agent loads at its start, with the marks of those that are not current."""
    response = search_pb.LoadCoreResponse(incomplete=loaded.is_incomplete)
    for field, memories in (
        (response.core, loaded.core),
        (response.active, loaded.active),
        (response.preferences, loaded.preferences),
        (response.reminders, loaded.reminders),
    ):
        for memory in memories:
            fill_memory(field.add(), memory)
            if memory.id in marks:
                mark = marks[memory.id]
                response.currencies.add(
                    memory_id=memory.id, currency=CURRENCY.to_proto[mark.currency], newer_memory_id=mark.newer_id
                )
    for one in loaded.due:
        fill_occurrence(response.due.add(), one)
    return response


def _items(run_id: bytes, end: int, items: Sequence[ContextItem]) -> search_pb.BuildContextResponse:
    response = search_pb.BuildContextResponse(cursor=tokens.context_cursor(run_id, end))
    add = response.items.items.add
    for item in items:
        add(
            section=SECTION.to_proto[item.section],
            memory_id=item.memory_id,
            revision=item.revision,
            text=item.text,
            token_count=item.token_count,
            score=item.score,
            excerpt=item.is_excerpt,
            **_held_fields(item),
        )
    return response


def _held_fields(item: ContextItem) -> dict[str, Any]:
    """Return the citation and currency of an item."""
    passage = {} if item.passage is None else {"passage": _file_place(item.passage)}
    if item.held is None:
        return passage
    mark = item.held.mark
    return passage | {
        "citation": item.held.citation,
        "currency": CURRENCY.to_proto[mark.currency],
        "newer_memory_id": mark.newer_id,
    }


def _response(
    run_id: bytes, index: int, event: ContextPlan | ContextNotice | ContextSummary
) -> search_pb.BuildContextResponse:
    cursor = tokens.context_cursor(run_id, index)
    if isinstance(event, ContextPlan):
        return search_pb.BuildContextResponse(plan=_plan(event), cursor=cursor)
    if isinstance(event, ContextNotice):
        return search_pb.BuildContextResponse(warning=_warning(event), cursor=cursor)
    return search_pb.BuildContextResponse(summary=_summary(event, cursor), cursor=cursor)


def _plan(plan: ContextPlan) -> search_pb.ContextPlan:
    return search_pb.ContextPlan(
        text=plan.text,
        token_count=plan.token_count,
        total_tokens=plan.total_tokens,
        tokenizer=plan.tokenizer,
        sections=[
            search_pb.PlannedSection(section=SECTION.to_proto[section], budget_tokens=budget)
            for section, budget in plan.sections
        ],
        delta=plan.is_delta,
    )


def _warning(notice: ContextNotice) -> types_pb.Warning:
    return types_pb.Warning(
        severity=SEVERITY.to_proto[notice.severity],
        code=WARNING_CODES[notice.code],
        message=notice.message,
        value=notice.value,
        limit=notice.limit,
    )


def _summary(summary: ContextSummary, cursor: str) -> search_pb.ContextSummary:
    return search_pb.ContextSummary(
        text=summary.text,
        text_token_count=summary.text_token_count,
        token_count=summary.token_count,
        total_tokens=summary.total_tokens,
        sections=_sections(summary),
        omissions=[
            search_pb.ContextOmission(
                section=SECTION.to_proto[one.section],
                reason=OMISSION_REASON.to_proto[one.reason],
                memory_count=one.count,
                memory_ids=one.memory_ids,
            )
            for one in summary.left_out
        ],
        removed_ids=summary.removed_ids,
        context_cursor=cursor,
    )


def _sections(summary: ContextSummary) -> Sequence[search_pb.ContextSectionSummary]:
    return [
        search_pb.ContextSectionSummary(section=SECTION.to_proto[section], item_count=items, token_count=cost)
        for section, (items, cost) in summary.sections.items()
    ]
