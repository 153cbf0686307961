"""An owner with memories of every reach, and strangers beside them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, list_all, write
from tests.support.server_process import Stubs
from tests.support.until import until

EVERY = filters_pb.Filter(statuses=list(range(1, 8)), tiers=[1, 2, 3, 4], include_expired=True)  # type: ignore[arg-type]

WORD = "quagga"

BEGINNING = "secretbeginning"


@dataclass(slots=True)
class Owner:
    """A user with memories of every reach, and what they got back from the service.

    Attributes:
        memories: By name: "world" is global, "project" of the project, "private" of the session alone.
        known: What the owner had when somebody last looked.
    """

    stubs: Stubs
    user: str
    memories: dict[str, types_pb.Memory] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    files: dict[str, file_pb.File] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    conflict_id: str = ""
    known: tuple[Any, ...] = ()
    moved_in: types_pb.AsOf = field(default_factory=types_pb.AsOf)

    @property
    def home(self) -> types_pb.Scope:
        """Return where the owner stands."""
        return types_pb.Scope(user_id=self.user, project_id="p", session_id="s")

    def move_in(self) -> None:
        """Store memories, delete some, and collect tokens of every sort."""
        self._remember()
        gone = self._lose()
        self._collect(gone)
        self._contradict()
        self.moved_in = types_pb.AsOf(known_time=gone.memory.update_time)
        self._change()
        self._take_in()
        self._keep_files()
        self._report()
        self.talk()
        self.known = self.seen()

    def _remember(self) -> None:
        for name, fields in {
            "world": {"layer": types_pb.MEMORY_LAYER_CORE},
            "project": {"scope": types_pb.Scope(project_id="p"), "kind": types_pb.MEMORY_KIND_PREFERENCE},
            "private": {
                "scope": types_pb.Scope(project_id="p", session_id="s"), "layer": types_pb.MEMORY_LAYER_SESSION,
            },
        }.items():  # fmt: skip
            secret = f"{WORD} secret{name}"
            self.memories[name] = create(
                self.stubs, types_pb.Scope(user_id=self.user), f"The {secret}.", key=f"key-{name}", title=secret,
                keywords=[types_pb.Keyword(term=WORD), types_pb.Keyword(term=f"secret{name}")], tags=[secret], **fields,
            )  # fmt: skip
        self.stubs.lifecycle.CreateCheckpoint(
            lifecycle_pb.CreateCheckpointRequest(
                scope=self.home, name=BEGINNING, known_time=types_pb.AsOf(known_time={"seconds": 1}).known_time
            ),
            timeout=TIMEOUT,
        )

    def _lose(self) -> memory_pb.CreateMemoryResponse:
        gone = write(self.stubs, self.home, f"The {WORD} secretgone.", request_id="used")
        self.memories["gone"] = self.stubs.memory.DeleteMemory(
            memory_pb.DeleteMemoryRequest(scope=self.home, id=gone.memory.id), timeout=TIMEOUT
        ).memory
        waiting = types_pb.Memory(
            content=f"The {WORD} secretwaiting.", key="key-waiting", status=types_pb.MEMORY_STATUS_QUARANTINED
        )
        self.memories["waiting"] = write(self.stubs, self.home, waiting).memory
        return gone

    def _collect(self, gone: memory_pb.CreateMemoryResponse) -> None:
        self.tokens = {
            "list": self.stubs.memory.ListMemories(
                memory_pb.ListMemoriesRequest(scope=self.home, page_size=1), timeout=TIMEOUT
            ).next_page_token,
            "search": self.stubs.search.Search(
                search_pb.SearchRequest(scope=self.home, query=WORD, limit=1), timeout=TIMEOUT
            ).next_page_token,
            "consistency": gone.consistency_token,
            "watch": self._cursor(),
            "context": self.stubs.search.RenderContext(
                search_pb.RenderContextRequest(scope=self.home, query=WORD), timeout=TIMEOUT
            ).summary.context_cursor,
        }
        assert all(self.tokens.values())

    def _contradict(self) -> None:
        for port in (80, 90):
            text = f"The port of {WORD} secretproject is {port}."
            self.memories[f"port {port}"] = create(self.stubs, self.home, text, kind=types_pb.MEMORY_KIND_FACT)
        listed = memory_pb.ListConflictsRequest(scope=self.home, page_size=1)
        [conflict] = self.stubs.memory.ListConflicts(listed, timeout=TIMEOUT).conflicts
        self.conflict_id = conflict.id
        assert self.conflict_id

    def _change(self) -> None:
        for name in ("world", "project", "private"):
            # Changed since, so that the past is read from their revisions; and back, so that they are as before.
            changed = types_pb.Memory(id=self.memories[name].id, summary="now")
            self.memories[name] = self.stubs.memory.UpdateMemory(
                memory_pb.UpdateMemoryRequest(scope=self.home, memory=changed), timeout=TIMEOUT
            ).memory

    def _take_in(self) -> None:
        header = memory_pb.ImportHeader(scope=self.home, request_id="import")
        batch = memory_pb.ImportBatch(
            memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=f"{WORD} secretimport"))]
        )
        *_, last = self.stubs.memory.ImportMemories(
            iter([memory_pb.ImportMemoriesRequest(header=header), memory_pb.ImportMemoriesRequest(batch=batch)]),
            timeout=TIMEOUT,
        )
        assert last.created_count == 1

    def _keep_files(self) -> None:
        for number, (name, project) in enumerate({"world": "", "project": "p"}.items()):
            content = f"{WORD} secret{name} of {self.user}".encode()
            scope = types_pb.Scope(user_id=self.user, project_id=project)
            kept = upload(self.stubs, scope, content, name=f"secret{name}.txt", request_id=f"used {number}")
            self.files[name], self.contents[kept.id] = kept, content
        until(self._has_texts)
        request = file_pb.ListFilesRequest(scope=self.home, page_size=1)
        self.tokens["files"] = self.stubs.files.ListFiles(request, timeout=TIMEOUT).next_page_token

    def _report(self) -> None:
        """Report the use of memories of every reach, by queries that no one else may read."""
        for name in ("world", "project", "private"):
            report = search_pb.UseReport(memory_id=self.memories[name].id, outcome=search_pb.USE_OUTCOME_USED)
            query = f"{WORD} secretprivate of {name}?"
            request = search_pb.ReportUseRequest(scope=self.home, query=query, reports=[report])
            assert self.stubs.search.ReportUse(request, timeout=TIMEOUT).stored_count == 1
        pages = search_pb.ListUseReportsRequest(scope=self.home, page_size=1)
        self.tokens["uses"] = self.stubs.search.ListUseReports(pages, timeout=TIMEOUT).next_page_token

    def _has_texts(self) -> bool:
        """Return whether the texts of the files are indexed; their records change until then."""
        scopes = [types_pb.Scope(user_id=self.user, project_id=project) for project in ("", "p")]
        listed = [self.stubs.files.ListFiles(file_pb.ListFilesRequest(scope=one), timeout=TIMEOUT) for one in scopes]
        states = {file.id: file.text.state for found in listed for file in found.files}
        return all(states[kept] == file_pb.FILE_TEXT_STATE_INDEXED for kept in self.contents)

    def talk(self) -> None:
        """Open a session of the project, say something in it, and collect tokens."""
        self.stubs.session.CreateSession(
            session_pb.CreateSessionRequest(scope=self.talks, title="secretprivate", request_id="used"), timeout=TIMEOUT
        )
        self.stubs.session.CreateSession(
            session_pb.CreateSessionRequest(scope=types_pb.Scope(user_id=self.user, project_id="p", session_id="t2")),
            timeout=TIMEOUT,
        )
        self.stubs.session.ReopenSession(session_pb.ReopenSessionRequest(scope=self.talks), timeout=TIMEOUT)
        messages = [types_pb.ChatMessage(role=2, content=f"The {WORD} secretprivate line {n}.") for n in range(3)]
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
    def talks(self) -> types_pb.Scope:
        """Return the scope of the owner's conversation."""
        return types_pb.Scope(user_id=self.user, project_id="p", session_id="t")

    def seen(self) -> tuple[Any, ...]:
        """Return all that the owner has, as it is."""
        uses = self.stubs.search.GetUseFeedback(search_pb.GetUseFeedbackRequest(scope=self.home), timeout=TIMEOUT)
        return self.state(), self.conversation(), uses

    def conversation(self) -> tuple[Any, ...]:
        """Return the conversation and the files as they are."""
        found = self.stubs.session.GetSession(session_pb.GetSessionRequest(scope=self.talks), timeout=TIMEOUT)
        said = self.stubs.session.ListMessages(session_pb.ListMessagesRequest(scope=self.talks), timeout=TIMEOUT)
        listed = self.stubs.files.ListFiles(file_pb.ListFilesRequest(scope=self.home), timeout=TIMEOUT).files
        return found, said, [file for file in listed if file.id in self.contents]

    def _cursor(self) -> str:
        """Return a cursor from before all changes."""
        request = memory_pb.WatchMemoriesRequest(scope=self.home, filter=EVERY, start=memory_pb.WATCH_START_OLDEST)
        call = self.stubs.memory.WatchMemories(request, timeout=TIMEOUT)
        cursor: str = next(call).cursor
        call.cancel()
        return cursor

    def state(self) -> list[types_pb.Memory]:
        """Return what the owner moved in with, without the traces of reading."""
        own = {memory.id for memory in self.memories.values()}
        memories = []
        for project in ("", "p"):
            scope = types_pb.Scope(user_id=self.user, project_id=project, session_id="s")
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
    scope: types_pb.Scope
    hidden: tuple[str, ...]

    @property
    def ids(self) -> list[str]:
        """Return the ids of what is hidden."""
        return [self.owner.memories[name].id for name in self.hidden]


