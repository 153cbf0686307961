"""Files to messages, and what is asked of files from them."""

from __future__ import annotations

from mimetypes import MimeTypes

from memsvc.domain.files import File, FileCategory, FileFilter, folded
from memsvc.engine.files.upload import NewFile
from memsvc.server.convert.enums import FILE_CATEGORY
from memsvc.server.convert.json import struct_from_proto, struct_to_proto
from memsvc.server.convert.times import fill_time, span_from_proto, time_from_proto
from memsvc.v1 import file_service_pb2 as pb

BYTES = "application/octet-stream"
_TYPES = MimeTypes(filenames=())
"""The same on every machine: without the system's own lists."""


def new_file_from_proto(header: pb.UploadFileHeader) -> NewFile:
    """Return what is announced."""
    return NewFile(
        name=header.name,
        category=FILE_CATEGORY.given(header.category, FileCategory.UPLOAD),
        media_type=media_type_of(header),
        metadata=struct_from_proto(header.metadata),
        size_bytes=header.size_bytes if header.HasField("size_bytes") else None,
        sha256=header.sha256.lower(),
        ttl=span_from_proto(header.ttl) if header.HasField("ttl") else None,
        expire_time=time_from_proto(header.expire_time) if header.HasField("expire_time") else None,
    )


def media_type_of(header: pb.UploadFileHeader) -> str:
    """Return the media type that is given, or that the name's ending says."""
    return header.media_type.lower() or _TYPES.guess_type(f"x.{extension_of(header.name)}")[0] or BYTES


def extension_of(name: str) -> str:
    """Return the ending of a name, folded and without the dot; empty: it has none."""
    return folded(name).rpartition(".")[2] if "." in name else ""


def filter_from_proto(request: pb.ListFilesRequest) -> FileFilter:
    """Return which files are wanted."""
    return FileFilter(
        categories=frozenset(FILE_CATEGORY.from_proto[number] for number in request.categories),
        words=tuple(folded(request.query).split()),
        media_type=request.media_type.lower(),
        sha256=request.sha256.lower(),
    )


def file_to_proto(file: File) -> pb.File:
    """Return what is known of a file."""
    message = pb.File()
    fill_file(message, file)
    return message


def fill_file(message: pb.File, file: File) -> None:
    """Make an empty message that of a file."""
    message.id = file.id
    message.scope.user_id = file.scope.user_id
    message.scope.project_id = file.scope.project_id
    message.scope.agent_id = file.scope.agent_id
    message.scope.session_id = file.scope.session_id
    message.category = FILE_CATEGORY.to_proto[file.category]
    message.name = file.name
    message.media_type = file.media_type
    message.size_bytes = file.size_bytes
    message.sha256 = file.sha256
    fill_time(message.create_time, file.create_time)
    if file.expire_time is not None:
        fill_time(message.expire_time, file.expire_time)
    if file.metadata:
        message.metadata.CopyFrom(struct_to_proto(file.metadata))
    message.content_missing = not file.has_content
