"""Requests of MemoryService, decoded and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from memsvc.domain import limits
from memsvc.domain.capture import ChatMessage
from memsvc.domain.clock import EPOCH
from memsvc.domain.conflicts import ConflictPolicy, ConflictState, Resolution
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.field_rules import SHA256
from memsvc.domain.filters import Field
from memsvc.domain.history import AsOf
from memsvc.domain.memory import FileRef
from memsvc.domain.provenance import ReviewVerdict
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order, OrderField, PageCursor, Selection
from memsvc.domain.watch import Start, Watch
from memsvc.domain.write_requests import Draft, OnDuplicate, Patch, RejectedItem, WaitFor, WriteOptions
from memsvc.engine.capture.capture import CaptureLabels
from memsvc.engine.memories.append import AppendedFields
from memsvc.engine.memories.documents import DocumentHeader
from memsvc.engine.memories.lookup import MemoryName
from memsvc.engine.memories.update import SelectionChange
from memsvc.server import tokens
from memsvc.server.enums import (
    CONFLICT_POLICY,
    CONFLICT_STATE,
    ON_DUPLICATE,
    RESOLUTION,
    VERDICT,
    WATCH_START,
)
from memsvc.server.error_status import rejected_from_error
from memsvc.server.requests.admin import decode_place
from memsvc.server.requests.decoder import RequestDecoder, unique
from memsvc.server.requests.filters import decode_as_of, decode_selection
from memsvc.server.requests.memory_fields import (
    decode_common_patch,
    decode_document_draft,
    decode_draft,
    decode_file_refs,
    decode_key,
    decode_memory_name,
    decode_patch,
    decode_write_options,
)
from memsvc.server.requests.session import decode_chat_message
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

ARTIFACT = "artifact"
FILE_REF = "file_ref"
"""The response format of a tool call that returns a file."""
WATCH_RESUMPTION_FIELDS = ("cursor", "start", "heartbeat_interval")
"""The fields that may differ when a watch is resumed."""
_EVERY_TIER = [number for number in types_pb.MemoryTier.values() if number]
_ORDER_FIELDS = frozenset(field.value for field in OrderField)
_UNCAPTURED_FIELDS = ("tool_calls", "tool_call_id", "token_count", "pinned")
_DIRECTIONS = frozenset({"asc", "desc"})
_NANOS = 1_000_000_000

WriteOfOne: TypeAlias = (
    memory_pb.DeleteMemoryRequest
    | memory_pb.RestoreMemoryRequest
    | lifecycle_pb.ArchiveMemoryRequest
    | lifecycle_pb.UndoConsolidationRequest
)

_WithConflictPolicy: TypeAlias = (
    "memory_pb.UpdateMemoryRequest | memory_pb.SupersedeMemoryRequest | memory_pb.CaptureMemoryRequest"
    " | memory_pb.FlushMessagesRequest | memory_pb.AppendMemoryRequest"
)


@dataclass(frozen=True, slots=True)
class CreateMemory:
    """A new memory."""

    scope: Scope
    draft: Draft
    options: WriteOptions


def create_memory_request(message: memory_pb.CreateMemoryRequest, *, dimension: int) -> CreateMemory:
    """Return the memory to store; *dimension* is the length that a given vector must have."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    draft = decode_draft(decoder, message.memory, message.scope, message, dimension=dimension)
    options = decode_write_options(decoder, message)
    decoder.finish()
    return CreateMemory(scope, draft, options)


@dataclass(frozen=True, slots=True)
class BatchCreateMemories:
    """A batch of new memories, which are decoded one by one by `batch_memory`."""

    scope: Scope
    options: WriteOptions


