"""Files over the wire: up, down, in ranges, listed, deleted; shared bytes that nobody knows are shared."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import delete, digest_of, download, get, listed, messages, upload
from tests.support.rpc import TIMEOUT, Refusal, refused
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until

MEBI = 1 << 20


def blobs_of(server: ServerProcess) -> dict[str, Path]:
    """Return the files of the data directory that hold contents, by name."""
    return {path.name: path for path in (server.data_dir / "blobs" / "content").rglob("*") if path.is_file()}


def staged_in(server: ServerProcess) -> list[Path]:
    """Return what is on its way in."""
    return list((server.data_dir / "blobs" / "staging").iterdir())


def refusal_of(stubs: Stubs, scope: types_pb.Scope, content: bytes = b"x", **header: object) -> Refusal:
    """Upload a file that must be refused; return why."""
    with pytest.raises(grpc.RpcError) as caught:
        upload(stubs, scope, content, **header)
    return Refusal.from_error(caught.value)


def test_a_file_comes_back_as_it_was_sent(stubs: Stubs, user: str) -> None:
    """Its bytes, and all that was said of it."""
    scope = types_pb.Scope(user_id=user, project_id="web", agent_id="a", session_id="s")
    metadata = Struct()
    metadata.update({"标题": "销售趋势", "n": 1.5})
    content = os.urandom(3 * MEBI + 7)
    parts = [content[start : start + 100_003] for start in range(0, len(content), 100_003)]
    file = upload(
        stubs, scope, [b"", *parts], name="Q1 销售 🦭.PNG", category=types_pb.FILE_CATEGORY_CHART, metadata=metadata,
        size_bytes=len(content), sha256=digest_of(content).upper(),
    )  # fmt: skip

    assert file == get(stubs, scope, file.id.upper())
    assert content == download(stubs, scope, file.id)
    assert (file.name, file.media_type, file.category) == ("Q1 销售 🦭.PNG", "image/png", types_pb.FILE_CATEGORY_CHART)
    assert (file.size_bytes, file.sha256) == (len(content), digest_of(content))
    assert (file.scope, file.metadata) == (scope, metadata)
    assert not file.HasField("expire_time")
    assert not file.content_missing


@pytest.mark.parametrize("parts", [[], [b""], [b"x"]], ids=["no message", "an empty one", "one byte"])
def test_the_smallest_files(stubs: Stubs, scope: types_pb.Scope, parts: list[bytes]) -> None:
    """An empty file is a file."""
    file = upload(stubs, scope, parts, size_bytes=len(b"".join(parts)))

    assert file.size_bytes == len(b"".join(parts))
    assert download(stubs, scope, file.id) == b"".join(parts)
    assert (file.media_type, file.category) == ("application/octet-stream", types_pb.FILE_CATEGORY_UPLOAD)


@pytest.mark.parametrize(
    ("extension", "media_type"),
    [
        ("md", "text/markdown"),
        ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("YAML", "application/yaml"),
        ("jsonl", "application/x-ndjson"),
        ("webp", "image/webp"),
    ],
)
def test_the_type_of_a_document_follows_from_its_name(
    stubs: Stubs, scope: types_pb.Scope, extension: str, media_type: str
) -> None:
    """Also where Python does not know the extension; so `text/*` and `image/*` find these files."""
    file = upload(stubs, scope, [b"x"], name=f"周报.{extension}")

    assert media_type == file.media_type


@settings(max_examples=20, deadline=None, database=None)
@given(offset=st.integers(0, 700_000), length=st.integers(0, 800_000))
def test_any_range_is_what_it_says(
    stubs: Stubs, ranged: tuple[types_pb.Scope, str, bytes], offset: int, length: int
) -> None:
    """From any offset, for any length, also beyond the end."""
    scope, file_id, content = ranged

    expected = content[offset : offset + length] if length else content[offset:]
    assert expected == download(stubs, scope, file_id, offset=offset, length=length)


@pytest.fixture(scope="module")
def ranged(stubs: Stubs) -> tuple[types_pb.Scope, str, bytes]:
    """A file of several messages."""
    scope, content = types_pb.Scope(user_id="files-ranged"), os.urandom(700_000)
    return scope, upload(stubs, scope, content).id, content


def test_a_range_beyond_the_end_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By the name of the field; at the end there is nothing."""
    file = upload(stubs, scope, b"123")

    assert download(stubs, scope, file.id, offset=3) == b""
    request = file_pb.DownloadFileRequest(scope=scope, id=file.id, offset=4)
    assert refused(stubs.files.DownloadFile, request).fields == ("offset",)


