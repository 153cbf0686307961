"""Calls that write, read and capture memories."""

# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

import builtins
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Unpack, cast
from uuid import uuid4

from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.import_stream import ImportStream
from memsvc.client.request_types import (
    AsOf,
    Changes,
    CommonChanges,
    ConflictPolicy,
    ConflictState,
    DocumentFields,
    Draft,
    Filters,
    LowerCaseRole,
    MemoryFields,
    Message,
    NewMemory,
    OnDuplicate,
    Resolution,
    Role,
    Search,
    SearchOptions,
    Verdict,
    WaitFor,
)
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb


class MemoryMethods(ScopedMethods):
    """Calls of MemoryService, and the history and promotion of memories."""

    async def create(  # noqa: PLR0913 - an option each
        self,
        content: str,
        *,
        vector: Sequence[float] = (),
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[NewMemory],
    ) -> memory_pb.CreateMemoryResponse:
        """Store one memory; under an existing key, update that one.

        Returns when searches see it, or when *wait_for* says. Equal content that is stored already is returned with
        the outcome DUPLICATE, updated if it had no key and gets the given one, or treated as *on_duplicate* says. An
        older memory that the new one contradicts is in `conflicts` of the reply, and treated as *conflict_policy* says:
        without one it becomes CONFLICTED. With the status QUARANTINED the memory waits for a review, and contradicts
        nothing until it is approved.
        """
        request = memory_pb.CreateMemoryRequest(
            scope=self.scope,
            memory=to_proto.memory_to_proto(fields, content=content),
            vector=vector,
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.CreateMemory, request, timeout)

    async def create_many(
        self,
        drafts: Iterable[Draft | types_pb.Memory],
        *,
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.BatchCreateMemoriesResponse:
        """Store 1 to 1 000 memories in one transaction. A bad one fails alone: see the status of its result."""
        request = memory_pb.BatchCreateMemoriesRequest(
            scope=self.scope,
            memories=[to_proto.batch_memory_to_proto(draft) for draft in drafts],
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.BatchCreateMemories, request, timeout)

    async def import_memories(
        self,
        drafts: Iterable[Draft | types_pb.Memory] | AsyncIterable[Draft | types_pb.Memory],
        *,
        on_duplicate: OnDuplicate | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
    ) -> AsyncGenerator[memory_pb.ImportMemoriesResponse, None]:
        """Store any number of memories and yield the progress; the last response is `done`.

        A broken connection is taken up again where the service says. The counts are of the whole call; what was stored
        just before a break may be missing in them, never in `next_index`. To go on with an import of another process,
        call again with its *request_id* and the same drafts from the first on. Plain iterables are read in a thread of
        their own.
        """
        header = memory_pb.ImportHeader(
            scope=self.scope,
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        await self._remote.reach()
        async for progress in ImportStream(self._remote, header, drafts).run():
            yield progress

    async def update(  # noqa: PLR0913 - an option each
        self,
        memory_id: str = "",
        *,
        expected_revision: int = 0,
        clear: Sequence[str] = (),
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **changes: Unpack[Changes],
    ) -> memory_pb.UpdateMemoryResponse:
        """Change the given fields of a memory, and clear those that *clear* names.

        Without an id, the memory is the one with the given `key`. With a revision, the change is made only to that one.

        Raises:
            MemsvcCallError: ABORTED, the memory is at another revision; `metadata["revision"]` says at which.
        """
        given = dict(changes)
        vector = cast("Sequence[float]", given.pop("vector", ()))
        mask = [*(name for name in given if memory_id or name != "key"), *clear]
        request = memory_pb.UpdateMemoryRequest(
            scope=self.scope,
            memory=to_proto.memory_to_proto(MemoryFields(), id=memory_id, **given),
            update_mask=FieldMask(paths=mask),
            vector=vector,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
        )
        return await self._remote.unary(self._remote.memories.UpdateMemory, request, timeout)

    async def delete(  # noqa: PLR0913 - an option each
        self,
        memory_id: str = "",
        *,
        key: str = "",
        purge: bool = False,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.DeleteMemoryResponse:
        """Delete a memory so that it can be restored, or when *purge* for good."""
        request = memory_pb.DeleteMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            purge=purge,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.DeleteMemory, request, timeout)

    async def delete_memories(
        self, filters: Filters | None = None, *, selection_token: str = "", purge: bool = False
    ) -> AsyncGenerator[memory_pb.DeleteMemoriesResponse, None]:
        """Delete the memories that match, so that they can be restored, or with *purge* for good.

        Without a token this is a dry run: it yields one response, whose `preview` has the counts, a sample and the
        `selection_token` with which the deletion is made. With it the progress is yielded, and the summary at the end.
        Leaving the loop early stops the deletion between two batches.

        Raises:
            MemsvcCallError: ABORTED with the reason SELECTION_CHANGED, what matches is not what the dry run found.
        """
        request = memory_pb.DeleteMemoriesRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            dry_run=not selection_token,
            selection_token=selection_token,
            purge=purge,
        )
        async with aclosing(self._remote.stream(self._remote.memories.DeleteMemories, request)) as responses:
            async for response in responses:
                yield response

    async def update_memories(
        self,
        filters: Filters | None = None,
        *,
        selection_token: str = "",
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        clear: Sequence[str] = (),
        **changes: Unpack[CommonChanges],
    ) -> AsyncGenerator[memory_pb.UpdateMemoriesResponse, None]:
        """Change the given fields of the memories that match, and clear those that *clear* names.

        Dry run, progress and errors are those of `delete_memories`.
        """
        given = dict(changes)
        request = memory_pb.UpdateMemoriesRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            memory=to_proto.memory_to_proto(MemoryFields(), **given),
            update_mask=FieldMask(paths=[*given, *clear]),
            add_tags=add_tags,
            remove_tags=remove_tags,
            dry_run=not selection_token,
            selection_token=selection_token,
        )
        async with aclosing(self._remote.stream(self._remote.memories.UpdateMemories, request)) as responses:
            async for response in responses:
                yield response

    async def list_scopes(
        self,
        *,
        project_id: str | None = None,
        agent_id: str | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[memory_pb.ScopeUsage, None]:
        """Yield the distinct scopes of the user's memories, in order, with counts, fetching page by page.

        They are those of all projects and agents unless one is given; an empty one means none.
        """
        request = memory_pb.ListScopesRequest(
            user_id=self.scope.user_id, project_id=project_id, agent_id=agent_id, page_size=page_size
        )
        async for page in self._remote.pages(self._remote.memories.ListScopes, request, timeout):
            for usage in page.scopes:
                yield usage

    async def restore(
        self,
        memory_id: str = "",
        *,
        key: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.RestoreMemoryResponse:
        """Make a memory that was deleted or put aside ACTIVE again."""
        request = memory_pb.RestoreMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.RestoreMemory, request, timeout)

    async def get(
        self,
        memory_id: str = "",
        *,
        key: str = "",
        revision: int = 0,
        as_of: AsOf | None = None,
        fields: Sequence[str] = (),
        timeout: float | None = None,
    ) -> types_pb.Memory:
        """Return one memory by its id, or without an id by its key in the client's project.

        With *revision* or *as_of* it is returned as it was; with *fields* only these fields of Memory are set.

        Raises:
            MemsvcCallError: NOT_FOUND, the scope sees no such memory, or it has no such revision.
        """
        moment = to_proto.as_of_to_proto(as_of)
        mask = FieldMask(paths=fields)
        by_id = memory_pb.GetMemoryRequest(
            scope=self.scope, id=memory_id, revision=revision, as_of=moment, read_mask=mask
        )
        by_key = memory_pb.GetMemoryRequest(scope=self.scope, key=key, revision=revision, as_of=moment, read_mask=mask)
        reply = await self._remote.unary(self._remote.memories.GetMemory, by_id if memory_id else by_key, timeout)
        return reply.memory

    async def get_with_files(
        self, memory_id: str = "", *, key: str = "", timeout: float | None = None
    ) -> memory_pb.GetMemoryResponse:
        """Return one memory as `get` does, with its files resolved and its content with links to them."""
        by_id = memory_pb.GetMemoryRequest(scope=self.scope, id=memory_id, include_files=True)
        by_key = memory_pb.GetMemoryRequest(scope=self.scope, key=key, include_files=True)
        request = by_id if memory_id else by_key
        return await self._remote.unary(self._remote.memories.GetMemory, request, timeout)

    async def use_counts(
        self, memory_id: str = "", *, key: str = "", timeout: float | None = None
    ) -> types_pb.UseCounts:
        """Return how often one memory was reported as used, ignored or wrong; see `report_use`."""
        name = to_proto.memory_name(memory_id, key)
        request = memory_pb.GetMemoryRequest(
            scope=self.scope, **name, include_use_counts=True, read_mask=FieldMask(paths=["id"])
        )
        return (await self._remote.unary(self._remote.memories.GetMemory, request, timeout)).use_counts

    async def get_many(
        self,
        memory_ids: Sequence[str] = (),
        *,
        keys: Sequence[str] = (),
        fields: Sequence[str] = (),
        timeout: float | None = None,
    ) -> memory_pb.BatchGetMemoriesResponse:
        """Return up to 1 000 memories in the order of their ids and keys, and those that the scope does not see.

        With *fields* only these fields of Memory are set.
        """
        request = memory_pb.BatchGetMemoriesRequest(
            scope=self.scope, ids=memory_ids, keys=keys, read_mask=FieldMask(paths=fields)
        )
        return await self._remote.unary(self._remote.memories.BatchGetMemories, request, timeout)

    async def search(
        self,
        query: str = "",
        *,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> search_pb.SearchResponse:
        """Return the memories that fit a query, best first."""
        request = to_proto.search_to_proto(self.scope, query, options)
        return await self._remote.unary(self._remote.searches.Search, request, timeout)

    async def search_many(
        self,
        requested: Iterable[Search],
        *,
        timeout: float | None = None,
    ) -> search_pb.BatchSearchResponse:
        """Run 1 to 32 searches side by side; each of the results is a reply or a failure."""
        requests = []
        for each in requested:
            options = dict(each)
            query = str(options.pop("query", ""))
            requests.append(to_proto.search_to_proto(self.scope, query, cast("SearchOptions", options)))
        return await self._remote.unary(
            self._remote.searches.BatchSearch, search_pb.BatchSearchRequest(searches=requests), timeout
        )

    async def list(
        self,
        filters: Filters | None = None,
        *,
        order_by: str = "",
        page_size: int = 0,
        as_of: AsOf | None = None,
        fields: Sequence[str] = (),
        timeout: float | None = None,
    ) -> AsyncGenerator[types_pb.Memory, None]:
        """Yield the memories that match, newest first unless *order_by* says otherwise, fetching page by page.

        With *as_of* they are those of another moment, as they were; with *fields* only these fields of Memory are set.
        """
        request = memory_pb.ListMemoriesRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            order_by=order_by,
            page_size=page_size,
            as_of=to_proto.as_of_to_proto(as_of),
            read_mask=FieldMask(paths=fields),
        )
        async for page in self._remote.pages(self._remote.memories.ListMemories, request, timeout):
            for memory in page.memories:
                yield memory

    async def capture(  # noqa: PLR0913 - an option each
        self,
        text: str,
        *,
        role: Role | LowerCaseRole | None = None,
        speaker: str = "",
        event_time: datetime | None = None,
        tags: Sequence[str] = (),
        source: str = "",
        conflict_policy: ConflictPolicy | None = None,
        dry_run: bool = False,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.CaptureMemoryResponse:
        """Capture memories from a text that was said; return a decision for each of its statements.

        The memories have the *tags* in addition to their own. With *dry_run* nothing is stored.
        """
        request = memory_pb.CaptureMemoryRequest(
            scope=self.scope,
            message=types_pb.ChatMessage(
                role=to_proto.named("role", role),
                content=text,
                speaker=speaker,
                event_time=None if event_time is None else to_proto.timestamp_to_proto("event_time", event_time),
            ),
            tags=tags,
            source=source,
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            dry_run=dry_run,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.CaptureMemory, request, timeout)

    async def flush(
        self,
        conversation: Iterable[Message | types_pb.ChatMessage],
        *,
        artifact_ids: Sequence[str] = (),
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.FlushMessagesResponse:
        """Extract memories and file references from a conversation, oldest message first, in one transaction."""
        request = memory_pb.FlushMessagesRequest(
            scope=self.scope,
            messages=[to_proto.message_to_proto(message) for message in conversation],
            artifact_ids=artifact_ids,
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.FlushMessages, request, timeout)

    async def append(  # noqa: PLR0913 - an option each
        self,
        key: str,
        content: str,
        *,
        separator: str | None = None,
        file_refs: Sequence[tuple[str, str]] = (),
        metadata: Mapping[str, object] | None = None,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.AppendMemoryResponse:
        """Add text to the end of the memory under *key*, or create it: "daily/2026-02-06", "context/USER", any other.

        Without a *separator* the text begins on a line of its own. *file_refs*, as (category, id), and *metadata* are
        added to those of the memory.
        """
        request = memory_pb.AppendMemoryRequest(
            scope=self.scope,
            key=key,
            content=content,
            separator=separator,
            file_refs=to_proto.file_refs_to_proto(file_refs),
            metadata=to_proto.struct_to_proto(metadata) if metadata else None,
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.AppendMemory, request, timeout)

    async def ingest(
        self,
        document: str | bytes,
        *,
        on_duplicate: OnDuplicate | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[DocumentFields],
    ) -> memory_pb.IngestDocumentResponse:
        """Store a document or a skill, Markdown or plain text, as one memory that is searched in chunks.

        It is sent in pieces and its hash is checked. Under an existing *key* it replaces the existing memory.
        """
        data = document.encode() if isinstance(document, str) else document
        header = to_proto.header_to_proto(
            fields,
            scope=self.scope,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        await self._remote.reach()
        with self._remote.errors_decoded():
            return await self._remote.memories.IngestDocument(
                _pieces(header, data), timeout=self._remote.timeout_seconds if timeout is None else timeout
            )

    async def supersede(  # noqa: PLR0913 - an option each
        self,
        memory_id: str = "",
        content: str = "",
        *,
        old_key: str = "",
        by: str = "",
        vector: Sequence[float] = (),
        expected_revision: int = 0,
        conflict_policy: ConflictPolicy | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[MemoryFields],
    ) -> memory_pb.SupersedeMemoryResponse:
        """Put a new memory with this *content*, or the one whose id is *by*, in the place of an old one.

        The old one becomes SUPERSEDED. A new one has its key, layer, kind, category, title, tags, importance and tier
        where it is given none.
        """
        new = types_pb.Memory(id=by) if by else to_proto.memory_to_proto(fields, content=content)
        request = memory_pb.SupersedeMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, old_key),
            memory=new,
            vector=vector,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
            conflict_policy=to_proto.named("conflict_policy", conflict_policy),
        )
        return await self._remote.unary(self._remote.memories.SupersedeMemory, request, timeout)

    async def chain(self, memory_id: str, *, timeout: float | None = None) -> builtins.list[types_pb.Memory]:
        """Return the memory, preceded by those it superseded and followed by those that superseded it."""
        request = memory_pb.GetMemoryRequest(scope=self.scope, id=memory_id, include_chain=True)
        response = await self._remote.unary(self._remote.memories.GetMemory, request, timeout)
        return list(response.chain)

    async def conflicts(
        self,
        *,
        states: Sequence[ConflictState] = ("OPEN",),
        memory_id: str = "",
        key: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[types_pb.Conflict, None]:
        """Yield the conflicts in one of *states*, the newest first, page by page; of one memory, by its id or key.

        The timeout holds for each page.
        """
        request = memory_pb.ListConflictsRequest(
            scope=self.scope,
            states=[to_proto.named("states", state) for state in states],
            memory_id=memory_id,
            memory_key=key,
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.memories.ListConflicts, request, timeout):
            for conflict in page.conflicts:
                yield conflict

    async def resolve(
        self,
        conflict_id: str,
        resolution: Resolution,
        *,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.ResolveConflictResponse:
        """Settle an open conflict: CONFIRM the newer memory, REJECT it, or KEEP_BOTH."""
        request = memory_pb.ResolveConflictRequest(
            scope=self.scope,
            id=conflict_id,
            resolution=to_proto.named("resolution", resolution),
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.ResolveConflict, request, timeout)

    async def revisions(
        self, memory_id: str = "", *, key: str = "", page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[memory_pb.Revision, None]:
        """Yield the revisions of a memory, newest first, fetching page by page."""
        request = memory_pb.ListRevisionsRequest(
            scope=self.scope, **to_proto.memory_name(memory_id, key), page_size=page_size
        )
        async for page in self._remote.pages(self._remote.memories.ListRevisions, request, timeout):
            for revision in page.revisions:
                yield revision

    async def rollback(  # noqa: PLR0913 - an option each
        self,
        memory_id: str,
        revision: int,
        *,
        key: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.RollbackMemoryResponse:
        """Make a memory say again what it said at an earlier revision, by a new revision.

        Raises:
            MemsvcCallError: NOT_FOUND, it has no such revision; ALREADY_EXISTS, its key or content of then is
                another memory's by now.
        """
        request = memory_pb.RollbackMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            revision=revision,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.RollbackMemory, request, timeout)

    async def create_checkpoint(
        self,
        name: str,
        *,
        note: str = "",
        known_time: datetime | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.Checkpoint:
        """Name the present moment of the client's project, or an earlier one."""
        request = lifecycle_pb.CreateCheckpointRequest(
            scope=self.scope,
            name=name,
            note=note,
            known_time=None if known_time is None else to_proto.timestamp_to_proto("known_time", known_time),
            request_id=request_id or str(uuid4()),
        )
        reply = await self._remote.unary(self._remote.lifecycle.CreateCheckpoint, request, timeout)
        return reply.checkpoint

    async def checkpoints(self, *, timeout: float | None = None) -> AsyncGenerator[lifecycle_pb.Checkpoint, None]:
        """Yield the checkpoints of the client's project, newest first, fetching page by page."""
        request = lifecycle_pb.ListCheckpointsRequest(scope=self.scope)
        async for page in self._remote.pages(self._remote.lifecycle.ListCheckpoints, request, timeout):
            for checkpoint in page.checkpoints:
                yield checkpoint

    async def delete_checkpoint(
        self, checkpoint: str, *, request_id: str = "", timeout: float | None = None
    ) -> lifecycle_pb.Checkpoint:
        """Delete a checkpoint of the client's project and return it; memories and revisions stay."""
        request = lifecycle_pb.DeleteCheckpointRequest(
            scope=self.scope, checkpoint=checkpoint, request_id=request_id or str(uuid4())
        )
        reply = await self._remote.unary(self._remote.lifecycle.DeleteCheckpoint, request, timeout)
        return reply.checkpoint

    async def diff_checkpoint(
        self, checkpoint: str, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[lifecycle_pb.Difference, None]:
        """Yield what is otherwise now than at a checkpoint, fetching page by page."""
        request = lifecycle_pb.DiffCheckpointRequest(scope=self.scope, checkpoint=checkpoint, page_size=page_size)
        async for page in self._remote.pages(self._remote.lifecycle.DiffCheckpoint, request, timeout):
            for difference in page.differences:
                yield difference

    async def rollback_to_checkpoint(
        self,
        checkpoint: str,
        *,
        dry_run: bool = False,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.RollbackToCheckpointResponse:
        """Bring all memories of the client's project back to what they said at a checkpoint.

        The reply names the checkpoint of the moment before: rolling back to that undoes it. When it fails with
        DEADLINE_EXCEEDED, call again with the same *request_id*: it goes on.
        """
        request = lifecycle_pb.RollbackToCheckpointRequest(
            scope=self.scope,
            checkpoint=checkpoint,
            dry_run=dry_run,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.RollbackToCheckpoint, request, timeout)

    async def promote(  # noqa: PLR0913 - an option each
        self,
        memory_id: str = "",
        content: str = "",
        *,
        key: str = "",
        title: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> lifecycle_pb.PromoteMemoryResponse:
        """Keep what a SHORT_TERM memory says in a LONG_TERM one, in other words when *content* is given."""
        request = lifecycle_pb.PromoteMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            content=content,
            title=title,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.PromoteMemory, request, timeout)

    async def quarantined(
        self, filters: Filters | None = None, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[types_pb.Memory, None]:
        """Yield the memories that wait for a review, newest first, fetching page by page."""
        request = memory_pb.ListQuarantinedRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.memories.ListQuarantined, request, timeout):
            for memory in page.memories:
                yield memory

    async def review(  # noqa: PLR0913 - an option each
        self,
        memory_id: str,
        verdict: Verdict,
        *,
        key: str = "",
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> memory_pb.ReviewMemoryResponse:
        """Approve a quarantined memory, which makes it ACTIVE, or reject it, which deletes it softly.

        Raises:
            MemsvcCallError: FAILED_PRECONDITION, it does not wait for a review.
        """
        request = memory_pb.ReviewMemoryRequest(
            scope=self.scope,
            **to_proto.memory_name(memory_id, key),
            verdict=to_proto.enum_to_proto("verdict", memory_pb.ReviewVerdict, "REVIEW_VERDICT_", verdict),
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.ReviewMemory, request, timeout)


PIECE_BYTES = 256 * 1024


def _pieces(header: memory_pb.DocumentHeader, data: bytes) -> Iterator[memory_pb.IngestDocumentRequest]:
    yield memory_pb.IngestDocumentRequest(header=header)
    for start in range(0, len(data), PIECE_BYTES):
        yield memory_pb.IngestDocumentRequest(data=data[start : start + PIECE_BYTES])
