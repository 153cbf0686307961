"""ConsolidateMemories, UndoConsolidation and SummarizePeriod: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain.write_requests import WaitFor
from memsvc.server import call_context
from memsvc.server.convert import consolidation as convert
from memsvc.server.convert import tokens
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.convert.scope import scope_from
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import consolidation as validate
from memsvc.v1 import consolidation_pb2 as pb
from memsvc.v1 import summaries_pb2 as summaries_pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
UNBOUND = ("page_token", "request_id", "wait_for", "max_groups")
"""The fields that may differ between the pages of one consolidation."""


class ConsolidationMethods:
    """What LifecycleService does to say the same once, and to sum up."""

    _edge: ServerContext

    async def ConsolidateMemories(
        self, request: pb.ConsolidateMemoriesRequest, context: Context
    ) -> pb.ConsolidateMemoriesResponse:
        """Merge memories that say the same."""
        validate.check_consolidate(request)
        digest = tokens.digest(request, without=UNBOUND)
        scope = scope_from(request.scope, call_context.principal.get())
        asked = convert.asked_from_proto(request, scope, tokens.list_cursor(request.page_token, digest))
        consolidate = self._edge.application.consolidate
        work = consolidate.preview if request.dry_run else consolidate.run
        # It takes long, and may ask a language model: writes do not wait for it.
        report, following = await self._edge.executors.language.run(work, asked, call_context.deadline.get())
        if report.position and WAIT_FOR.given(request.wait_for, WaitFor.INDEXED) is WaitFor.INDEXED:
            await self._edge.waits.stored(report.position)
        token = "" if following is None else tokens.list_token(following, digest)
        return convert.consolidated_to_proto(report, token)

    async def UndoConsolidation(
        self, request: pb.UndoConsolidationRequest, context: Context
    ) -> pb.UndoConsolidationResponse:
        """Take a merged memory apart again."""
        validate.check_undo(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        merged, originals = await self._edge.executors.write.run(
            self._edge.application.undo_consolidation.undo,
            scope_from(request.scope, call_context.principal.get()),
            request.id.lower(),
            expected_revision=request.expected_revision,
            options=options,
        )
        await self._edge.waits.written(merged, options.wait_for)
        return convert.undone_to_proto(merged, originals)

    async def SummarizePeriod(
        self, request: summaries_pb.SummarizePeriodRequest, context: Context
    ) -> summaries_pb.SummarizePeriodResponse:
        """Sum up a period or topic."""
        wish = validate.wish_of(request, scope_from(request.scope, call_context.principal.get()))
        options = write_options(request.request_id, wait_for=request.wait_for)
        summary = await self._edge.executors.language.run(
            self._edge.application.summarize_period.summarize, wish, options, call_context.deadline.get()
        )
        await self._edge.waits.written(summary.written, options.wait_for)
        return convert.summary_to_proto(summary)
