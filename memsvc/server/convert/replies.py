"""Hits on their way out."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.search import Explanation, SearchHit, SearchQuery, SearchReply
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import RETRIEVER
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.queries import request_digest
from memsvc.server.convert.times import seconds_to_proto
from memsvc.v1 import search_service_pb2 as pb

HEADING_SEPARATOR = " > "


def fill_response(
    response: pb.SearchResponse, reply: SearchReply, request: pb.SearchRequest, query: SearchQuery
) -> None:
    """Fill in one page of hits, and the token of the next where there is one."""
    response.next_page_token = _next_page_token(reply, request, query)
    response.total_candidates = reply.total_candidates
    for hit in reply.hits:
        _add_hit(response, hit, include_files=request.include_files)
    if reply.degraded:
        response.degraded.extend(
            pb.DegradedRetriever(retriever=RETRIEVER.to_proto[lost.retriever], reason=lost.reason, message=lost.message)
            for lost in reply.degraded
        )
    for one in reply.skipped:
        response.skipped.add(stage=one.stage, reason=one.reason)
    if request.explain:
        response.timings.extend(
            pb.StageTiming(stage=stage, duration=seconds_to_proto(seconds)) for stage, seconds in reply.timings
        )


def _add_hit(response: pb.SearchResponse, hit: SearchHit, *, include_files: bool) -> None:
    """Add one hit, filled where it lies."""
    message = response.hits.add(
        score=hit.score,
        snippet=hit.snippet,
        start_line=hit.start_line,
        end_line=hit.end_line,
        chunk_ordinal=hit.chunk_ordinal,
    )
    fill_memory(message.memory, hit.memory)
    if hit.heading_path:
        message.heading_path = HEADING_SEPARATOR.join(hit.heading_path)
    for start, end in hit.spans:
        message.spans.add(start=start, end=end)
    if include_files:
        for ref in hit.memory.file_refs:
            message.file_refs.add(category=ref.category, id=ref.id)
    if hit.collapsed_ids:
        message.collapsed_ids.extend(hit.collapsed_ids)
    if hit.explanation is not None:
        message.explanation.CopyFrom(explanation_to_proto(hit.explanation))


def explanation_to_proto(explanation: Explanation) -> pb.Explanation:
    """Return how a score came about, the retrievers in the order of the enum."""
    scores = sorted(explanation.retrievers, key=lambda score: RETRIEVER.to_proto[score.retriever])
    return pb.Explanation(
        retrievers=[
            pb.RetrieverScore(
                retriever=RETRIEVER.to_proto[score.retriever],
                rank=score.rank,
                raw_score=score.raw_score,
                normalized_score=score.normalized_score,
                share=score.share,
            )
            for score in scores
        ],
        boosts=[pb.Boost(name=name, value=value) for name, value in explanation.boosts],
        fused_score=explanation.fused_score,
    )


def _next_page_token(reply: SearchReply, request: pb.SearchRequest, query: SearchQuery) -> str:
    following = query.offset + len(reply.hits)
    if not reply.has_more or not reply.hits or following >= limits.SEARCH_DEPTH:
        return ""
    return tokens.search_token(following, request_digest(request))
