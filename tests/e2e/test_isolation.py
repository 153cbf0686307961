"""Nobody reads, lists, finds, counts or changes what is not theirs: every RPC, from many places beside the owner's."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from memsvc.v1 import backup_pb2, erasure_pb2, transfer_pb2
from memsvc.v1 import capture_pb2 as capture_pb
from memsvc.v1 import conflicts_pb2 as conflicts_pb
from memsvc.v1 import consolidation_pb2 as consolidation_pb
from memsvc.v1 import context_pb2 as context_pb
from memsvc.v1 import history_pb2 as history_pb
from memsvc.v1 import integrity_pb2 as integrity_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import maintenance_pb2 as maintenance_pb
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import promotion_pb2 as promotion_pb
from memsvc.v1 import reminders_pb2 as reminders_pb
from memsvc.v1 import review_pb2 as review_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import summaries_pb2 as summaries_pb
from memsvc.v1 import types_pb2 as types
from memsvc.v1 import watch_pb2 as watch_pb
from tests.e2e.calls import MODES, TIMEOUT, Refusal, create, list_all, write
from tests.e2e.methods import METHODS
from tests.e2e.running import Stubs
from tests.e2e.watchers import SECOND

EVERY = types.Filter(statuses=list(range(1, 8)), tiers=[1, 2, 3, 4], include_expired=True)  # type: ignore[arg-type]
WORD = "quagga"
BEGINNING = "secretbeginning"


@dataclass(slots=True)
class Owner:
    """A user with memories of every reach, and what they got back from the service.

    Attributes:
        memories: By name: "world" is global, "project" of the project, "private" of the session alone.
    """

    stubs: Stubs
    user: str
    memories: dict[str, types.Memory] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    conflict_id: str = ""
    moved_in: types.AsOf = field(default_factory=types.AsOf)

    @property
    def home(self) -> types.Scope:
        """Return where the owner stands."""
        return types.Scope(user_id=self.user, project_id="p", session_id="s")

    def move_in(self) -> None:
        """Store memories, delete some, and collect tokens of every sort."""
        for name, fields in {
            "world": {"layer": types.MEMORY_LAYER_CORE},
            "project": {"scope": types.Scope(project_id="p"), "kind": types.MEMORY_KIND_PREFERENCE},
            "private": {
                "scope": types.Scope(project_id="p", session_id="s"), "layer": types.MEMORY_LAYER_SESSION,
            },
        }.items():  # fmt: skip
            secret = f"{WORD} secret{name}"
            self.memories[name] = create(
                self.stubs, types.Scope(user_id=self.user), f"The {secret}.", key=f"key-{name}", title=secret,
                keywords=[types.Keyword(term=WORD), types.Keyword(term=f"secret{name}")], tags=[secret], **fields,
            )  # fmt: skip
        self.stubs.lifecycle.CreateCheckpoint(
            history_pb.CreateCheckpointRequest(
                scope=self.home, name=BEGINNING, known_time=types.AsOf(known_time={"seconds": 1}).known_time
            ),
            timeout=TIMEOUT,
        )
        gone = write(self.stubs, self.home, f"The {WORD} secretgone.", request_id="used")
        self.memories["gone"] = self.stubs.memory.DeleteMemory(
            pb.DeleteMemoryRequest(scope=self.home, id=gone.memory.id), timeout=TIMEOUT
        ).memory
        waiting = types.Memory(
            content=f"The {WORD} secretwaiting.", key="key-waiting", status=types.MEMORY_STATUS_QUARANTINED
        )
        self.memories["waiting"] = write(self.stubs, self.home, waiting).memory
        self.tokens = {
            "list": self.stubs.memory.ListMemories(
                pb.ListMemoriesRequest(scope=self.home, page_size=1), timeout=TIMEOUT
            ).next_page_token,
            "search": self.stubs.search.Search(
                search_pb.SearchRequest(scope=self.home, query=WORD, limit=1), timeout=TIMEOUT
            ).next_page_token,
            "consistency": gone.consistency_token,
            "watch": self._cursor(),
            "context": self.stubs.search.RenderContext(
                context_pb.RenderContextRequest(scope=self.home, query=WORD), timeout=TIMEOUT
            ).summary.context_cursor,
        }
        for port in (80, 90):
            text = f"The port of {WORD} secretproject is {port}."
            self.memories[f"port {port}"] = create(self.stubs, self.home, text, kind=types.MEMORY_KIND_FACT)
        listed = conflicts_pb.ListConflictsRequest(scope=self.home, page_size=1)
        [conflict] = self.stubs.memory.ListConflicts(listed, timeout=TIMEOUT).conflicts
        self.conflict_id = conflict.id
        assert all(self.tokens.values())
        self.moved_in = types.AsOf(known_time=gone.memory.update_time)
        for name in ("world", "project", "private"):
            # Changed since, so that the past is read from their revisions; and back, so that they are as before.
            changed = types.Memory(id=self.memories[name].id, summary="now")
            self.memories[name] = self.stubs.memory.UpdateMemory(
                pb.UpdateMemoryRequest(scope=self.home, memory=changed), timeout=TIMEOUT
            ).memory
        header = pb.ImportHeader(scope=self.home, request_id="import")
        batch = pb.ImportBatch(memories=[pb.BatchMemory(memory=types.Memory(content=f"{WORD} secretimport"))])
        *_, last = self.stubs.memory.ImportMemories(
            iter([pb.ImportMemoriesRequest(header=header), pb.ImportMemoriesRequest(batch=batch)]), timeout=TIMEOUT
        )
        assert last.created == 1
        self.talk()

    def talk(self) -> None:
        """Open a session of the project, say something in it, and collect tokens."""
        self.stubs.session.CreateSession(
            session_pb.CreateSessionRequest(scope=self.talks, title="secretprivate", request_id="used"), timeout=TIMEOUT
        )
        self.stubs.session.CreateSession(
            session_pb.CreateSessionRequest(scope=types.Scope(user_id=self.user, project_id="p", session_id="t2")),
            timeout=TIMEOUT,
        )
        self.stubs.session.ReopenSession(session_pb.ReopenSessionRequest(scope=self.talks), timeout=TIMEOUT)
        messages = [session_pb.NewMessage(role=2, content=f"The {WORD} secretprivate line {n}.") for n in range(3)]
        self.stubs.session.AppendMessages(
            session_pb.AppendMessagesRequest(scope=self.talks, messages=messages, request_id="used", wait_for=2),
            timeout=TIMEOUT,
        )
        pages = session_pb.ListMessagesRequest(scope=self.talks, page_size=1)
        self.tokens["messages"] = self.stubs.session.ListMessages(pages, timeout=TIMEOUT).next_page_token
        lists = session_pb.ListSessionsRequest(scope=self.talks, page_size=1)
        self.tokens["sessions"] = self.stubs.session.ListSessions(lists, timeout=TIMEOUT).next_page_token
        assert all(self.tokens.values())

    @property
    def talks(self) -> types.Scope:
        """Return the scope of the owner's conversation."""
        return types.Scope(user_id=self.user, project_id="p", session_id="t")

    def conversation(self) -> tuple[Any, ...]:
        """Return the conversation as it is."""
        found = self.stubs.session.GetSession(session_pb.GetSessionRequest(scope=self.talks), timeout=TIMEOUT)
        said = self.stubs.session.ListMessages(session_pb.ListMessagesRequest(scope=self.talks), timeout=TIMEOUT)
        return found, said

    def _cursor(self) -> str:
        """Return a cursor from before all changes."""
        request = watch_pb.WatchMemoriesRequest(scope=self.home, filter=EVERY, start=watch_pb.WATCH_START_OLDEST)
        call = self.stubs.memory.WatchMemories(request, timeout=TIMEOUT)
        cursor: str = next(call).cursor
        call.cancel()
        return cursor

    def state(self) -> list[types.Memory]:
        """Return what the owner moved in with, without the traces of reading."""
        own = {memory.id for memory in self.memories.values()}
        memories = []
        for project in ("", "p"):
            scope = types.Scope(user_id=self.user, project_id=project, session_id="s")
            listed = list_all(self.stubs, scope, filter=EVERY, order_by="create_time")
            memories += [memory for memory in listed if memory.id in own]
        for memory in memories:
            memory.ClearField("access_count")
            memory.ClearField("access_time")
        return memories


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody who stands elsewhere, and what of the owner's they may not know of."""

    owner: Owner
    scope: types.Scope
    hidden: tuple[str, ...]

    @property
    def ids(self) -> list[str]:
        """Return the ids of what is hidden."""
        return [self.owner.memories[name].id for name in self.hidden]