def test_equal_bytes_are_kept_once_until_the_last_user_is_gone(server: ServerProcess, stubs: Stubs, user: str) -> None:
    """Neither user learns of the other, and deleting one file leaves the other whole."""
    content = os.urandom(1000)
    ada, bob = types_pb.Scope(user_id=user), types_pb.Scope(user_id=f"{user}-2")
    mine, again, theirs = upload(stubs, ada, content), upload(stubs, ada, content), upload(stubs, bob, content)
    assert len({mine.id, again.id, theirs.id}) == 3
    assert digest_of(content) in blobs_of(server)
    for gone in (mine, again):
        assert gone == delete(stubs, ada, gone.id)
        assert download(stubs, bob, theirs.id) == content
    assert listed(stubs, ada, sha256=theirs.sha256) == []

    delete(stubs, bob, theirs.id)
    assert digest_of(content) not in blobs_of(server)
    assert refused(stubs.files.GetFile, file_pb.GetFileRequest(scope=bob, id=theirs.id)).reason == "FILE_NOT_FOUND"


def test_uploads_and_deletions_of_the_same_bytes_side_by_side(stubs: Stubs, user: str) -> None:
    """No file ever loses its bytes."""
    content = os.urandom(2000)

    def one(number: int) -> None:
        scope = types_pb.Scope(user_id=f"{user}-{number}")
        for _ in range(5):
            file = upload(stubs, scope, content)
            assert download(stubs, scope, file.id) == content
            delete(stubs, scope, file.id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))


def test_a_repeated_upload_is_one_file(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the same request_id, also when it was deleted meanwhile; another request is told apart."""
    content = b"the same"
    first = upload(stubs, scope, content, request_id="r")
    assert first == upload(stubs, scope, [b"the ", b"same"], request_id="r", size_bytes=8)
    assert first == upload(stubs, scope, content, request_id="r", sha256=digest_of(content))
    # The answer is known by the header alone: nothing need come after it.
    assert first == upload(stubs, scope, [], request_id="r", sha256=digest_of(content))
    assert listed(stubs, scope) == ["a.bin"]

    for other in ({"name": "b.bin"}, {"media_type": "text/plain"}):
        assert refusal_of(stubs, scope, content, request_id="r", **other).reason == "REQUEST_ID_REUSED"
    assert refusal_of(stubs, scope, b"other bytes", request_id="r").reason == "REQUEST_ID_REUSED"
    delete(stubs, scope, first.id)
    assert first == upload(stubs, scope, content, request_id="r")
    assert listed(stubs, scope) == []


def test_a_repeated_deletion_gets_the_same_answer(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the same request_id, but for the name, which is deleted; without it there is nothing to delete."""
    file = upload(stubs, scope)

    assert file == delete(stubs, scope, file.id, request_id="d")
    again = delete(stubs, scope, file.id, request_id="d")
    assert again.name == ""
    again.name = file.name
    assert again == file
    request = file_pb.DeleteFileRequest(scope=scope, id=file.id)
    assert refused(stubs.files.DeleteFile, request).code is grpc.StatusCode.NOT_FOUND


def test_files_are_listed_and_found(stubs: Stubs, user: str) -> None:
    """Newest first, page by page, by category, words in both languages, type and project."""
    scope, web = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="web")
    note = Struct()
    note.update({"about": "Quarterly revenue 季度收入"})
    upload(stubs, scope, b"1", name="Sales 2024.csv", category=types_pb.FILE_CATEGORY_ARTIFACT)
    upload(stubs, web, b"2", name="趋势图.png", category=types_pb.FILE_CATEGORY_CHART, metadata=note)
    upload(stubs, web, b"3", name="周报.pdf", category=types_pb.FILE_CATEGORY_REPORT)

    assert listed(stubs, web) == listed(stubs, web, page_size=1) == ["周报.pdf", "趋势图.png", "Sales 2024.csv"]
    assert listed(stubs, scope) == ["Sales 2024.csv"]
    assert listed(stubs, web, project_visibility=filters_pb.PROJECT_VISIBILITY_PROJECT) == ["周报.pdf", "趋势图.png"]
    assert listed(stubs, web, categories=[1, 3]) == ["周报.pdf", "Sales 2024.csv"]
    assert listed(stubs, web, query="REVENUE 收入") == ["趋势图.png"]
    assert listed(stubs, web, query="sales") == ["Sales 2024.csv"]
    assert listed(stubs, web, query="周报 revenue") == []
    assert listed(stubs, web, media_type="image/*") == ["趋势图.png"]
    assert listed(stubs, web, media_type="APPLICATION/PDF") == ["周报.pdf"]


