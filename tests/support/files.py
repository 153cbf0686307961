"""Files in tests: sent, fetched, listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from memsvc.v1 import file_service_pb2 as pb
from memsvc.v1 import types_pb2 as types
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs


def digest_of(content: bytes) -> str:
    """Return the hash of a content."""
    return hashlib.sha256(content).hexdigest()


def messages(scope: types.Scope, content: bytes | Iterable[bytes], **header: Any) -> Iterator[pb.UploadFileRequest]:
    """Yield the messages of an upload."""
    named = {"name": "a.bin"} | header
    yield pb.UploadFileRequest(header=pb.UploadFileHeader(scope=scope, **named))
    for part in [content] if isinstance(content, bytes) else content:
        yield pb.UploadFileRequest(data=part)


def upload(stubs: Stubs, scope: types.Scope, content: bytes | Iterable[bytes] = b"1;2", **header: Any) -> pb.File:
    """Upload a file."""
    return stubs.files.UploadFile(messages(scope, content, **header), timeout=TIMEOUT).file


def download(stubs: Stubs, scope: types.Scope, file_id: str, **request: Any) -> bytes:
    """Download a file, or a range of it."""
    answer = stubs.files.DownloadFile(pb.DownloadFileRequest(scope=scope, id=file_id, **request), timeout=TIMEOUT)
    first, *rest = answer
    assert first.file.id == file_id
    return b"".join(response.data for response in rest)


def listed(stubs: Stubs, scope: types.Scope, **request: Any) -> list[str]:
    """Return the names of all files of a list, page by page."""
    found: list[str] = []
    token = ""
    while True:
        page = stubs.files.ListFiles(pb.ListFilesRequest(scope=scope, page_token=token, **request), timeout=TIMEOUT)
        found += [file.name for file in page.files]
        token = page.next_page_token
        if not token:
            return found


def get(stubs: Stubs, scope: types.Scope, file_id: str) -> pb.File:
    """Return what is known of a file."""
    return stubs.files.GetFile(pb.GetFileRequest(scope=scope, id=file_id), timeout=TIMEOUT).file


def delete(stubs: Stubs, scope: types.Scope, file_id: str, **request: Any) -> pb.File:
    """Delete a file."""
    return stubs.files.DeleteFile(pb.DeleteFileRequest(scope=scope, id=file_id, **request), timeout=TIMEOUT).file
