"""What the methods of MemoryService do to strangers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import capture_pb2 as capture_pb
from memsvc.v1 import conflicts_pb2 as conflicts_pb
from memsvc.v1 import history_pb2 as history_pb
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import review_pb2 as review_pb
from memsvc.v1 import types_pb2 as types
from memsvc.v1 import watch_pb2 as watch_pb
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
        copy = types.Memory(content=theirs.content.replace("secret", "copied"), title="mine")
        yield [pb.CreateMemoryRequest(scope=stranger.scope, memory=copy, request_id=str(uuid.uuid4()))], OK
        yield (
            [pb.CreateMemoryRequest(scope=stranger.scope, memory=types.Memory(content="x", derived_from=[theirs.id]))],
            (INVALID),
        )
        if theirs.scope.user_id != stranger.scope.user_id:
            copy.scope.user_id = theirs.scope.user_id
            yield [pb.CreateMemoryRequest(scope=stranger.scope, memory=copy)], INVALID


@case
def BatchCreateMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for one; an item that names another user fails alone."""
    item = pb.BatchMemory(memory=types.Memory(content="a copy", scope=types.Scope(user_id=USER)))
    yield [pb.BatchCreateMemoriesRequest(scope=stranger.scope, memories=[item])], OK


@case
def ImportMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's import is not resumed: for another user it begins anew, in another place it is refused."""
    header = pb.ImportMemoriesRequest(header=pb.ImportHeader(scope=stranger.scope, request_id="import"))
    code = grpc.StatusCode.ALREADY_EXISTS if stranger.scope.user_id == USER else OK
    yield [header], code


@case
def GetMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by id nor by key."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        yield [pb.GetMemoryRequest(scope=stranger.scope, id=theirs.id)], NOT_FOUND
        yield [pb.GetMemoryRequest(scope=stranger.scope, key=theirs.key or "k")], NOT_FOUND
        yield [pb.GetMemoryRequest(scope=stranger.scope, id=theirs.id, revision=1)], NOT_FOUND
        for by in ({"id": theirs.id}, {"key": theirs.key or "k"}):
            yield [pb.GetMemoryRequest(scope=stranger.scope, as_of=stranger.owner.moved_in, **by)], NOT_FOUND  # type: ignore[arg-type]


@case
def BatchGetMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """All are missing."""
    yield [pb.BatchGetMemoriesRequest(scope=stranger.scope, ids=stranger.ids)], OK


@case
def ListMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """By no filter, and not by the owner's token."""
    owner_where = types.FilterExpression(
        condition=types.FilterCondition(
            field=types.FILTER_FIELD_SESSION_ID, operator=types.FILTER_OPERATOR_NOT_EQUALS,
            values=[lifecycle_value("nowhere")],
        )
    )  # fmt: skip
    for chosen in (
        EVERY, types.Filter(ids=stranger.ids), types.Filter(session_ids=["s"]), types.Filter(layers=[2]),
        types.Filter(where=owner_where),
        types.Filter(where=types.FilterExpression(negated=types.FilterExpression(negated=owner_where))),
    ):  # fmt: skip
        yield [pb.ListMemoriesRequest(scope=stranger.scope, filter=chosen, page_size=1000)], OK
        yield [pb.ListMemoriesRequest(scope=stranger.scope, filter=chosen, as_of=stranger.owner.moved_in)], OK
    yield [pb.ListMemoriesRequest(scope=stranger.scope, page_token=stranger.owner.tokens["list"])], INVALID


def lifecycle_value(text: str) -> Any:
    """Return a JSON string."""
    return types.MetadataEquals(value={"string_value": text}).value  # type: ignore[arg-type] # protobuf takes dicts


@case
def UpdateMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by id nor by key, nor at the right revision."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        for memory in (
            types.Memory(id=theirs.id, content="taken over"), types.Memory(key=theirs.key or "k", title="taken over"),
        ):  # fmt: skip
            request = pb.UpdateMemoryRequest(scope=stranger.scope, memory=memory)
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
            yield [pb.DeleteMemoryRequest(scope=stranger.scope, id=memory_id, hard=hard)], NOT_FOUND