def batch_create_memories_request(message: memory_pb.BatchCreateMemoriesRequest) -> BatchCreateMemories:
    """Return the batch as a whole."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.count("memories", message.memories, least=1, most=limits.BATCH)
    options = decode_write_options(decoder, message)
    decoder.finish()
    return BatchCreateMemories(scope, options)


def batch_memory(entry: memory_pb.BatchMemory, scope: types_pb.Scope, *, dimension: int) -> Draft | RejectedItem:
    """Return one memory of a batch, or its violations, with paths within the item.

    Raises:
        PermissionDeniedError: The caller's API key is not authorised for the memory's project.
    """
    decoder = RequestDecoder()
    draft = decode_draft(decoder, entry.memory, scope, entry, dimension=dimension)
    if error := decoder.error():
        return rejected_from_error(error)
    decoder.finish()
    return draft


@dataclass(frozen=True, slots=True)
class ImportMemories:
    """An import of memories. Without a policy for conflicts its memories are compared with nothing."""

    scope: Scope
    request_id: str
    on_duplicate: OnDuplicate
    on_conflict: ConflictPolicy | None
    wait_for: WaitFor


def import_memories_header(header: memory_pb.ImportHeader) -> ImportMemories:
    """Return the import that a header begins."""
    decoder = RequestDecoder("header.")
    request = ImportMemories(
        scope=decoder.scope(header.scope),
        request_id=decoder.request_id(header.request_id),
        on_duplicate=decoder.enum("on_duplicate", header.on_duplicate, ON_DUPLICATE, OnDuplicate.RETURN_EXISTING),
        wait_for=decoder.wait_for(header.wait_for, WaitFor.STORED),
        on_conflict=decoder.enum("conflict_policy", header.conflict_policy, CONFLICT_POLICY, None),
    )
    decoder.finish()
    return request


def import_memories_batch(message: memory_pb.ImportMemoriesRequest, *, next_index: int) -> memory_pb.ImportBatch:
    """Return the batch of a message after the header; *next_index* follows the last memory that is known."""
    if message.WhichOneof("part") != "batch":
        raise InvalidRequestError([Violation("batch", "must be set in every message after the header")])
    decoder, batch = RequestDecoder("batch."), message.batch
    decoder.count("memories", batch.memories, most=limits.BATCH)
    if not 0 <= batch.first_index <= next_index:
        decoder.add("first_index", f"must be 0 to {next_index}, or memories would be left out")
    decoder.finish()
    return batch


@dataclass(frozen=True, slots=True)
class GetMemory:
    """A read of one memory by its id or its key; the other one is empty."""

    scope: Scope
    memory_id: str
    key: str
    revision: int
    as_of: AsOf | None


def get_memory_request(message: memory_pb.GetMemoryRequest, *, now: datetime) -> GetMemory:
    """Return the memory to read."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    if message.revision < 0:
        decoder.add("revision", "must be a revision, or 0 for any")
    if message.revision and message.HasField("as_of"):
        decoder.add("as_of", "must not be given together with revision")
    as_of = decode_as_of(decoder, message.as_of, now)
    decoder.read_mask(message.read_mask)
    decoder.finish()
    return GetMemory(scope, memory.id, memory.key, message.revision, as_of)


