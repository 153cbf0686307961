"""Servicer of MemoryService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.conflicts import Contradiction
from memsvc.domain.errors import InvalidRequestError, MemoryNotFoundError, Violation
from memsvc.domain.memory import Memory, Status
from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor, WriteResult
from memsvc.engine.memories.documents import IngestResult
from memsvc.engine.memories.lookup import MemoryName
from memsvc.server import call_context, tokens
from memsvc.server.executors import Answer, NamedExecutor, runs_in, stream_progress
from memsvc.server.requests import memory as requests
from memsvc.server.responses import memory as responses
from memsvc.server.responses.memories import apply_read_mask, fill_memory, use_counts
from memsvc.server.server_context import ServerContext, note_unstored_keys
from memsvc.server.services.import_stream import MemoryImportStream
from memsvc.server.slots import Slots
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class MemoryServicer(pb_grpc.MemoryServiceServicer):
    """Writes and reads memories: each method decodes, calls the engine in a thread, and builds the response.

    Most methods run in a thread as a whole: a thousand memories take milliseconds to decode.
    """

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._app = server.application
        self._waits = server.waits
        self._write = server.executors.write
        self._meta = server.executors.meta

    @runs_in("write")
    def CreateMemory(
        self, request: memory_pb.CreateMemoryRequest, context: Context
    ) -> Answer[memory_pb.CreateMemoryResponse]:
        """Store one memory."""
        new = requests.create_memory_request(request, dimension=self._app.dimension)
        written = self._app.memory_creator.create(new.scope, new.draft, new.options)
        response = responses.create_memory_response(written)
        [response.notice] = note_unstored_keys([new.draft], [written])
        return self._waits.after(response, written, new.options.wait_for)

    @runs_in("write")
    def BatchCreateMemories(
        self, request: memory_pb.BatchCreateMemoriesRequest, context: Context
    ) -> Answer[memory_pb.BatchCreateMemoriesResponse]:
        """Store several memories in one transaction; a memory with violations fails alone."""
        batch = requests.batch_create_memories_request(request)
        dimension, scope = self._app.dimension, request.scope
        drafts = [requests.batch_memory(entry, scope, dimension=dimension) for entry in request.memories]
        written = self._app.memory_creator.create_batch(batch.scope, drafts, batch.options)
        response = responses.batch_create_memories_response(written, note_unstored_keys(drafts, written.results))
        return self._waits.after_batch(response, written, batch.options.wait_for)

    async def ImportMemories(
        self, request_iterator: AsyncIterator[memory_pb.ImportMemoriesRequest], context: Context
    ) -> AsyncGenerator[memory_pb.ImportMemoriesResponse, None]:
        """Store any number of memories and stream the progress."""
        async with aclosing(MemoryImportStream(self._server, request_iterator).responses()) as progress:
            async for response in progress:
                yield response

    @runs_in("meta")
    def GetMemory(self, request: memory_pb.GetMemoryRequest, context: Context) -> memory_pb.GetMemoryResponse:
        """Return one memory by id or key, optionally with its supersession chain."""
        read = requests.get_memory_request(request, now=self._server.now())
        memory = self._get(read)
        response = memory_pb.GetMemoryResponse()
        fill_memory(response.memory, memory)
        if request.include_files:
            resolved = self._app.files.ref_resolver.resolve(read.scope, memory.file_refs)
            responses.fill_linked_files(response, memory, resolved)
        if request.include_use_counts:
            response.use_counts.CopyFrom(use_counts(self._app.use_reader.counts(memory)))
        if request.include_chain:
            for one in self._app.memory_reader.chain(read.scope, memory):
                fill_memory(response.chain.add(), one)
        apply_read_mask((response.memory, *response.chain), request.read_mask)
        return response

    def _get(self, read: requests.GetMemory) -> Memory:
        """Return a memory: a revision of it, as it was at a moment, or as it is."""
        past, present = self._app.as_of_reader, self._app.memory_reader
        if read.revision:
            name = MemoryName(read.memory_id, read.key)
            memory_id = self._app.key_resolver.id_of(read.scope, name, method="GetMemory")
            return past.revision(read.scope, memory_id, read.revision)
        if read.as_of is not None:
            if read.memory_id:
                return past.get(read.scope, read.memory_id, read.as_of)
            return past.get_by_key(read.scope, read.key, read.as_of)
        if read.memory_id:
            return present.get(read.scope, read.memory_id)
        return present.get_by_key(read.scope, read.key)

    @runs_in("meta")
    def BatchGetMemories(
        self, request: memory_pb.BatchGetMemoriesRequest, context: Context
    ) -> memory_pb.BatchGetMemoriesResponse:
        """Return several memories by id or key."""
        scope, ids, keys = requests.batch_get_memories_request(request)

        reader = self._app.memory_reader
        by_id, by_key = reader.get_many(scope, ids), reader.get_many_by_key(scope, keys)
        response = responses.batch_get_memories_response([(ids, by_id), (keys, by_key)])
        apply_read_mask(response.memories, request.read_mask)
        return response

    @runs_in("meta")
    def ListMemories(self, request: memory_pb.ListMemoriesRequest, context: Context) -> memory_pb.ListMemoriesResponse:
        """Return a page of the memories that match a filter."""
        page = requests.list_memories_request(request, now=self._server.now())

        found, following = self._page(page)
        response = responses.list_memories_response(found, _next_page_token(following, request))
        apply_read_mask(response.memories, request.read_mask)
        return response

    def _page(self, page: requests.ListMemories) -> tuple[list[Memory], PageCursor | None]:
        order, after, limit = page.order, page.after, page.limit
        if page.known_time is not None:
            return self._app.as_of_reader.page(
                page.scope, page.selection, moment=page.known_time, order=order, after=after, limit=limit
            )
        return self._app.memory_reader.page(page.scope, page.selection, order=order, after=after, limit=limit)

    @runs_in("meta")
    def ListScopes(self, request: memory_pb.ListScopesRequest, context: Context) -> memory_pb.ListScopesResponse:
        """Return a page of the distinct scopes of a user's memories."""
        page = requests.list_scopes_request(request)
        found, is_more = self._app.usage.scopes(
            page.owner, page.only, page.agent_id, after=page.after, limit=page.limit
        )
        token = tokens.place_token(found[-1].place[1:], tokens.digest(request)) if is_more else ""
        return responses.list_scopes_response(found, token)

    async def DeleteMemories(
        self, request: memory_pb.DeleteMemoriesRequest, context: Context
    ) -> AsyncGenerator[memory_pb.DeleteMemoriesResponse, None]:
        """Delete the memories that match, softly or for good, or preview that, and stream the progress."""
        change = requests.delete_memories_request(request, now=self._server.now())
        async with aclosing(self._change_memories(change)) as events:
            async for event in events:
                yield memory_pb.DeleteMemoriesResponse(**event)

    async def UpdateMemories(
        self, request: memory_pb.UpdateMemoriesRequest, context: Context
    ) -> AsyncGenerator[memory_pb.UpdateMemoriesResponse, None]:
        """Change fields of the memories that match, or preview that, and stream the progress."""
        change = requests.update_memories_request(request, now=self._server.now())
        async with aclosing(self._change_memories(change)) as events:
            async for event in events:
                yield memory_pb.UpdateMemoriesResponse(**event)

    async def _change_memories(self, change: requests.ChangeMemories) -> AsyncGenerator[dict[str, Any], None]:
        changer = self._app.selection_changer
        if change.expected is None:
            preview = await self._meta.run(changer.preview, change.scope, change.selection)
            yield {"preview": responses.selection_preview(preview, change.digest)}
            return
        deadline = call_context.deadline.get()
        steps = changer.run(change.scope, change.selection, change.change, expected=change.expected, deadline=deadline)
        with self._server.slots.imports.acquired():
            async with aclosing(stream_progress(steps, "selection")) as pump:
                async for progress in pump:
                    yield responses.selection_event(progress)

    @runs_in("write")
    def UpdateMemory(
        self, request: memory_pb.UpdateMemoryRequest, context: Context
    ) -> Answer[memory_pb.UpdateMemoryResponse]:
        """Change fields of one memory."""
        change = requests.update_memory_request(request, dimension=self._app.dimension)
        written = self._app.memory_updater.update(
            change.scope,
            memory_id=change.memory_id,
            key=change.key,
            patch=change.patch,
            expected_revision=change.expected_revision,
            options=change.options,
        )
        return self._waits.after(responses.update_memory_response(written), written, change.options.wait_for)

    @runs_in("write")
    def DeleteMemory(
        self, request: memory_pb.DeleteMemoryRequest, context: Context
    ) -> Answer[memory_pb.DeleteMemoryResponse]:
        """Delete one memory, softly or for good."""
        change = requests.delete_memory_request(request)
        written: WriteResult = self._server.write_named(
            "DeleteMemory",
            self._app.memory_updater.delete,
            change,
            hard=request.purge,
            expected_revision=change.expected_revision,
            options=change.options,
        )
        return self._waits.after(
            responses.delete_memory_response(written, hard=request.purge), written, change.options.wait_for
        )

    @runs_in("write")
    def RestoreMemory(
        self, request: memory_pb.RestoreMemoryRequest, context: Context
    ) -> Answer[memory_pb.RestoreMemoryResponse]:
        """Make a memory ACTIVE again."""
        change = requests.restore_memory_request(request)
        written = self._server.write_named(
            "RestoreMemory",
            self._app.memory_updater.restore,
            change,
            expected_revision=change.expected_revision,
            options=change.options,
        )
        return self._waits.after(responses.restore_memory_response(written), written, change.options.wait_for)

    @runs_in("write")
    def SupersedeMemory(
        self, request: memory_pb.SupersedeMemoryRequest, context: Context
    ) -> Answer[memory_pb.SupersedeMemoryResponse]:
        """Supersede a memory by a new one, or by an existing one."""
        change = requests.supersede_memory_request(request, dimension=self._app.dimension)
        new, old = self._supersede(change)
        return self._waits.after(responses.supersede_memory_response(new, old), new, change.options.wait_for)

    def _supersede(self, change: requests.SupersedeMemory) -> tuple[WriteResult, WriteResult]:
        supersede, revision, options = self._app.memory_superseder, change.expected_revision, change.options
        memory_id = self._app.key_resolver.id_of(
            change.scope, change.memory, method="SupersedeMemory", request_id=options.request_id
        )
        with change.memory.name_violations():
            if isinstance(change.successor, str):
                return supersede.by_existing(
                    change.scope, memory_id, change.successor, expected_revision=revision, options=options
                )
            return supersede.by_new(
                change.scope, memory_id, change.successor, expected_revision=revision, options=options
            )

    @runs_in("meta")
    def ListConflicts(
        self, request: memory_pb.ListConflictsRequest, context: Context
    ) -> memory_pb.ListConflictsResponse:
        """Return a page of conflicts."""
        page = requests.list_conflicts_request(request)

        found, following = self._conflicts(page)
        token = tokens.conflicts_token(following, tokens.digest(request)) if following else ""
        return responses.list_conflicts_response(found, token)

    def _conflicts(self, page: requests.ListConflicts) -> tuple[list[Contradiction], str]:
        memory_id = page.memory.id
        if page.memory.key:
            try:
                memory_id = self._app.key_resolver.id_of(page.scope, page.memory, method="ListConflicts")
            except MemoryNotFoundError:
                return [], ""
        return self._app.conflict_resolver.page(
            page.scope, states=page.states, memory_id=memory_id, before=page.before, limit=page.limit
        )

    @runs_in("write")
    def ResolveConflict(
        self, request: memory_pb.ResolveConflictRequest, context: Context
    ) -> Answer[memory_pb.ResolveConflictResponse]:
        """Resolve a conflict."""
        decision = requests.resolve_conflict_request(request)
        contradiction, written = self._app.conflict_resolver.resolve(
            decision.scope, decision.conflict_id, decision.resolution, decision.options
        )
        return self._waits.after(
            responses.resolve_conflict_response(contradiction, written.position), written, decision.options.wait_for
        )

    async def CaptureMemory(
        self, request: memory_pb.CaptureMemoryRequest, context: Context
    ) -> memory_pb.CaptureMemoryResponse:
        """Decide what in a text is worth remembering, and store it."""
        capture = requests.capture_memory_request(request)
        captured = await self._extractor(asks_a_model=self._app.capture.asks_a_model).run(
            self._app.capture.capture,
            capture.scope,
            capture.message,
            capture.labels,
            is_dry_run=request.dry_run,
            options=capture.options,
            deadline=call_context.deadline.get(),
        )
        await self._indexed(captured.position, capture.options.wait_for)
        return responses.capture_memory_response(captured)

    async def FlushMessages(
        self, request: memory_pb.FlushMessagesRequest, context: Context
    ) -> memory_pb.FlushMessagesResponse:
        """Extract memories and file references from a conversation, and store them."""
        flush = requests.flush_messages_request(request)

        def extract() -> tuple[int, memory_pb.FlushMessagesResponse]:
            flushed = self._app.conversation_flusher.flush(
                flush.scope,
                flush.messages,
                flush.artifacts,
                options=flush.options,
                deadline=call_context.deadline.get(),
            )
            return flushed.position, responses.flush_messages_response(flushed)

        position, response = await self._extractor(asks_a_model=self._app.conversation_flusher.asks_a_model).run(
            extract
        )
        await self._indexed(position, flush.options.wait_for)
        return response

    @runs_in("write")
    def AppendMemory(
        self, request: memory_pb.AppendMemoryRequest, context: Context
    ) -> Answer[memory_pb.AppendMemoryResponse]:
        """Append text to the memory under a key, or create it."""
        append = requests.append_memory_request(request)
        written = self._app.memory_appender.append(
            append.scope,
            append.key,
            append.content,
            separator=append.separator,
            options=append.options,
            fields=append.fields,
        )
        return self._waits.after(responses.append_memory_response(written), written, append.options.wait_for)

    async def IngestDocument(
        self, request_iterator: AsyncIterator[memory_pb.IngestDocumentRequest], context: Context
    ) -> memory_pb.IngestDocumentResponse:
        """Store a document that arrives in pieces."""
        document, data = await _receive_document(request_iterator, self._server.slots.imports)
        ingested: IngestResult = await self._write.run(
            self._app.document_ingester.ingest, document.scope, document.header, data, document.options
        )
        note_unstored_keys([document.header.draft], [ingested.written])
        await self._waits.written(ingested.written, document.options.wait_for)
        return responses.ingest_document_response(ingested)

    async def WatchMemories(
        self, request: memory_pb.WatchMemoriesRequest, context: Context
    ) -> AsyncGenerator[memory_pb.WatchMemoriesResponse, None]:
        """Stream every committed change exactly once, in commit order."""
        watches = self._server.watches
        watch = requests.watch_memories_request(request, store_id=await watches.store_id())
        async with aclosing(watches.responses(watch)) as changes:
            async for response in changes:
                yield response

    @runs_in("meta")
    def ListQuarantined(
        self, request: memory_pb.ListQuarantinedRequest, context: Context
    ) -> memory_pb.ListQuarantinedResponse:
        """Return a page of the memories that wait for a review."""
        page = requests.list_quarantined_request(request, now=self._server.now())

        found, following = self._page(page)
        return responses.list_quarantined_response(found, _next_page_token(following, request))

    @runs_in("write")
    def ReviewMemory(
        self, request: memory_pb.ReviewMemoryRequest, context: Context
    ) -> Answer[memory_pb.ReviewMemoryResponse]:
        """Approve or reject a quarantined memory."""
        review = requests.review_memory_request(request)
        written = self._server.write_named(
            "ReviewMemory",
            self._app.review.decide,
            review,
            review.verdict,
            prefer=Status.QUARANTINED,
            expected_revision=review.expected_revision,
            options=review.options,
        )
        return self._waits.after(responses.review_memory_response(written), written, review.options.wait_for)

    @runs_in("meta")
    def ListRevisions(
        self, request: memory_pb.ListRevisionsRequest, context: Context
    ) -> memory_pb.ListRevisionsResponse:
        """Return a page of the revisions of a memory."""
        page = requests.list_revisions_request(request)

        revisions = self._app.as_of_reader.revisions
        memory_id = self._app.key_resolver.id_of(page.scope, page.memory, method="ListRevisions")
        found, following = revisions(page.scope, memory_id, before=page.before, limit=page.limit)
        older = revisions(page.scope, memory_id, before=following, limit=1)[0] if following else []
        cursor = None if following is None else PageCursor(None, following)
        return responses.list_revisions_response(found, older[0] if older else None, _next_page_token(cursor, request))

    @runs_in("write")
    def RollbackMemory(
        self, request: memory_pb.RollbackMemoryRequest, context: Context
    ) -> Answer[memory_pb.RollbackMemoryResponse]:
        """Restore an earlier revision as a new revision."""
        rollback = requests.rollback_memory_request(request)
        written = self._server.write_named(
            "RollbackMemory",
            self._app.rollback_memory,
            rollback,
            revision=rollback.revision,
            expected_revision=rollback.expected_revision,
            options=rollback.options,
        )
        return self._waits.after(responses.rollback_memory_response(written), written, rollback.options.wait_for)

    def _extractor(self, *, asks_a_model: bool) -> NamedExecutor:
        """Return the threads of an extraction: calls that wait for a language model must not hold up writes."""
        return self._server.executors.language if asks_a_model else self._write

    async def _indexed(self, position: int, wait_for: WaitFor) -> None:
        if position and wait_for is WaitFor.INDEXED:
            await self._waits.stored(position)