@case
def RestoreMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not what is deleted, nor anything else."""
    for memory_id in stranger.ids:
        yield [pb.RestoreMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def SupersedeMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by a new memory, nor by one's own, nor one's own by theirs; and not by a request of the owner's."""
    own = types.Memory(content=f"mine {uuid.uuid4()}")
    request = pb.CreateMemoryRequest(scope=stranger.scope, memory=own)
    mine = stranger.owner.stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory
    for memory_id in stranger.ids:
        new = types.Memory(content=f"taken over {uuid.uuid4()}")
        for old_id, by in (
            (memory_id, new),
            (memory_id, types.Memory(id=mine.id)),
            (mine.id, types.Memory(id=memory_id)),
        ):
            request_id = str(uuid.uuid4())
            yield (
                [
                    conflicts_pb.SupersedeMemoryRequest(
                        scope=stranger.scope, id=old_id, memory=by, request_id=request_id
                    )
                ],
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
            [
                conflicts_pb.ListConflictsRequest(
                    scope=stranger.scope, states=states, memory_id=memory_id, page_size=1000
                )
            ],
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
                conflicts_pb.ResolveConflictRequest(
                    scope=stranger.scope, conflict_id=stranger.owner.conflict_id, resolution=resolution
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
            request = capture_pb.CaptureMemoryRequest(scope=stranger.scope, text=text, dry_run=dry_run)
            yield [request], OK


@case
def FlushMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for capture."""
    messages = [
        capture_pb.ChatMessage(content=f"[mem:{theirs.upper()}] I like the {WORD} number {index}.")
        for index, theirs in enumerate(stranger.ids)
    ]
    messages.append(capture_pb.ChatMessage(content=f"I like the {WORD} a lot."))
    yield [capture_pb.FlushMessagesRequest(scope=stranger.scope, messages=messages)], OK


def remove(stranger: Stranger, key: str) -> None:
    """Remove what the stranger stored under a key of the owner's: other cases ask for that key and must find nothing."""
    memory = stranger.owner.stubs.memory
    own = memory.GetMemory(pb.GetMemoryRequest(scope=stranger.scope, key=key), timeout=TIMEOUT).memory
    assert own.content == "mine"
    memory.DeleteMemory(pb.DeleteMemoryRequest(scope=stranger.scope, id=own.id, hard=True), timeout=TIMEOUT)


@case
def AppendMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A key of the owner's is a key of one's own elsewhere; that of a private memory of the same place is refused."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        is_taken = name == "private" and (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p")
        code = grpc.StatusCode.ALREADY_EXISTS if is_taken else OK
        key = theirs.key or "k"
        yield [capture_pb.AppendMemoryRequest(scope=stranger.scope, key=key, content="mine", wait_for=1)], code
        if code == OK:
            remove(stranger, key)


@case
def IngestDocument(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for append."""
    for name in stranger.hidden:
        theirs = stranger.owner.memories[name]
        is_taken = name == "private" and (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p")
        header = capture_pb.DocumentHeader(
            scope=stranger.scope, key=f"{theirs.key}-doc" if not is_taken else theirs.key
        )
        parts = [capture_pb.IngestDocumentRequest(header=header), capture_pb.IngestDocumentRequest(data=b"mine")]
        yield parts, grpc.StatusCode.ALREADY_EXISTS if is_taken else OK


@case
def WatchMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """From the very first change on, by no filter, and not by the owner's cursor."""
    # It comes after all changes of the owner's, so that nobody has to wait for silence.
    own = pb.CreateMemoryRequest(scope=stranger.scope, memory=types.Memory(content=END), wait_for=types.WAIT_FOR_STORED)
    last = stranger.owner.stubs.memory.CreateMemory(own, timeout=TIMEOUT).memory
    for chosen in (EVERY, types.Filter(ids=[*stranger.ids, last.id])):
        yield (
            [
                watch_pb.WatchMemoriesRequest(
                    scope=stranger.scope, filter=chosen, start=watch_pb.WATCH_START_OLDEST, heartbeat_interval=SECOND
                )
            ],
            OK,
        )
    cursor = stranger.owner.tokens["watch"]
    yield [watch_pb.WatchMemoriesRequest(scope=stranger.scope, filter=EVERY, cursor=cursor)], INVALID


@case
def ListQuarantined(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """By no filter."""
    for chosen in (types.Filter(), types.Filter(ids=stranger.ids)):
        yield [review_pb.ListQuarantinedRequest(scope=stranger.scope, filter=chosen)], OK


@case
def ReviewMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither approve nor reject, whether it waits or not."""
    for memory_id in stranger.ids:
        for verdict in (review_pb.REVIEW_VERDICT_APPROVE, review_pb.REVIEW_VERDICT_REJECT):
            yield [review_pb.ReviewMemoryRequest(scope=stranger.scope, id=memory_id, verdict=verdict)], NOT_FOUND


@case
def ListRevisions(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if they did not exist."""
    for memory_id in stranger.ids:
        yield [history_pb.ListRevisionsRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def RollbackMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not even to a revision that is there."""
    for memory_id in stranger.ids:
        yield [history_pb.RollbackMemoryRequest(scope=stranger.scope, id=memory_id, revision=1)], NOT_FOUND
