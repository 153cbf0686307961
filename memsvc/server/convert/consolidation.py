"""Consolidations and summaries of periods."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain import limits
from memsvc.domain.consolidation import ConsolidationReport
from memsvc.domain.scope import Scope
from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import Written
from memsvc.engine.consolidation.service import ConsolidationRequest
from memsvc.engine.summaries.periods import PeriodSummary
from memsvc.server.convert.enums import OUTCOME
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.redactions import redactions_to_proto
from memsvc.server.convert.tokens import consistency_token
from memsvc.v1 import consolidation_pb2 as pb
from memsvc.v1 import summaries_pb2 as summaries_pb


def asked_from_proto(
    request: pb.ConsolidateMemoriesRequest, scope: Scope, after: PageCursor | None
) -> ConsolidationRequest:
    """Return what is to be consolidated."""
    return ConsolidationRequest(
        scope,
        threshold=request.threshold if request.HasField("threshold") else None,
        most_groups=request.max_groups or limits.GROUPS_DEFAULT,
        after=after,
        request_id=request.request_id,
    )


def consolidated_to_proto(report: ConsolidationReport, next_page_token: str) -> pb.ConsolidateMemoriesResponse:
    """Return what was merged, or would be."""
    response = pb.ConsolidateMemoriesResponse(
        examined_count=report.examined,
        skipped_count=report.skipped,
        next_page_token=next_page_token,
        consistency_token=consistency_token(report.position) if report.position else "",
    )
    for group in report.groups:
        message = response.groups.add(similarity=min(1.0, group.similarity), notice=group.notice)
        fill_memory(message.merged, group.merged)
        for original in group.originals:
            fill_memory(message.originals.add(), original)
    return response


def undone_to_proto(merged: Written, originals: Sequence[Written]) -> pb.UndoConsolidationResponse:
    """Return the memories that were parted."""
    response = pb.UndoConsolidationResponse(consistency_token=consistency_token(merged.position))
    fill_memory(response.merged, merged.memory)
    for original in originals:
        fill_memory(response.originals.add(), original.memory)
    return response


def summary_to_proto(summary: PeriodSummary) -> summaries_pb.SummarizePeriodResponse:
    """Return a summary as it was stored."""
    written = summary.written
    response = summaries_pb.SummarizePeriodResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        source_count=summary.source_count,
        notice=summary.notice,
        consistency_token=consistency_token(written.position),
    )
    fill_memory(response.memory, written.memory)
    response.redactions.extend(redactions_to_proto(written.redactions))
    return response
