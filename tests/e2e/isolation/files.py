"""What the methods of FileService do to strangers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import file_service_pb2 as file_pb
from tests.e2e.isolation.fixtures import USER, Stranger
from tests.e2e.isolation.registry import INVALID, NOT_FOUND, OK, case
from tests.support.files import messages


def files_hidden_from(stranger: Stranger) -> list[file_pb.File]:
    """Return the owner's files that a stranger may not know of."""
    return [file for name, file in stranger.owner.files.items() if name in stranger.hidden]


@case
def UploadFile(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The same bytes are a file of their own, and the owner's request is not recognised."""
    for number, file in enumerate(files_hidden_from(stranger)):
        content = stranger.owner.contents[file.id]
        # Within one user the same request_id is the same request, whatever the project.
        request_id = "" if stranger.scope.user_id == USER else f"used {number}"
        yield list(messages(stranger.scope, content, name="mine", sha256=file.sha256, request_id=request_id)), OK


@case
def DownloadFile(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if it were not there."""
    for file in files_hidden_from(stranger):
        yield [file_pb.DownloadFileRequest(scope=stranger.scope, id=file.id)], NOT_FOUND
        yield [file_pb.DownloadFileRequest(scope=stranger.scope, id=file.id, offset=1 << 40)], NOT_FOUND


@case
def GetFile(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if it were not there."""
    for file in files_hidden_from(stranger):
        yield [file_pb.GetFileRequest(scope=stranger.scope, id=file.id)], NOT_FOUND


@case
def ListFiles(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not in their lists, whatever they look for, and not by the owner's token."""
    for file in files_hidden_from(stranger):
        yield [file_pb.ListFilesRequest(scope=stranger.scope, page_size=1_000)], OK
        yield [file_pb.ListFilesRequest(scope=stranger.scope, query=file.name)], OK
        yield [file_pb.ListFilesRequest(scope=stranger.scope, sha256=file.sha256)], OK
        token = stranger.owner.tokens["files"]
        yield [file_pb.ListFilesRequest(scope=stranger.scope, page_size=1, page_token=token)], INVALID


@case
def DeleteFile(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if it were not there."""
    for file in files_hidden_from(stranger):
        yield [file_pb.DeleteFileRequest(scope=stranger.scope, id=file.id)], NOT_FOUND
