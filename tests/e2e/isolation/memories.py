"""What the methods of MemoryService do to strangers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation.fixtures import EVERY, USER, WORD, Stranger
from tests.e2e.isolation.registry import INVALID, NOT_FOUND, OK, case
from tests.support.descriptors import END
from tests.support.rpc import TIMEOUT
from tests.support.watch import SECOND


@case
def CreateMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Equal content is no duplicate, equal keys are no update, the owner's name opens nothing."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        copy = types_pb.Memory(content=theirs.content.replace("secret", "copied"), title="mine")
        yield [memory_pb.CreateMemoryRequest(scope=stranger.scope, memory=copy, request_id=str(uuid.uuid4()))], OK
        yield (
            [
                memory_pb.CreateMemoryRequest(
                    scope=stranger.scope, memory=types_pb.Memory(content="x", derived_from_ids=[theirs.id])
                )
            ],
            (INVALID),
        )
        if theirs.scope.user_id != stranger.scope.user_id:
            copy.scope.user_id = theirs.scope.user_id
            yield [memory_pb.CreateMemoryRequest(scope=stranger.scope, memory=copy)], INVALID


@case
def BatchCreateMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for one; an item that names another user fails alone."""
    item = memory_pb.BatchMemory(memory=types_pb.Memory(content="a copy", scope=types_pb.Scope(user_id=USER)))
    yield [memory_pb.BatchCreateMemoriesRequest(scope=stranger.scope, memories=[item])], OK


@case
def ImportMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's import is not resumed: for another user it begins anew, in another place it is refused."""
    header = memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=stranger.scope, request_id="import"))
    code = grpc.StatusCode.ALREADY_EXISTS if stranger.scope.user_id == USER else OK
    yield [header], code


@case
def GetMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by id nor by key."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        yield [memory_pb.GetMemoryRequest(scope=stranger.scope, id=theirs.id)], NOT_FOUND
        yield [memory_pb.GetMemoryRequest(scope=stranger.scope, key=theirs.key or "k")], NOT_FOUND
        yield [memory_pb.GetMemoryRequest(scope=stranger.scope, id=theirs.id, revision=1)], NOT_FOUND
        for by in ({"id": theirs.id}, {"key": theirs.key or "k"}):
            yield [memory_pb.GetMemoryRequest(scope=stranger.scope, as_of=stranger.owner.moved_in, **by)], NOT_FOUND  # type: ignore[arg-type]


@case
def BatchGetMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """All are missing."""
    yield [memory_pb.BatchGetMemoriesRequest(scope=stranger.scope, ids=stranger.ids)], OK


@case
def ListMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """By no filter, and not by the owner's token."""
    owner_where = filters_pb.FilterExpression(
        condition=filters_pb.FilterCondition(
            field=filters_pb.FILTER_FIELD_SESSION_ID, operator=filters_pb.FILTER_OPERATOR_NOT_EQUALS,
            values=[lifecycle_value("nowhere")],
        )
    )  # fmt: skip
    for chosen in (
        EVERY, filters_pb.Filter(ids=stranger.ids), filters_pb.Filter(session_ids=["s"]), filters_pb.Filter(layers=[2]),
        filters_pb.Filter(where=owner_where),
        filters_pb.Filter(where=filters_pb.FilterExpression(negated=filters_pb.FilterExpression(negated=owner_where))),
    ):  # fmt: skip
        yield [memory_pb.ListMemoriesRequest(scope=stranger.scope, filter=chosen, page_size=1000)], OK
        yield [memory_pb.ListMemoriesRequest(scope=stranger.scope, filter=chosen, as_of=stranger.owner.moved_in)], OK
    yield [memory_pb.ListMemoriesRequest(scope=stranger.scope, page_token=stranger.owner.tokens["list"])], INVALID


def lifecycle_value(text: str) -> Any:
    """Return a JSON string."""
    return filters_pb.MetadataEquals(value={"string_value": text}).value  # type: ignore[arg-type] # protobuf takes dicts