def places(user: str) -> dict[str, tuple[types.Scope, tuple[str, ...]]]:
    """Return where strangers stand, and what is hidden from there."""
    everything = ("world", "project", "private", "gone", "waiting")
    others = {
        "longer": f"{user}-corp", "shorter": user[:-1], "first": user[0], "space": f"{user} ", "zero width": f"{user}\u200b",
        "upper case": user.upper(), "pattern": f"{user[:-1]}%", "one letter": f"{user[:-1]}_", "star": "*",
        "full width": "".join(chr(ord(letter) + 0xFEE0) for letter in user), "quote": f"{user}' or '1'='1",
    }  # fmt: skip
    found = {
        name: (types.Scope(user_id=other, project_id="p", session_id="s"), everything) for name, other in others.items()
    }
    for name, project in {"longer": "p2", "upper case": "P", "space": "p ", "none": ""}.items():
        scope = types.Scope(user_id=user, project_id=project, session_id="s")
        found[f"project {name}"] = (scope, ("project", "private", "gone", "waiting"))
    for name, session in {"longer": "s2", "upper case": "S", "none": ""}.items():
        found[f"session {name}"] = (types.Scope(user_id=user, project_id="p", session_id=session), ("private",))
    return found


USER = f"acme{uuid.uuid4().hex}"
PLACES = places(USER)


