"""Stored answers of requests: a repeated request gets the same one, and none keeps text of what was removed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs
from tests.support.server_thread import served

SCOPE = types_pb.Scope(user_id="ada", project_id="p")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def stubs(directory: Path) -> Iterator[Stubs]:
    """The stubs of a server whose store is looked into."""
    with served(directory) as stubs:
        yield stubs


def answers(directory: Path) -> str:
    """Return all that is stored of requests."""
    with closing(sqlite3.connect(directory / "metadata" / "memsvc.db")) as database:
        return "\n".join(
            str(row) for row in database.execute("SELECT method, request_id, digest, answer FROM requests")
        )


def capture(stubs: Stubs, text: str, request_id: str) -> memory_pb.CaptureMemoryResponse:
    message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=text)
    request = memory_pb.CaptureMemoryRequest(scope=SCOPE, message=message, request_id=request_id)
    return stubs.memory.CaptureMemory(request, timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "I am allergic to quaggadust. Is quaggarain bad for the roof today?",
            ["allergic", "quaggadust", "quaggarain"],
        ),
        ("我对斑驴毛过敏。斑驴雨今天会下吗？", ["过敏", "斑驴毛", "斑驴雨"]),
    ],
)
def test_a_captured_text_is_not_stored_with_the_request(
    stubs: Stubs, directory: Path, text: str, words: list[str]
) -> None:
    """Neither what is remembered nor what is not; a repetition is told all the same, the memory until it is purged."""
    first = capture(stubs, text, words[1])
    assert {decision.remember for decision in first.decisions} == {True, False}
    assert not [word for word in words if word in answers(directory).replace(f"'{words[1]}'", "")]
    assert first == capture(stubs, text, words[1])

    [stored] = [decision.memory.id for decision in first.decisions if decision.remember]
    purge = memory_pb.DeleteMemoryRequest(scope=SCOPE, id=stored, purge=True)
    stubs.memory.DeleteMemory(purge, timeout=TIMEOUT)
    again = capture(stubs, text, words[1])
    assert [one.statement for one in again.decisions] == [one.statement for one in first.decisions]
    assert not any(one.memory.id for one in again.decisions)


def test_title_and_metadata_of_a_session_are_not_stored_with_the_request(stubs: Stubs, directory: Path) -> None:
    """A repetition is told them by the session, of opening, closing and opening again."""
    scope = types_pb.Scope(user_id="ada", project_id="p", session_id="s")
    request = session_pb.CreateSessionRequest(scope=scope, title="quaggatitle 斑驴标题", request_id="open")
    request.metadata.update({"quaggakey": "quaggavalue"})
    opened = stubs.session.CreateSession(request, timeout=TIMEOUT)
    closing_request = session_pb.CloseSessionRequest(scope=scope, request_id="close")
    closed = stubs.session.CloseSession(closing_request, timeout=TIMEOUT)
    reopening = session_pb.ReopenSessionRequest(scope=scope, request_id="again")
    reopened = stubs.session.ReopenSession(reopening, timeout=TIMEOUT)

    assert opened.session.title == closed.session.title == reopened.session.title == "quaggatitle 斑驴标题"
    assert dict(opened.session.metadata) == {"quaggakey": "quaggavalue"}
    assert opened == stubs.session.CreateSession(request, timeout=TIMEOUT)
    assert closed == stubs.session.CloseSession(closing_request, timeout=TIMEOUT)
    assert reopened == stubs.session.ReopenSession(reopening, timeout=TIMEOUT)
    assert not [word for word in ("quaggatitle", "斑驴标题", "quaggakey", "quaggavalue") if word in answers(directory)]


def test_name_and_metadata_of_a_file_are_not_stored_with_the_request(stubs: Stubs, directory: Path) -> None:
    """A repeated upload names them, a repeated deletion does not."""
    given = {"name": "quaggafile 文件名.txt", "metadata": {"quaggakey": "quaggavalue"}, "request_id": "up"}
    file = upload(stubs, SCOPE, b"bytes", **given)
    assert (file.name, dict(file.metadata)) == (given["name"], given["metadata"])
    deletion = file_pb.DeleteFileRequest(scope=SCOPE, id=file.id, request_id="down")
    deleted = stubs.files.DeleteFile(deletion, timeout=TIMEOUT).file
    assert deleted.name == given["name"]

    assert not [word for word in ("quaggafile", "文件名", "quaggakey", "quaggavalue") if word in answers(directory)]
    assert file == upload(stubs, SCOPE, b"bytes", **given)
    again = stubs.files.DeleteFile(deletion, timeout=TIMEOUT).file
    assert (again.id, again.sha256, again.name, dict(again.metadata)) == (file.id, file.sha256, "", {})