def places(user: str) -> dict[str, tuple[types_pb.Scope, tuple[str, ...]]]:
    """Return where strangers stand, and what is hidden from there."""
    everything = ("world", "project", "private", "gone", "waiting")
    others = {
        "longer": f"{user}-corp", "shorter": user[:-1], "first": user[0], "space": f"{user} ", "zero width": f"{user}\u200b",
        "upper case": user.upper(), "pattern": f"{user[:-1]}%", "one letter": f"{user[:-1]}_", "star": "*",
        "full width": "".join(chr(ord(letter) + 0xFEE0) for letter in user), "quote": f"{user}' or '1'='1",
    }  # fmt: skip
    found = {
        name: (types_pb.Scope(user_id=other, project_id="p", session_id="s"), everything)
        for name, other in others.items()
    }
    for name, project in {"longer": "p2", "upper case": "P", "space": "p ", "none": ""}.items():
        scope = types_pb.Scope(user_id=user, project_id=project, session_id="s")
        found[f"project {name}"] = (scope, ("project", "private", "gone", "waiting"))
    for name, session in {"longer": "s2", "upper case": "S", "none": ""}.items():
        found[f"session {name}"] = (types_pb.Scope(user_id=user, project_id="p", session_id=session), ("private",))
    return found


USER = f"acme{uuid.uuid4().hex}"
PLACES = places(USER)
