"""With the setting redaction.writes no text of a call stores a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, get, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import ASSISTANT, append, open_session, place
from tests.support.user_data import export, records, take_in

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
"""Of the form of a GitHub token."""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server that redacts everything that callers write."""
    with served(tmp_path_factory.mktemp("redacting") / "data", redaction={"writes": True}) as stubs:
        yield stubs


def struct(**values: Any) -> Struct:
    """Return an object of JSON."""
    made = Struct()
    made.update(values)
    return made


def is_clean(*messages: Message) -> bool:
    """Return whether no message holds the secret, in whatever case."""
    return not any(SECRET.lower() in repr(message).lower() for message in messages)


def test_keywords_and_names_of_metadata_are_written_text(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Keywords that become equal are one; names that do are kept apart."""
    keywords = [types_pb.Keyword(term=f"{start} {SECRET}", weight=0.5) for start in ("token", "Token", "key")]
    metadata = struct(**{SECRET: 1, f"{SECRET[:-1]}9": {f"x {SECRET}": 2}, "plain": 3})
    created = write(stubs, scope, types_pb.Memory(content="One.", keywords=keywords, metadata=metadata))
    other = create(stubs, scope, "Two.")
    changed = types_pb.Memory(id=other.id, keywords=keywords, metadata=metadata)
    request = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=changed, update_mask=FieldMask(paths=["keywords", "metadata"])
    )
    updated = stubs.memory.UpdateMemory(request, timeout=TIMEOUT)

    assert is_clean(created, updated)
    for reply in (created, updated):
        stored = get(stubs, scope, reply.memory.id)
        assert {"token [redacted:github-token]", "key [redacted:github-token]"} == {one.term for one in stored.keywords}
        names = {"[REDACTED:github-token]", "[REDACTED:github-token] 2", "plain"}
        assert names == stored.metadata.fields.keys()
        assert [("github-token", 5)] == [(one.kind, one.match_count) for one in reply.redactions]


def test_sessions_and_calls_of_tools_are_written_text(stubs: Stubs, user: str) -> None:
    """The title and the metadata of a session, and the names of arguments."""
    scope = place(user)
    opened = open_session(stubs, scope, title=f"On {SECRET}", metadata=struct(a=SECRET))
    call = types_pb.ToolCall(id="1", name="fetch", arguments=struct(**{SECRET: SECRET}))
    append(stubs, scope, [types_pb.ChatMessage(role=ASSISTANT, tool_calls=[call])])
    messages = stubs.session.ListMessages(session_pb.ListMessagesRequest(scope=scope), timeout=TIMEOUT)
    session = stubs.session.GetSession(session_pb.GetSessionRequest(scope=scope), timeout=TIMEOUT).session

    assert is_clean(opened, messages, session)
    assert "On [REDACTED:github-token]" == session.title


def test_notes_queries_and_names_of_files_are_written_text(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The note of a checkpoint, the query of a report of use, the name and the metadata of a file."""
    note = lifecycle_pb.CreateCheckpointRequest(scope=scope, name="c", note=f"Before {SECRET}")
    checkpoint = stubs.lifecycle.CreateCheckpoint(note, timeout=TIMEOUT).checkpoint
    used = search_pb.UseReport(memory_id=create(stubs, scope, "Used.").id, outcome=search_pb.USE_OUTCOME_USED)
    report = search_pb.ReportUseRequest(scope=scope, query=f"Where is {SECRET}?", reports=[used])
    stubs.search.ReportUse(report, timeout=TIMEOUT)
    listed = stubs.search.ListUseReports(search_pb.ListUseReportsRequest(scope=scope), timeout=TIMEOUT)
    file = upload(stubs, scope, b"x", name=f"{SECRET}.txt", metadata={"a": SECRET})
    files = stubs.files.ListFiles(file_pb.ListFilesRequest(scope=scope), timeout=TIMEOUT)

    assert is_clean(checkpoint, listed, file, files)
    assert "Where is [REDACTED:github-token]?" == listed.reports[0].query
    assert ("[REDACTED:github-token].txt", "text/plain") == (file.name, file.media_type)


def test_texts_that_grew_can_be_imported(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A placeholder is longer than a short password."""
    long = "pwd=abc123 " * 20
    open_session(stubs, place(scope.user_id), title=long * 2, metadata=struct(a=long))
    note = lifecycle_pb.CreateCheckpointRequest(scope=scope, name="c", note=long * 2)
    stubs.lifecycle.CreateCheckpoint(note, timeout=TIMEOUT)
    upload(stubs, scope, b"x", name=f"{long}.txt")
    keywords = [types_pb.Keyword(term=long[:60])]
    create(stubs, scope, "One.", keywords=keywords, tags=[long[:60]])
    file = export(stubs, scope.user_id)
    last = take_in(stubs, f"{scope.user_id}-heir", file)

    assert b"abc123" not in file
    assert (len(records(file)), 0) == (sum(last.stored_counts.values()), last.skipped_count)