@pytest.fixture(scope="module")
def owner(stubs: Stubs) -> Owner:
    """An owner who has moved in."""
    owner = Owner(stubs, USER)
    owner.move_in()
    return owner


@pytest.fixture(params=PLACES)
def stranger(request: pytest.FixtureRequest, owner: Owner) -> Stranger:
    """Return somebody beside the owner."""
    return Stranger(owner, *PLACES[request.param])


Case = Callable[[Stranger], Iterator[tuple[Sequence[Any], grpc.StatusCode]]]
"""Yields requests of one method, and the code that each must have."""
OK, NOT_FOUND, INVALID = grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT
CASES: dict[str, Case] = {}


def case(made: Case) -> Case:
    """Note a case under the name of its method."""
    CASES[made.__name__] = made
    return made


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
    for chosen in (EVERY, types.Filter(ids=stranger.ids)):
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


def searches(stranger: Stranger) -> Iterator[search_pb.SearchRequest]:
    """Return searches that would find the owner's memories first."""
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for mode in MODES:
        for chosen in (
            types.Filter(),
            types.Filter.FromString(EVERY.SerializeToString()),
            types.Filter(ids=stranger.ids),
            types.Filter(session_ids=["s"]),
        ):
            chosen.sessions = types.SESSION_VISIBILITY_ALL if sessions_from(stranger) else 0
            yield search_pb.SearchRequest(
                scope=stranger.scope, query=words, keywords=words.split(), mode=mode, filter=chosen, limit=100,
                explain=True, consistency_token=stranger.owner.tokens["consistency"],
            )  # fmt: skip
    yield search_pb.SearchRequest(scope=stranger.scope, query=words, filter=EVERY, as_of=stranger.owner.moved_in)