def test_lifetimes(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A category has its own, unless the header says otherwise."""
    temp = upload(stubs, scope, category=types_pb.FILE_CATEGORY_TEMP)
    cached = upload(stubs, scope, category=types_pb.FILE_CATEGORY_CACHE, ttl=Duration(seconds=60))
    kept = upload(stubs, scope, category=types_pb.FILE_CATEGORY_MEMORY)
    shortest = upload(stubs, scope, ttl=Duration(nanos=1))

    assert shortest.expire_time.ToMicroseconds() - shortest.create_time.ToMicroseconds() == 1
    assert temp.expire_time.seconds - temp.create_time.seconds == 24 * 3600
    assert cached.expire_time.seconds - cached.create_time.seconds == 60
    assert not kept.HasField("expire_time")


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ({"size_bytes": 2}, ("header.size_bytes",)),
        ({"size_bytes": 4}, ("header.size_bytes",)),
        ({"sha256": "0" * 64}, ("header.sha256",)),
    ],
    ids=["more than said", "less than said", "another hash"],
)
def test_bytes_that_are_not_what_was_said_leave_no_trace(
    server: ServerProcess, stubs: Stubs, scope: types_pb.Scope, header: dict[str, object], fields: tuple[str, ...]
) -> None:
    """The field is named, and nothing is kept."""
    content = os.urandom(3)
    refusal = refusal_of(stubs, scope, content, **header)

    assert (grpc.StatusCode.INVALID_ARGUMENT, fields) == (refusal.code, refusal.fields)
    assert listed(stubs, scope) == []
    assert digest_of(content) not in blobs_of(server)
    assert staged_in(server) == []


def test_an_upload_that_breaks_off_leaves_no_trace(server: ServerProcess, stubs: Stubs, scope: types_pb.Scope) -> None:
    """Whenever the client goes; the same request can be sent again."""
    content, staged = os.urandom(3 * MEBI), threading.Event()

    def halting() -> Iterator[file_pb.UploadFileRequest]:
        yield from messages(scope, content, request_id="r")
        staged.wait(TIMEOUT)

    call = stubs.files.UploadFile.future(halting(), timeout=TIMEOUT)
    until(lambda: any(path.stat().st_size >= 2 * MEBI for path in staged_in(server)))
    call.cancel()
    staged.set()
    until(lambda: staged_in(server) == [])

    assert listed(stubs, scope) == []
    assert digest_of(content) not in blobs_of(server)
    assert download(stubs, scope, upload(stubs, scope, content, request_id="r").id) == content


def test_a_download_that_is_left_ends(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Its file can be deleted, and others go on."""
    file = upload(stubs, scope, [os.urandom(MEBI) for _ in range(8)])
    answer = stubs.files.DownloadFile(file_pb.DownloadFileRequest(scope=scope, id=file.id), timeout=TIMEOUT)
    assert next(answer).file.id == file.id
    answer.cancel()

    request = file_pb.DownloadFileRequest(scope=scope, id=file.id)
    late = stubs.files.DownloadFile(request, timeout=0.0001)
    with pytest.raises(grpc.RpcError) as caught:
        list(late)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    delete(stubs, scope, file.id)


def test_a_download_outlives_the_file(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What was begun is ended, although the file was deleted meanwhile."""
    content = os.urandom(16 * MEBI)
    file = upload(stubs, scope, [content[start : start + MEBI] for start in range(0, len(content), MEBI)])
    answer = stubs.files.DownloadFile(file_pb.DownloadFileRequest(scope=scope, id=file.id), timeout=TIMEOUT)
    next(answer)
    delete(stubs, scope, file.id)

    assert content == b"".join(response.data for response in answer)


names = st.one_of(
    st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=255),
    st.lists(st.sampled_from(["..", "/", "\\", "~", "C:", "%2e", "etc", "passwd", " ", "."]), min_size=1).map("".join),
)


@settings(max_examples=25, deadline=None, database=None)
@given(name=names)
def test_names_never_become_paths(server: ServerProcess, stubs: Stubs, name: str) -> None:
    """Whatever a file is called, nothing of it is seen in the data directory, nor outside."""
    scope = types_pb.Scope(user_id="files-names")
    file = upload(stubs, scope, b"named", name=name[:255])

    assert file.name == name[:255]
    assert download(stubs, scope, file.id) == b"named"
    places = blobs_of(server).values()
    assert all(len(path.name) == 64 and path.parent.name == path.name[:2] for path in places)
    delete(stubs, scope, file.id)