def batch_get_memories_request(
    message: memory_pb.BatchGetMemoriesRequest,
) -> tuple[Scope, tuple[str, ...], tuple[str, ...]]:
    """Return the scope, and the ids and keys of the memories to read."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    if not 1 <= len(message.ids) + len(message.keys) <= limits.BATCH:
        decoder.add(
            "ids" if len(message.ids) > limits.BATCH or not message.keys else "keys",
            f"ids and keys together must hold 1 to {limits.BATCH} values",
        )
    ids = decoder.uuids("ids", message.ids[: limits.BATCH], count=limits.BATCH)
    for index, key in enumerate(message.keys[: limits.BATCH]):
        decoder.name(f"keys[{index}]", key, most=limits.KEY, least=1)
    decoder.read_mask(message.read_mask)
    decoder.finish()
    return scope, ids, unique(message.keys)


@dataclass(frozen=True, slots=True)
class ListMemories:
    """One page of a list of memories."""

    scope: Scope
    selection: Selection
    order: Order
    after: PageCursor | None
    limit: int
    known_time: datetime | None = None


def list_memories_request(message: memory_pb.ListMemoriesRequest, *, now: datetime) -> ListMemories:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    as_of = decode_as_of(decoder, message.as_of, now)
    selection = decode_selection(decoder, message.filter, now=now, as_of=as_of)
    request = ListMemories(
        scope,
        selection,
        order=_order(decoder, message.order_by),
        limit=decoder.page_size(message.page_size),
        after=decoder.list_cursor(message),
        known_time=None if as_of is None else as_of.known_time,
    )
    decoder.read_mask(message.read_mask)
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListScopes:
    """A page of scopes of an owner; only those of the projects in *only*, unless it is empty."""

    owner: str
    only: tuple[str, ...]
    agent_id: str | None
    after: tuple[str, ...]
    limit: int


def list_scopes_request(message: memory_pb.ListScopesRequest) -> ListScopes:
    """Return the page to list, of the requested project or of those that the caller's key is authorised for."""
    decoder = RequestDecoder()
    owner = decoder.owner(message.user_id)
    agent_id = None
    if message.HasField("agent_id"):
        agent_id = decoder.name("agent_id", message.agent_id, most=limits.SCOPE_ID)
    request = ListScopes(
        owner=owner,
        only=decoder.projects(message),
        agent_id=agent_id,
        after=decode_place(decoder, message, owner, parts=len(("project", "agent", "session"))),
        limit=decoder.page_size(message.page_size),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ChangeMemories:
    """A change of the memories that match; *expected* is what a dry run found, None in a dry run.

    Attributes:
        digest: The digest of the request that its token is bound to.
    """

    scope: Scope
    selection: Selection
    change: SelectionChange
    expected: tuple[int, bytes] | None
    digest: bytes


def delete_memories_request(message: memory_pb.DeleteMemoriesRequest, *, now: datetime) -> ChangeMemories:
    """Return the deletion."""
    return _change_memories(RequestDecoder(), message, SelectionChange(is_purge=message.purge), now=now)


def update_memories_request(message: memory_pb.UpdateMemoriesRequest, *, now: datetime) -> ChangeMemories:
    """Return the update, and no more fields than are to be changed."""
    decoder = RequestDecoder()
    patch = decode_common_patch(decoder, message)
    add = decoder.texts("add_tags", message.add_tags, count=limits.TAGS, most=limits.TAG, least=1)
    remove = decoder.texts("remove_tags", message.remove_tags, count=limits.TAGS, most=limits.TAG, least=1)
    if (add or remove) and "tags" in patch.values:
        decoder.add(
            "add_tags" if add else "remove_tags", "must be empty when update_mask has tags, or memory.tags is set"
        )
    if both := set(add) & set(remove):
        decoder.add("remove_tags", f"must not have tags of add_tags: {len(both)} are in both")
    if not (patch.values or add or remove):
        decoder.add("update_mask", "must name a field, unless memory, add_tags or remove_tags says what to change")
    return _change_memories(decoder, message, SelectionChange(patch, add, remove), now=now)


def _change_memories(
    decoder: RequestDecoder,
    message: memory_pb.DeleteMemoriesRequest | memory_pb.UpdateMemoriesRequest,
    change: SelectionChange,
    *,
    now: datetime,
) -> ChangeMemories:
    scope = decoder.scope(message.scope)
    selection = decode_selection(decoder, message.filter, now=now)
    digest = tokens.digest(message, without=tokens.SELECTION_FIELDS)
    expected: tuple[int, bytes] | None = None
    if message.dry_run and message.selection_token:
        decoder.add("selection_token", "must be empty in a dry run, which returns one")
    elif message.selection_token:
        expected = decoder.token(tokens.selection_of, message.selection_token, digest, default=(0, b""))
    elif not message.dry_run:
        decoder.add("selection_token", "must be that of a dry run: make one with dry_run first")
    decoder.finish()
    return ChangeMemories(scope, selection, change, expected, digest)


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """A change of one memory, which is named by its id or its key; the other one is empty."""

    scope: Scope
    memory_id: str
    key: str
    patch: Patch
    expected_revision: int
    options: WriteOptions


def update_memory_request(message: memory_pb.UpdateMemoryRequest, *, dimension: int) -> UpdateMemory:
    """Return the fields to change, and no others."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory_id = key = ""
    if message.memory.id:
        memory_id = decoder.uuid("memory.id", message.memory.id)
    elif message.memory.key:
        key = decoder.name("memory.key", message.memory.key, most=limits.KEY)
    else:
        decoder.add("memory.id", "must be set, or memory.key")
    request = UpdateMemory(
        scope,
        memory_id,
        key,
        patch=decode_patch(decoder, message, dimension=dimension),
        expected_revision=decoder.revision(message.expected_revision),
        options=_conflicting_options(decoder, message),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A write of one memory as a whole: a deletion, a restoration, archiving, or undoing a consolidation."""

    scope: Scope
    memory: MemoryName
    expected_revision: int
    options: WriteOptions


def delete_memory_request(message: memory_pb.DeleteMemoryRequest) -> MemoryWrite:
    """Return the memory to delete."""
    return memory_write(message)


def restore_memory_request(message: memory_pb.RestoreMemoryRequest) -> MemoryWrite:
    """Return the memory to restore."""
    return memory_write(message)


def memory_write(message: WriteOfOne) -> MemoryWrite:
    """Return the memory to write, and the revision that it must have."""
    decoder = RequestDecoder()
    request = MemoryWrite(
        scope=decoder.scope(message.scope),
        memory=decode_memory_name(decoder, message),
        expected_revision=decoder.revision(message.expected_revision),
        options=plain_options(decoder, message.request_id, message.wait_for),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class SupersedeMemory:
    """A memory and its successor: an existing memory, or a new one."""

    scope: Scope
    memory: MemoryName
    successor: str | Draft
    expected_revision: int
    options: WriteOptions


def supersede_memory_request(message: memory_pb.SupersedeMemoryRequest, *, dimension: int) -> SupersedeMemory:
    """Return the memory to supersede, and its successor."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    successor: str | Draft
    if message.memory.id:
        successor = decoder.uuid("memory.id", message.memory.id)
        if len(message.memory.ListFields()) > 1:
            decoder.add("memory", "must be new, with content and without an id, or hold nothing but an id")
        if message.vector:
            decoder.add("vector", "must be empty when memory.id is set")
    else:
        successor = decode_draft(decoder, message.memory, message.scope, message, dimension=dimension)
    expected_revision = decoder.revision(message.expected_revision)
    options = _conflicting_options(decoder, message)
    decoder.finish()
    return SupersedeMemory(scope, memory, successor, expected_revision, options)


@dataclass(frozen=True, slots=True)
class ListConflicts:
    """One page of conflicts; *before* is the id of the last conflict of the page before."""

    scope: Scope
    states: tuple[ConflictState, ...]
    memory: MemoryName
    before: str
    limit: int


def list_conflicts_request(message: memory_pb.ListConflictsRequest) -> ListConflicts:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    states = decoder.enums("states", message.states, CONFLICT_STATE.from_proto, count=limits.CONFLICT_STATES)
    request = ListConflicts(
        scope,
        states=tuple(sorted(set(states))) or (ConflictState.OPEN,),
        memory=MemoryName(
            decoder.uuid("memory_id", message.memory_id) if message.memory_id else "",
            decoder.name("memory_key", message.memory_key, most=limits.KEY),
        ),
        limit=decoder.page_size(message.page_size),
        before=decoder.token(tokens.conflicts_before, message.page_token, tokens.digest(message), default="")
        if message.page_token
        else "",
    )
    if message.memory_id and message.memory_key:
        decoder.add("memory_key", "must be empty when memory_id is set")
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ResolveConflict:
    """A decision about a conflict."""

    scope: Scope
    conflict_id: str
    resolution: Resolution
    options: WriteOptions


def resolve_conflict_request(message: memory_pb.ResolveConflictRequest) -> ResolveConflict:
    """Return the decision about a conflict."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    conflict_id = decoder.uuid("id", message.id)
    if not message.resolution:
        decoder.add("resolution", "must be set")
    resolution = decoder.enum("resolution", message.resolution, RESOLUTION, Resolution.CONFIRM)
    options = plain_options(decoder, message.request_id, message.wait_for)
    decoder.finish()
    return ResolveConflict(scope, conflict_id, resolution, options)


@dataclass(frozen=True, slots=True)
class CaptureMemory:
    """A message from which memories are captured."""

    scope: Scope
    message: ChatMessage
    labels: CaptureLabels
    options: WriteOptions


def capture_memory_request(request: memory_pb.CaptureMemoryRequest) -> CaptureMemory:
    """Return the message, the labels of its memories and the options of the capture."""
    decoder = RequestDecoder()
    scope = decoder.scope(request.scope)
    message = decode_chat_message(decoder, "message", request.message, least=1)
    for name in _UNCAPTURED_FIELDS:
        if getattr(request.message, name):
            decoder.add(f"message.{name}", "must be unset; only AppendMessages uses it")
    if request.message.HasField("metadata"):
        decoder.add("message.metadata", "must be unset; only AppendMessages uses it")
    labels = CaptureLabels(
        tags=decoder.texts("tags", request.tags, count=limits.TAGS, most=limits.TAG, least=1),
        source=decoder.name("source", request.source, most=limits.SOURCE),
    )
    options = _conflicting_options(decoder, request)
    decoder.finish()
    return CaptureMemory(scope, message, labels, options)


@dataclass(frozen=True, slots=True)
class FlushMessages:
    """A conversation from which memories and references to files are extracted."""

    scope: Scope
    messages: list[ChatMessage]
    artifacts: list[FileRef]
    options: WriteOptions


def flush_messages_request(message: memory_pb.FlushMessagesRequest) -> FlushMessages:
    """Return the conversation to flush."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.count("messages", message.messages, least=1, most=limits.BATCH)
    messages = [
        decode_chat_message(decoder, f"messages[{index}]", one)
        for index, one in enumerate(message.messages[: limits.BATCH])
    ]
    if sum(len(one.content) for one in message.messages[: limits.BATCH]) > limits.CONTENT:
        decoder.add("messages", f"must have at most {limits.CONTENT} characters together; flush fewer at a time")
    decoder.count("artifact_ids", message.artifact_ids, most=limits.FILE_REFS)
    for index, artifact_id in enumerate(message.artifact_ids[: limits.FILE_REFS]):
        decoder.name(f"artifact_ids[{index}]", artifact_id, most=limits.FILE_REF_ID, least=1)
    artifacts = [
        FileRef(ARTIFACT, artifact_id) for artifact_id in dict.fromkeys(message.artifact_ids[: limits.FILE_REFS])
    ]
    options = _conflicting_options(decoder, message)
    decoder.finish()
    return FlushMessages(scope, messages, artifacts, options)


@dataclass(frozen=True, slots=True)
class AppendMemory:
    """Text to append to the memory under a key."""

    scope: Scope
    key: str
    content: str
    separator: str | None
    fields: AppendedFields
    options: WriteOptions


def append_memory_request(message: memory_pb.AppendMemoryRequest) -> AppendMemory:
    """Return the text to append."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    key = decode_key(decoder, "key", message.key, least=1)
    content = decoder.content("content", message.content)
    separator = decoder.text("separator", message.separator, most=limits.SEPARATOR)
    decoder.count("file_refs", message.file_refs, most=limits.FILE_REFS)
    refs = decode_file_refs(decoder, "file_refs", message.file_refs[: limits.FILE_REFS])
    fields = AppendedFields(refs, decoder.metadata("metadata", message.metadata))
    options = _conflicting_options(decoder, message)
    decoder.finish()
    given_separator = separator if message.HasField("separator") else None
    return AppendMemory(scope, key, content, given_separator, fields, options)


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """A document whose bytes follow."""

    scope: Scope
    header: DocumentHeader
    options: WriteOptions


def ingest_document_header(message: memory_pb.DocumentHeader) -> IngestDocument:
    """Return the document that a header announces."""
    decoder = RequestDecoder("header.")
    scope = decoder.scope(message.scope)
    header = DocumentHeader(
        name=decoder.name("name", message.name, most=limits.SOURCE),
        draft=decode_document_draft(decoder, message.memory, message.scope),
        size_bytes=message.size_bytes,
        sha256=message.sha256,
    )
    if not 0 <= message.size_bytes <= limits.DOCUMENT_BYTES:
        decoder.add("size_bytes", f"must be 0 to {limits.DOCUMENT_BYTES}")
    if message.sha256 and not SHA256.fullmatch(message.sha256):
        decoder.add("sha256", "must be 64 hexadecimal digits")
    options = WriteOptions(
        request_id=decoder.request_id(message.request_id),
        on_duplicate=decoder.enum("on_duplicate", message.on_duplicate, ON_DUPLICATE, OnDuplicate.RETURN_EXISTING),
        wait_for=decoder.wait_for(message.wait_for),
    )
    decoder.finish()
    return IngestDocument(scope, header, options)


@dataclass(frozen=True, slots=True)
class WatchMemories:
    """A watch: its memories, its start, and the longest silence between two responses.

    Attributes:
        digest: The digest that the cursors of the watch are bound to.
    """

    watch: Watch
    start: Start
    position: int | None
    digest: bytes
    heartbeat_seconds: float


def watch_memories_request(message: memory_pb.WatchMemoriesRequest, *, store_id: str) -> WatchMemories:
    """Return the watch to open on the store with the identity *store_id*."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    chosen = filters_pb.Filter()
    chosen.CopyFrom(message.filter)
    # Whether a memory has expired, or is valid, must not depend on when its change is read: so only its status counts.
    chosen.include_expired = True
    chosen.include_not_valid = True
    untestable = {Field.ACCESS_TIME: "a watch reports changes, and reading is not one"}
    selection = decode_selection(decoder, chosen, now=EPOCH, untestable=untestable)
    if chosen.last_days:
        decoder.add("filter.last_days", "must be 0: a watch reports changes, and the passing of time is not one")
    if chosen.HasField("access_time"):
        decoder.add("filter.access_time", "must be unset: a watch reports changes, and reading is not one")
    start = decoder.enum("start", message.start, WATCH_START, Start.NOW)
    heartbeat = _heartbeat_seconds(decoder, message)
    digest = tokens.watch_digest(tokens.digest(message, without=WATCH_RESUMPTION_FIELDS), scope.owner, store_id)
    position = decoder.token(tokens.watch_position, message.cursor, digest, default=None)
    decoder.finish()
    return WatchMemories(Watch(scope, selection), start, position, digest, heartbeat)


def list_quarantined_request(message: memory_pb.ListQuarantinedRequest, *, now: datetime) -> ListMemories:
    """Return the page of quarantined memories to list: of any tier, expired or not, valid now or not."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    chosen = filters_pb.Filter()
    chosen.CopyFrom(message.filter)
    chosen.statuses.append(types_pb.MEMORY_STATUS_QUARANTINED)
    chosen.tiers.extend(() if chosen.tiers else _EVERY_TIER)
    chosen.include_expired = True
    chosen.include_not_valid = True
    untestable = {Field.STATUS: "only QUARANTINED memories are listed"}
    selection = decode_selection(decoder, chosen, now=now, untestable=untestable)
    if message.filter.statuses:
        decoder.add("filter.statuses", "must be empty: only QUARANTINED memories are listed")
    request = ListMemories(
        scope,
        selection,
        order=Order(),
        limit=decoder.page_size(message.page_size),
        after=decoder.list_cursor(message),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ReviewMemory:
    """A decision about a quarantined memory."""

    scope: Scope
    memory: MemoryName
    verdict: ReviewVerdict
    expected_revision: int
    options: WriteOptions


def review_memory_request(message: memory_pb.ReviewMemoryRequest) -> ReviewMemory:
    """Return the decision about a quarantined memory."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    verdict = VERDICT.from_proto.get(message.verdict)
    if verdict is None:
        decoder.add("verdict", "must be APPROVE or REJECT")
    expected_revision = decoder.revision(message.expected_revision)
    options = plain_options(decoder, message.request_id, message.wait_for)
    decoder.finish()
    return ReviewMemory(scope, memory, verdict or ReviewVerdict.REJECT, expected_revision, options)


@dataclass(frozen=True, slots=True)
class ListRevisions:
    """One page of the revisions of a memory, newest first; *before* is the last revision of the page before."""

    scope: Scope
    memory: MemoryName
    before: int | None
    limit: int


def list_revisions_request(message: memory_pb.ListRevisionsRequest) -> ListRevisions:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    limit = decoder.page_size(message.page_size, most=limits.HISTORY_PAGE, default=limits.HISTORY_PAGE_DEFAULT)
    after = decoder.list_cursor(message)
    decoder.finish()
    return ListRevisions(scope, memory, None if after is None else after.row, limit)


@dataclass(frozen=True, slots=True)
class RollbackMemory:
    """An earlier revision of a memory that is to be restored as a new one."""

    scope: Scope
    memory: MemoryName
    revision: int
    expected_revision: int
    options: WriteOptions


def rollback_memory_request(message: memory_pb.RollbackMemoryRequest) -> RollbackMemory:
    """Return the revision to restore."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    if message.revision < 1:
        decoder.add("revision", "must be a revision: 1 or more")
    expected_revision = decoder.revision(message.expected_revision)
    options = plain_options(decoder, message.request_id, message.wait_for)
    decoder.finish()
    return RollbackMemory(scope, memory, message.revision, expected_revision, options)


def plain_options(decoder: RequestDecoder, request_id: str, wait_for: int) -> WriteOptions:
    """Return the options of a write that has no policies."""
    return WriteOptions(request_id=decoder.request_id(request_id), wait_for=decoder.wait_for(wait_for))


def _conflicting_options(decoder: RequestDecoder, message: _WithConflictPolicy) -> WriteOptions:
    return WriteOptions(
        request_id=decoder.request_id(message.request_id),
        wait_for=decoder.wait_for(message.wait_for),
        on_conflict=decoder.enum("conflict_policy", message.conflict_policy, CONFLICT_POLICY, ConflictPolicy.MARK),
    )


def _order(decoder: RequestDecoder, order_by: str) -> Order:
    """Return the order that "field", "field asc" or "field desc" names; newest first for an empty text."""
    field, *direction = order_by.split() or [""]
    if not order_by:
        return Order()
    if field not in _ORDER_FIELDS or len(direction) > 1 or not _DIRECTIONS.issuperset(direction):
        fields, directions = ", ".join(sorted(_ORDER_FIELDS)), " or ".join(sorted(_DIRECTIONS))
        decoder.add("order_by", f"must be one of {fields}, then {directions} or nothing")
        return Order()
    return Order(OrderField(field), descending=direction == ["desc"])


def _heartbeat_seconds(decoder: RequestDecoder, message: memory_pb.WatchMemoriesRequest) -> float:
    if not message.HasField("heartbeat_interval"):
        return limits.HEARTBEAT_DEFAULT_SECONDS
    interval = message.heartbeat_interval
    nanos = interval.seconds * _NANOS + interval.nanos
    least, most = limits.HEARTBEAT_MIN_SECONDS, limits.HEARTBEAT_MAX_SECONDS
    if not (0 <= interval.nanos < _NANOS and least * _NANOS <= nanos <= most * _NANOS):
        decoder.add("heartbeat_interval", f"must be {least} to {most} seconds")
    return nanos / _NANOS