@case
def UpdateMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by id nor by key, nor at the right revision."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        for memory in (
            types_pb.Memory(id=theirs.id, content="taken over"), types_pb.Memory(key=theirs.key or "k", title="taken over"),
        ):  # fmt: skip
            request = memory_pb.UpdateMemoryRequest(scope=stranger.scope, memory=memory)
            yield [request], NOT_FOUND
            request.expected_revision = theirs.revision
            yield [request], NOT_FOUND
        request.expected_revision = theirs.revision + 5
        yield [request], NOT_FOUND


@case
def DeleteMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither softly nor for good."""
    for memory_id in stranger.ids:
        for hard in (False, True):
            yield [memory_pb.DeleteMemoryRequest(scope=stranger.scope, id=memory_id, purge=hard)], NOT_FOUND


def changes_by_filter(stranger: Stranger, make: Any, call: Any) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Yield dry runs of what the stranger may see, and a change of what is hidden: it matches nothing."""
    hidden = filters_pb.Filter(ids=stranger.ids)
    hidden.MergeFrom(EVERY)
    for chosen in (EVERY, hidden, filters_pb.Filter(session_ids=["s"])):
        yield [make(filter=chosen, dry_run=True)], OK
    [event] = call(make(filter=hidden, dry_run=True), timeout=TIMEOUT)
    assert event.preview.matched_count == 0
    yield [make(filter=hidden, selection_token=event.preview.selection_token)], OK


@case
def DeleteMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is hidden is neither counted, shown nor deleted."""

    def make(**fields: Any) -> memory_pb.DeleteMemoriesRequest:
        return memory_pb.DeleteMemoriesRequest(scope=stranger.scope, **fields)

    yield from changes_by_filter(stranger, make, stranger.owner.stubs.memory.DeleteMemories)


@case
def UpdateMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nor changed."""

    def make(**fields: Any) -> memory_pb.UpdateMemoriesRequest:
        return memory_pb.UpdateMemoriesRequest(scope=stranger.scope, add_tags=["taken over"], **fields)

    yield from changes_by_filter(stranger, make, stranger.owner.stubs.memory.UpdateMemories)


@case
def ListScopes(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Those of the own user: places and counts alone."""
    yield [memory_pb.ListScopesRequest(user_id=stranger.scope.user_id)], OK


@case
def RestoreMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not what is deleted, nor anything else."""
    for memory_id in stranger.ids:
        yield [memory_pb.RestoreMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def SupersedeMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by a new memory, nor by one's own, nor one's own by theirs; and not by a request of the owner's."""
    own = types_pb.Memory(content=f"mine {uuid.uuid4()}")
    request = memory_pb.CreateMemoryRequest(scope=stranger.scope, memory=own)
    mine = stranger.owner.stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory
    for memory_id in stranger.ids:
        new = types_pb.Memory(content=f"taken over {uuid.uuid4()}")
        for old_id, by in (
            (memory_id, new),
            (memory_id, types_pb.Memory(id=mine.id)),
            (mine.id, types_pb.Memory(id=memory_id)),
        ):
            request_id = str(uuid.uuid4())
            yield (
                [memory_pb.SupersedeMemoryRequest(scope=stranger.scope, id=old_id, memory=by, request_id=request_id)],
                NOT_FOUND,
            )


@case
def ListConflicts(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no state, of no memory; whoever stands in the project sees those of the project."""
    if "project" not in stranger.hidden:
        return
    states = [1, 2, 3, 4, 5]
    for memory_id in ("", *stranger.ids, stranger.owner.memories["port 80"].id):
        yield (
            [memory_pb.ListConflictsRequest(scope=stranger.scope, states=states, memory_id=memory_id, page_size=1000)],
            OK,
        )


@case
def ResolveConflict(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no way."""
    if "project" not in stranger.hidden:
        return
    for resolution in (1, 2, 3):
        yield (
            [
                memory_pb.ResolveConflictRequest(
                    scope=stranger.scope, id=stranger.owner.conflict_id, resolution=resolution
                )
            ],
            NOT_FOUND,
        )


@case
def CaptureMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What the owner's memories say is not known, and citing them opens nothing."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        for dry_run in (True, False):
            text = f"[mem:{theirs.id.upper()}]\nPlease remember: the {WORD} is called {name}."
            request = memory_pb.CaptureMemoryRequest(
                scope=stranger.scope, message=types_pb.ChatMessage(content=text), dry_run=dry_run
            )
            yield [request], OK


@case
def FlushMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for capture."""
    messages = [
        types_pb.ChatMessage(content=f"[mem:{theirs.upper()}] I like the {WORD} number {index}.")
        for index, theirs in enumerate(stranger.ids)
    ]
    messages.append(types_pb.ChatMessage(content=f"I like the {WORD} a lot."))
    yield [memory_pb.FlushMessagesRequest(scope=stranger.scope, messages=messages)], OK


def remove(stranger: Stranger, key: str) -> None:
    """Remove what the stranger stored under a key of the owner's: other cases ask for that key and must find nothing."""
    memory = stranger.owner.stubs.memory
    own = memory.GetMemory(memory_pb.GetMemoryRequest(scope=stranger.scope, key=key), timeout=TIMEOUT).memory
    assert own.content == "mine"
    memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=stranger.scope, id=own.id, purge=True), timeout=TIMEOUT)


@case
def AppendMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A key of the owner's is a key of one's own elsewhere; that of a private memory of the same place is refused."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        is_taken = name == "private" and (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p")
        code = grpc.StatusCode.ALREADY_EXISTS if is_taken else OK
        key = theirs.key or "k"
        yield [memory_pb.AppendMemoryRequest(scope=stranger.scope, key=key, content="mine", wait_for=1)], code
        if code == OK:
            remove(stranger, key)


