"""Files in tests: sent, fetched, listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs


def digest_of(content: bytes) -> str:
    """Return the hash of a content."""
    return hashlib.sha256(content).hexdigest()


def messages(
    scope: types_pb.Scope, content: bytes | Iterable[bytes], **header: Any
) -> Iterator[file_pb.UploadFileRequest]:
    """Yield the messages of an upload."""
    named = {"name": "a.bin"} | header
    yield file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(scope=scope, **named))
    for part in [content] if isinstance(content, bytes) else content:
        yield file_pb.UploadFileRequest(data=part)


def upload(
    stubs: Stubs, scope: types_pb.Scope, content: bytes | Iterable[bytes] = b"1;2", **header: Any
) -> file_pb.File:
    """Upload a file."""
    return stubs.files.UploadFile(messages(scope, content, **header), timeout=TIMEOUT).file


def download(stubs: Stubs, scope: types_pb.Scope, file_id: str, **request: Any) -> bytes:
    """Download a file, or a range of it."""
    answer = stubs.files.DownloadFile(file_pb.DownloadFileRequest(scope=scope, id=file_id, **request), timeout=TIMEOUT)
    first, *rest = answer
    assert first.file.id == file_id
    return b"".join(response.data for response in rest)


def listed(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[str]:
    """Return the names of all files of a list, page by page."""
    found: list[str] = []
    token = ""
    while True:
        page = stubs.files.ListFiles(
            file_pb.ListFilesRequest(scope=scope, page_token=token, **request), timeout=TIMEOUT
        )
        found += [file.name for file in page.files]
        token = page.next_page_token
        if not token:
            return found


def get(stubs: Stubs, scope: types_pb.Scope, file_id: str) -> file_pb.File:
    """Return what is known of a file."""
    return stubs.files.GetFile(file_pb.GetFileRequest(scope=scope, id=file_id), timeout=TIMEOUT).file


def delete(stubs: Stubs, scope: types_pb.Scope, file_id: str, **request: Any) -> file_pb.File:
    """Delete a file."""
    return stubs.files.DeleteFile(file_pb.DeleteFileRequest(scope=scope, id=file_id, **request), timeout=TIMEOUT).file


def written_ref(ref: types_pb.FileRef) -> str:
    """Return a reference as it is written in texts, such as `chart:c1`."""
    return f"{types_pb.FileCategory.Name(ref.category).removeprefix('FILE_CATEGORY_').lower()}:{ref.id}"
