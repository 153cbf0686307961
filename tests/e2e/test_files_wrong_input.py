"""Wrong requests about files: refused by the path of everything that is wrong, and nothing is kept."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.requests import ID, LATE, NAN, deep, numbers
from tests.support.files import download, listed, messages, upload
from tests.support.rpc import TIMEOUT, Refusal, refused
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until

HOUR = Duration(seconds=3600)
HEADERS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"name": ""}, ("header.name",)),
    ({"name": "x" * 256}, ("header.name",)),
    ({"name": "a\nb"}, ("header.name",)),
    ({"name": "a\x00b"}, ("header.name",)),
    ({"category": 8}, ("header.category",)),
    ({"category": -1}, ("header.category",)),
    ({"media_type": "png"}, ("header.media_type",)),
    ({"media_type": "image/"}, ("header.media_type",)),
    ({"media_type": "image/*"}, ("header.media_type",)),
    ({"media_type": "text/plain; charset=utf-8"}, ("header.media_type",)),
    ({"media_type": "text/" + "x" * 124}, ("header.media_type",)),
    ({"metadata": deep(9)}, ("header.metadata",)),
    ({"metadata": numbers(NAN)}, ("header.metadata",)),
    ({"size_bytes": -1}, ("header.size_bytes",)),
    ({"size_bytes": (1 << 30) + 1}, ("header.size_bytes",)),
    ({"sha256": "0" * 63}, ("header.sha256",)),
    ({"sha256": "g" * 64}, ("header.sha256",)),
    ({"ttl": Duration()}, ("header.ttl",)),
    ({"ttl": Duration(seconds=-1)}, ("header.ttl",)),
    ({"ttl": HOUR, "expire_time": Timestamp(seconds=4_000_000_000)}, ("header.ttl",)),
    ({"expire_time": Timestamp(seconds=1)}, ("header.expire_time",)),
    ({"expire_time": LATE}, ("header.expire_time",)),
    ({"request_id": "x" * 129}, ("header.request_id",)),
    ({"scope": types_pb.Scope()}, ("header.scope.user_id",)),
    ({"name": "", "media_type": "x", "sha256": "x"}, ("header.name", "header.media_type", "header.sha256")),
]
OTHERS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    *((method, {"id": wrong}, ("id",)) for method in ("GetFile", "DownloadFile", "DeleteFile") for wrong in ("", "x", "../x")),
    ("DownloadFile", {"offset": -1}, ("offset",)),
    ("DownloadFile", {"length": -1, "offset": -(2**63)}, ("offset", "length")),
    ("DeleteFile", {"request_id": "x" * 129}, ("request_id",)),
    ("ListFiles", {"project_visibility": 9}, ("project_visibility",)),
    ("ListFiles", {"categories": [1, 0, 9]}, ("categories[1]", "categories[2]")),
    ("ListFiles", {"categories": [1] * 8}, ("categories",)),
    ("ListFiles", {"query": "x" * 257}, ("query",)),
    ("ListFiles", {"media_type": "*/png"}, ("media_type",)),
    ("ListFiles", {"sha256": "x"}, ("sha256",)),
    ("ListFiles", {"page_size": 1_001}, ("page_size",)),
    ("ListFiles", {"page_token": "AQAAAAAAAAAB"}, ("page_token",)),
]  # fmt: skip


def refusal_of(stubs: Stubs, requests: Iterator[file_pb.UploadFileRequest]) -> Refusal:
    """Send an upload that must be refused; return why."""
    with pytest.raises(grpc.RpcError) as caught:
        stubs.files.UploadFile(requests, timeout=TIMEOUT)
    return Refusal.from_error(caught.value)


@pytest.mark.parametrize(("fields", "paths"), HEADERS, ids=lambda value: repr(value)[:40])
def test_a_wrong_header_is_refused(
    stubs: Stubs, scope: types_pb.Scope, fields: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """All that is wrong at once, before a byte is sent."""
    header = file_pb.UploadFileHeader(**({"scope": scope, "name": "a"} | fields))
    refusal = refusal_of(stubs, iter([file_pb.UploadFileRequest(header=header)]))

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason)
    assert sorted(paths) == sorted(refusal.fields)
    assert listed(stubs, scope) == []


@pytest.mark.parametrize(("method", "fields", "paths"), OTHERS, ids=lambda value: repr(value)[:40])
def test_wrong_requests_are_refused(
    stubs: Stubs, scope: types_pb.Scope, method: str, fields: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """By the paths of what is wrong."""
    right: dict[str, Any] = {"scope": scope} if method == "ListFiles" else {"scope": scope, "id": ID}
    refusal = refused(getattr(stubs.files, method), getattr(file_pb, f"{method}Request")(**(right | fields)))

    assert (grpc.StatusCode.INVALID_ARGUMENT, sorted(paths)) == (refusal.code, sorted(refusal.fields))


def test_messages_out_of_order_are_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A header first and once, then bytes."""
    header = file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(scope=scope, name="a"))
    data, empty = file_pb.UploadFileRequest(data=b"x"), file_pb.UploadFileRequest()
    orders = {"header": ([], [data], [empty, header]), "data": ([header, header], [header, data, empty])}

    for field, several in orders.items():
        for requests in several:
            assert refusal_of(stubs, iter(requests)).fields == (field,)
    assert listed(stubs, scope) == []


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server that takes small pictures only, and one stream at a time."""
    limits = {
        "MEMSVC_EMBEDDER__BACKEND": "in-memory",
        "MEMSVC_LOG__LEVEL": "WARNING",
        "MEMSVC_FILES__MAX_BYTES": "1000",
        "MEMSVC_FILES__MEDIA_TYPES": '["image/*", "text/plain"]',
        "MEMSVC_FILES__EXTENSIONS": '[".png", "txt"]',
        "MEMSVC_FILES__MAX_STREAMS": "1",
    }
    with ServerProcess(tmp_path_factory.mktemp("strict") / "data", limits) as server, server.stubs() as stubs:
        yield stubs


@pytest.mark.parametrize(
    ("fields", "content", "paths"),
    [
        ({"name": "a.png", "size_bytes": 1001}, b"", ("header.size_bytes",)),
        ({"name": "a.png"}, b"x" * 1001, ("data",)),
        ({"name": "a.pdf"}, b"", ("header.media_type", "header.name")),
        ({"name": "a.pdf", "media_type": "image/png"}, b"", ("header.name",)),
        ({"name": "a.png", "media_type": "video/mp4"}, b"", ("header.media_type",)),
        ({"name": "png"}, b"", ("header.media_type", "header.name")),
    ],
    ids=["announced", "sent", "ending and type", "ending", "type", "no ending"],
)
def test_limits_are_told_by_their_field(
    strict: Stubs, scope: types_pb.Scope, fields: dict[str, Any], content: bytes, paths: tuple[str, ...]
) -> None:
    """Size, type and ending as the settings say; what is within them is taken."""
    with pytest.raises(grpc.RpcError) as caught:
        upload(strict, scope, content, **fields)
    refusal = Refusal.from_error(caught.value)

    assert (grpc.StatusCode.INVALID_ARGUMENT, paths) == (refusal.code, refusal.fields)
    assert "files." in refusal.message
    assert listed(strict, scope) == []
    file = upload(strict, scope, b"x" * 1000, name="A.PNG")
    assert len(download(strict, scope, file.id)) == 1000


def is_refused(stubs: Stubs, request: file_pb.DownloadFileRequest) -> bool:
    """Return whether a download is refused."""
    try:
        list(stubs.files.DownloadFile(request, timeout=TIMEOUT))
    except grpc.RpcError:
        return True
    return False


def test_too_many_streams_are_told_to_come_back(strict: Stubs, scope: types_pb.Scope) -> None:
    """RESOURCE_EXHAUSTED with a delay; when one has ended there is room again."""
    file = upload(strict, scope, b"x", name="a.txt", request_id=str(uuid.uuid4()))
    going_on = threading.Event()

    def halting() -> Iterator[file_pb.UploadFileRequest]:
        yield from messages(scope, b"y" * 100, name="b.txt")
        going_on.wait(TIMEOUT)

    call = strict.files.UploadFile.future(halting(), timeout=TIMEOUT)
    request = file_pb.DownloadFileRequest(scope=scope, id=file.id)
    until(lambda: is_refused(strict, request))
    refusal = refused(strict.files.DownloadFile, request)
    going_on.set()

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
    assert refusal.retry_seconds
    assert call.result().file.name == "b.txt"
    assert download(strict, scope, file.id) == b"x"