@case
def Search(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no mode, by no filter, and not by the owner's token."""
    for request in searches(stranger):
        yield [request], OK
    token = stranger.owner.tokens["search"]
    yield [search_pb.SearchRequest(scope=stranger.scope, query=WORD, page_token=token)], INVALID


@case
def BatchSearch(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for one."""
    yield [search_pb.BatchSearchRequest(searches=searches(stranger))], OK


def sessions_from(stranger: Stranger) -> tuple[types.Scope, ...]:
    """Return the owner's conversation as strangers may name it; those of the user's own project are no strangers."""
    if (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p"):
        return ()
    scope = types.Scope()
    scope.CopyFrom(stranger.scope)
    scope.session_id = "t"
    return (scope,)


@case
def CreateSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The same id is free elsewhere, the owner's stays open, and the owner's request is not recognised."""
    fresh = types.Scope()
    fresh.CopyFrom(stranger.scope)
    fresh.session_id = str(uuid.uuid4())
    yield [session_pb.CreateSessionRequest(scope=fresh, on_open=2)], OK


@case
def AppendMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """To what is not there for them."""
    for scope in sessions_from(stranger):
        message = session_pb.NewMessage(role=2, content="mine")
        yield [session_pb.AppendMessagesRequest(scope=scope, messages=[message])], NOT_FOUND


@case
def GetSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if it were not there."""
    for scope in sessions_from(stranger):
        yield [session_pb.GetSessionRequest(scope=scope)], NOT_FOUND


@case
def ListSessions(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not in their lists, and not by the owner's token."""
    for scope in sessions_from(stranger):
        yield [session_pb.ListSessionsRequest(scope=scope, page_size=1000)], OK
        yield [session_pb.ListSessionsRequest(scope=scope, page_token=stranger.owner.tokens["sessions"])], INVALID


@case
def ListMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by name nor by the owner's token."""
    for scope in sessions_from(stranger):
        yield [session_pb.ListMessagesRequest(scope=scope, include_archived=True)], NOT_FOUND
        yield [session_pb.ListMessagesRequest(scope=scope, page_token=stranger.owner.tokens["messages"])], INVALID


@case
def TrimSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.TrimSessionRequest(scope=scope, target_tokens=0, keep_rounds=0)], NOT_FOUND


@case
def CloseSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.CloseSessionRequest(scope=scope)], NOT_FOUND


@case
def ReopenSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.ReopenSessionRequest(scope=scope)], NOT_FOUND


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


@case
def CreateCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's names are free elsewhere; within the same project its checkpoints are everybody's."""
    yield [history_pb.CreateCheckpointRequest(scope=stranger.scope, name=str(uuid.uuid4()))], OK


@case
def ListCheckpoints(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Those of the own place."""
    yield [history_pb.ListCheckpointsRequest(scope=stranger.scope)], OK


def checkpoint(stranger: Stranger) -> grpc.StatusCode:
    """Return what becomes of a request for the owner's checkpoint: whoever stands in the project has it, too."""
    scope, home = stranger.scope, stranger.owner.home
    return OK if (scope.user_id, scope.project_id) == (home.user_id, home.project_id) else NOT_FOUND


@case
def DiffCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's is not there; within the project other sessions' private memories are in no difference."""
    request = history_pb.DiffCheckpointRequest(scope=stranger.scope, checkpoint=BEGINNING, page_size=100)
    yield [request], checkpoint(stranger)


@case
def RollbackToCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's is not there; within the project a rollback would leave other sessions' private memories alone."""
    request = history_pb.RollbackToCheckpointRequest(scope=stranger.scope, checkpoint=BEGINNING, dry_run=True)
    yield [request], checkpoint(stranger)
    if checkpoint(stranger) is NOT_FOUND:
        request.dry_run = False
        yield [request], NOT_FOUND


@case
def PromoteMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be promoted."""
    for memory_id in stranger.ids:
        yield [promotion_pb.PromoteMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def ListDueReminders(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is due is the owner's own; tests/e2e/test_reminders.py has some that is."""
    yield [reminders_pb.ListDueRemindersRequest(scope=stranger.scope)], OK