def _next_page_token(
    following: PageCursor | None,
    request: memory_pb.ListMemoriesRequest | memory_pb.ListQuarantinedRequest | memory_pb.ListRevisionsRequest,
) -> str:
    return "" if following is None else tokens.list_token(following, tokens.digest(request))


async def _receive_document(
    messages: AsyncIterator[memory_pb.IngestDocumentRequest], slots: Slots
) -> tuple[requests.IngestDocument, bytes]:
    """Return the header and all bytes of a document; no more of them than the limit are kept, while a slot is held.

    Raises:
        InvalidRequestError: The header is wrong or not the first message, or there are too many bytes.
        LimitExceededError: There is no slot.
    """
    async for message in messages:
        if message.WhichOneof("part") == "header":
            document = requests.ingest_document_header(message.header)
            with slots.acquired(document.scope.owner):
                return document, await _receive_data(messages)
        break
    raise InvalidRequestError([Violation("header", "must be the first message")])


async def _receive_data(messages: AsyncIterator[memory_pb.IngestDocumentRequest]) -> bytes:
    data = bytearray()
    async for message in messages:
        if message.WhichOneof("part") != "data":
            raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
        data += message.data
        if len(data) > limits.DOCUMENT_BYTES:
            description = f"must have at most {limits.DOCUMENT_BYTES} bytes in all; split the document"
            raise InvalidRequestError([Violation("data", description)])
    return bytes(data)