@case
def IngestDocument(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for append."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        is_taken = name == "private" and (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p")
        header = memory_pb.DocumentHeader(
            scope=stranger.scope, memory=types_pb.Memory(key=f"{theirs.key}-doc" if not is_taken else theirs.key)
        )
        parts = [memory_pb.IngestDocumentRequest(header=header), memory_pb.IngestDocumentRequest(data=b"mine")]
        yield parts, grpc.StatusCode.ALREADY_EXISTS if is_taken else OK


@case
def WatchMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """From the very first change on, by no filter, and not by the owner's cursor."""
    # It comes after all changes of the owner's, so that nobody has to wait for silence.
    own = memory_pb.CreateMemoryRequest(
        scope=stranger.scope, memory=types_pb.Memory(content=END), wait_for=types_pb.WAIT_FOR_STORED
    )
    last = stranger.owner.stubs.memory.CreateMemory(own, timeout=TIMEOUT).memory
    for chosen in (EVERY, filters_pb.Filter(ids=[*stranger.ids, last.id])):
        yield (
            [
                memory_pb.WatchMemoriesRequest(
                    scope=stranger.scope, filter=chosen, start=memory_pb.WATCH_START_OLDEST, heartbeat_interval=SECOND
                )
            ],
            OK,
        )
    cursor = stranger.owner.tokens["watch"]
    yield [memory_pb.WatchMemoriesRequest(scope=stranger.scope, filter=EVERY, cursor=cursor)], INVALID


@case
def ListQuarantined(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """By no filter."""
    for chosen in (filters_pb.Filter(), filters_pb.Filter(ids=stranger.ids)):
        yield [memory_pb.ListQuarantinedRequest(scope=stranger.scope, filter=chosen)], OK


@case
def ReviewMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither approve nor reject, whether it waits or not."""
    for memory_id in stranger.ids:
        for verdict in (memory_pb.REVIEW_VERDICT_APPROVE, memory_pb.REVIEW_VERDICT_REJECT):
            yield [memory_pb.ReviewMemoryRequest(scope=stranger.scope, id=memory_id, verdict=verdict)], NOT_FOUND


@case
def ListRevisions(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if they did not exist."""
    for memory_id in stranger.ids:
        yield [memory_pb.ListRevisionsRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def RollbackMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not even to a revision that is there."""
    for memory_id in stranger.ids:
        yield [memory_pb.RollbackMemoryRequest(scope=stranger.scope, id=memory_id, revision=1)], NOT_FOUND