@case
def AcknowledgeReminder(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger was not given by them."""
    for memory_id in stranger.ids:
        day = {"year": 2026, "month": 3, "day": 5}
        yield (
            [
                reminders_pb.AcknowledgeReminderRequest(scope=stranger.scope, memory_id=memory_id, date=day)  # type: ignore[arg-type] # a message as its fields
            ],
            NOT_FOUND,
        )


@case
def ConsolidateMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Only the stranger's own project is looked at; what is private to a session is merged by nobody."""
    for dry_run in (True, False):
        yield [consolidation_pb.ConsolidateMemoriesRequest(scope=stranger.scope, threshold=0, dry_run=dry_run)], OK


@case
def UndoConsolidation(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be taken apart."""
    for memory_id in stranger.ids:
        yield [consolidation_pb.UndoConsolidationRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def SummarizePeriod(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nobody sums up what is private; what is the owner's is not there for others."""
    request = summaries_pb.SummarizePeriodRequest(scope=stranger.scope, topic="secretprivate")
    yield [request], grpc.StatusCode.FAILED_PRECONDITION


@case
def ArchiveMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be archived."""
    for memory_id in stranger.ids:
        yield [maintenance_pb.ArchiveMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def RunMaintenance(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It looks after the stranger's own; nobody looks after what is private to a session."""
    scope = types.Scope(user_id=stranger.scope.user_id, project_id=stranger.scope.project_id)
    for dry_run in (True, False):
        yield [maintenance_pb.RunMaintenanceRequest(scope=scope, dry_run=dry_run)], OK
    if stranger.scope.session_id:
        yield [maintenance_pb.RunMaintenanceRequest(scope=stranger.scope)], INVALID


@case
def StreamSearch(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Search, in both answers."""
    for request in searches(stranger):
        yield [search_pb.StreamSearchRequest(search=request)], OK
    token = stranger.owner.tokens["search"]
    search = search_pb.SearchRequest(scope=stranger.scope, query=WORD, page_token=token)
    yield [search_pb.StreamSearchRequest(search=search)], INVALID


def contexts(stranger: Stranger) -> Iterator[dict[str, Any]]:
    """Return contexts that would hold the owner's memories."""
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for chosen in (types.Filter(), EVERY, types.Filter(ids=stranger.ids), types.Filter(session_ids=["s"])):
        yield {
            "scope": stranger.scope, "query": words, "options": context_pb.ContextOptions(filter=chosen),
            "consistency_token": stranger.owner.tokens["consistency"],
        }  # fmt: skip


@case
def BuildContext(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no section; the owner's context can neither be resumed nor compared with."""
    for fields in contexts(stranger):
        yield [context_pb.BuildContextRequest(**fields)], OK
    theirs = stranger.owner.tokens["context"]
    yield [context_pb.BuildContextRequest(scope=stranger.scope, cursor=theirs)], INVALID
    yield [context_pb.BuildContextRequest(scope=stranger.scope, query=WORD, earlier_cursor=theirs)], INVALID


@case
def RenderContext(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As BuildContext."""
    for fields in contexts(stranger):
        yield [context_pb.RenderContextRequest(**fields)], OK
    theirs = stranger.owner.tokens["context"]
    yield [context_pb.RenderContextRequest(scope=stranger.scope, query=WORD, earlier_cursor=theirs)], INVALID


@case
def LoadCore(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Core and active memories, preferences and reminders are the owner's own."""
    yield [context_pb.LoadCoreRequest(scope=stranger.scope)], OK


@case
def GetStats(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The counts are checked apart."""
    yield [lifecycle_pb.GetStatsRequest(scope=stranger.scope)], OK


@case
def Diagnose(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It speaks of the whole service, and of nobody."""
    yield [lifecycle_pb.DiagnoseRequest()], OK


@case
def Reindex(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Diagnose. Begun only: a whole one has tests of its own."""
    yield [lifecycle_pb.ReindexRequest(mode=99)], INVALID  # type: ignore[arg-type] # no value of the enum


@case
def CheckIntegrity(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nothing of the owner's is told, and a repair leaves it as it is."""
    for repair in (False, True):
        yield [integrity_pb.CheckIntegrityRequest(scope=stranger.scope, repair=repair)], OK


@case
def ExportUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A user is told whole to the user alone; no project or session of one is."""
    yield [transfer_pb2.ExportUserRequest(scope=stranger.scope)], INVALID
    if stranger.scope.user_id != stranger.owner.user:
        whole = types.Scope(user_id=stranger.scope.user_id)
        yield [transfer_pb2.ExportUserRequest(scope=whole, include_vectors=True)], OK


@case
def ImportUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A file that names the ids of others is taken in under other ids; see test_transfer.py."""
    header = transfer_pb2.ImportUserRequest(header=transfer_pb2.ImportUserHeader(scope=stranger.scope))
    yield [header], INVALID


@case
def EraseUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """No project or session can be erased as if it were the user; what others have is not counted."""
    yield [erasure_pb2.EraseUserRequest(scope=stranger.scope, confirm=True)], INVALID
    if stranger.scope.user_id != stranger.owner.user:
        yield [erasure_pb2.EraseUserRequest(scope=types.Scope(user_id=stranger.scope.user_id))], OK


@case
def CreateBackup(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It tells numbers of the whole service. Begun only: a whole one has tests of its own."""
    yield [backup_pb2.CreateBackupRequest(name="../acme")], INVALID


@case
def GetPerformance(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Diagnose."""
    yield [lifecycle_pb.GetPerformanceRequest()], OK


def test_every_method_has_a_case() -> None:
    """A new RPC must say here what it does to strangers."""
    assert METHODS.keys() == CASES.keys()


@pytest.mark.parametrize("method", CASES)
def test_a_stranger_learns_and_changes_nothing(stubs: Stubs, owner: Owner, stranger: Stranger, method: str) -> None:
    """The codes are those of things that do not exist; no reply holds a word or an id; all stays as it was."""
    before, conversation = owner.state(), owner.conversation()
    secrets = [f"secret{name}".encode() for name in stranger.hidden]
    asked_by_id = method == "BatchGetMemories"
    for requests, code in CASES[method](stranger):
        try:
            responses = METHODS[method].responses(stubs, *requests, timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert code == error.code(), (requests, Refusal.from_error(error))
            continue
        assert OK == code, requests
        told = b"".join(response.SerializeToString() for response in responses)
        assert not any(secret in told for secret in secrets), requests
        assert asked_by_id or not any(memory_id.encode() in told for memory_id in stranger.ids), requests
    if asked_by_id:
        assert ([], stranger.ids) == (list(responses[0].memories), list(responses[0].missing_ids))

    assert before == owner.state()
    assert conversation == owner.conversation()


def test_strangers_count_their_own_only(stubs: Stubs, owner: Owner) -> None:
    """Another user has zeros; another project counts the global memories; sessions share the counts."""

    def counted(scope: types.Scope) -> tuple[int, int, int, int]:
        stats = stubs.lifecycle.GetStats(lifecycle_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
        return stats.total_count, stats.chunk_count, stats.vector_count, stats.lexical_count

    user = f"{USER}-counts"
    before = {name: counted(scope) for name, (scope, _) in places(user).items()}
    assert (0, 0, 0, 0) == before["longer"]
    fresh = Owner(stubs, user)
    fresh.move_in()
    # The import is only STORED: the project's count is complete when its last write is indexed.
    create(stubs, fresh.home, "The last one.")

    for name, (scope, hidden) in places(user).items():
        more = 0 if "world" in hidden else 1 if "project" in hidden else 11
        assert tuple(count + more for count in before[name]) == counted(scope), name


@pytest.mark.parametrize("session", ["s2", ""])
def test_the_words_of_a_private_line_do_not_lead_to_the_next_one(
    stubs: Stubs, scope: types.Scope, session: str
) -> None:
    """A memory is found by the line before it in its session, but not by one that is private there."""
    talk = types.Scope(user_id=scope.user_id, session_id="s")
    create(stubs, talk, "The password is mugwumpery.", layer=types.MEMORY_LAYER_SESSION)
    create(stubs, talk, "Good, let us have lunch.")
    create(stubs, talk, "With asparagus.", layer=types.MEMORY_LAYER_SESSION)
    outside = types.Scope(user_id=scope.user_id, session_id=session)

    def found(place: types.Scope, query: str) -> list[str]:
        request = search_pb.SearchRequest(scope=place, query=query, mode=search_pb.SEARCH_MODE_KEYWORD)
        return [hit.memory.content for hit in stubs.search.Search(request, timeout=TIMEOUT).hits]

    assert [] == found(outside, "mugwumpery")
    assert ["The password is mugwumpery."] == found(talk, "mugwumpery")
    assert ["Good, let us have lunch.", "With asparagus."] == found(talk, "lunch")
    assert ["Good, let us have lunch."] == found(outside, "lunch")
