"""Requests of FileService, decoded and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from mimetypes import MimeTypes

from memsvc.domain import limits
from memsvc.domain.field_rules import SHA256
from memsvc.domain.files import FileCategory, FileFilter, fold_text, media_type_matches
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope, Visibility
from memsvc.engine.files.upload import FileRules, NewFile
from memsvc.server.enums import FILE_CATEGORY, VISIBILITY
from memsvc.server.requests.decoder import RequestDecoder, time_from_proto
from memsvc.server.requests.memory_fields import decode_file_refs
from memsvc.v1 import file_service_pb2 as file_pb

_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,62}"
MEDIA_TYPE = re.compile(f"{_NAME}/{_NAME}", re.ASCII)
MEDIA_TYPES = re.compile(rf"{_NAME}/(?:{_NAME}|\*)", re.ASCII)
DEFAULT_MEDIA_TYPE = "application/octet-stream"
_TYPES = MimeTypes(filenames=())
"""The same on every machine: without the system's own lists."""
_MORE_TYPES = {
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    **dict.fromkeys(("log", "ini"), "text/plain"),
    "rst": "text/x-rst",
    "jsonl": "application/x-ndjson",
    **dict.fromkeys(("yaml", "yml"), "application/yaml"),
    "toml": "application/toml",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "webp": "image/webp",
    "avif": "image/avif",
}
"""Types that Python does not know, or not in every version: of the documents whose text is extracted, and of images."""


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file whose bytes follow."""

    scope: Scope
    file: NewFile
    request_id: str


def upload_file_header(header: file_pb.UploadFileHeader, rules: FileRules, *, now: datetime) -> UploadFile:
    """Return the file that a header announces; *rules* are those of the settings."""
    decoder = RequestDecoder("header.")
    scope = decoder.scope(header.scope)
    name = decoder.name("name", header.name, most=limits.FILE_NAME, least=1)
    category = decoder.enum("category", header.category, FILE_CATEGORY, FileCategory.UPLOAD)
    media_type = _media_type(decoder, header, rules)
    metadata = decoder.metadata("metadata", header.metadata)
    size = header.size_bytes if header.HasField("size_bytes") else None
    if size is not None and not 0 <= size <= rules.max_bytes:
        decoder.add("size_bytes", f"must be 0 to {rules.max_bytes} (setting files.max_bytes)")
    sha256 = _sha256(decoder, header.sha256)
    ttl, expire_time = _expiry(decoder, header, now)
    request_id = decoder.request_id(header.request_id)
    decoder.finish()
    file = NewFile(
        name=name,
        category=category,
        media_type=media_type,
        metadata=metadata,
        size_bytes=size,
        sha256=sha256,
        ttl=ttl,
        expire_time=expire_time,
    )
    return UploadFile(scope, file, request_id)


@dataclass(frozen=True, slots=True)
class FileRead:
    """A read of one file; a *length* of 0 is the rest of it."""

    scope: Scope
    file_id: str
    offset: int = 0
    length: int = 0


def download_file_request(message: file_pb.DownloadFileRequest) -> FileRead:
    """Return the bytes to download."""
    decoder = RequestDecoder()
    request = FileRead(decoder.scope(message.scope), decoder.uuid("id", message.id), message.offset, message.length)
    for field, value in (("offset", message.offset), ("length", message.length)):
        if value < 0:
            decoder.add(field, "must be 0 or more")
    decoder.finish()
    return request


def get_file_request(message: file_pb.GetFileRequest) -> FileRead:
    """Return the file to describe."""
    decoder = RequestDecoder()
    request = FileRead(decoder.scope(message.scope), decoder.uuid("id", message.id))
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListFiles:
    """One page of files; *before* is the row of the last file of the page before."""

    scope: Scope
    filter: FileFilter
    visibility: Visibility
    before: int | None
    limit: int


def list_files_request(message: file_pb.ListFilesRequest) -> ListFiles:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    visibility = decoder.enum(
        "project_visibility", message.project_visibility, VISIBILITY, Visibility.PROJECT_AND_GLOBAL
    )
    count = len(FILE_CATEGORY.names)
    categories = decoder.enums("categories", message.categories, FILE_CATEGORY.from_proto, count=count)
    query = decoder.text("query", message.query, most=limits.FILE_QUERY)
    if message.media_type and not _is_media_type(message.media_type, MEDIA_TYPES):
        decoder.add("media_type", "must be a type such as 'image/png', or a family such as 'image/*'")
    chosen = FileFilter(
        categories=frozenset(categories),
        words=tuple(fold_text(query).split()),
        media_type=message.media_type.lower(),
        sha256=_sha256(decoder, message.sha256),
    )
    limit = decoder.page_size(message.page_size)
    cursor = decoder.list_cursor(message)
    decoder.finish()
    return ListFiles(scope, chosen, visibility, None if cursor is None else cursor.row, limit)


def delete_file_request(message: file_pb.DeleteFileRequest) -> tuple[Scope, str, str]:
    """Return the scope and the id of the file to delete, and the request id."""
    decoder = RequestDecoder()
    request = (
        decoder.scope(message.scope),
        decoder.uuid("id", message.id),
        decoder.request_id(message.request_id),
    )
    decoder.finish()
    return request


def resolve_file_refs_request(message: file_pb.ResolveFileRefsRequest) -> tuple[Scope, tuple[FileRef, ...]]:
    """Return the references to resolve, each once."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.count("refs", message.refs, least=1, most=limits.RESOLVED_REFS)
    refs = decode_file_refs(decoder, "refs", message.refs[: limits.RESOLVED_REFS])
    decoder.finish()
    return scope, refs


def _media_type(decoder: RequestDecoder, header: file_pb.UploadFileHeader, rules: FileRules) -> str:
    """Return the media type that is given, or else that of the name's extension."""
    extension = fold_text(header.name).rpartition(".")[2] if "." in header.name else ""
    found = header.media_type.lower() or _type_of(extension)
    if header.media_type and not _is_media_type(header.media_type, MEDIA_TYPE):
        decoder.add("media_type", "must be a type and a subtype without parameters, such as 'image/png'")
    elif rules.media_types and not any(media_type_matches(one, found) for one in rules.media_types):
        allowed = ", ".join(rules.media_types)
        decoder.add("media_type", f"is {found!r}; allowed are {allowed} (setting files.media_types)")
    if rules.extensions and extension not in rules.extensions:
        allowed = ", ".join(rules.extensions)
        decoder.add("name", f"must end in one of {allowed} (setting files.extensions)")
    return found


def _type_of(extension: str) -> str:
    return _MORE_TYPES.get(extension) or _TYPES.guess_type(f"x.{extension}")[0] or DEFAULT_MEDIA_TYPE


def _is_media_type(value: str, pattern: re.Pattern[str]) -> bool:
    return len(value) <= limits.MEDIA_TYPE and pattern.fullmatch(value) is not None


def _sha256(decoder: RequestDecoder, value: str) -> str:
    if value and not SHA256.fullmatch(value):
        decoder.add("sha256", "must be 64 hexadecimal digits")
    return value.lower()


def _expiry(
    decoder: RequestDecoder, header: file_pb.UploadFileHeader, now: datetime
) -> tuple[timedelta | None, datetime | None]:
    ttl = expire_time = None
    if header.HasField("ttl"):
        ttl = decoder.ttl("ttl", header.ttl)
        if header.HasField("expire_time"):
            decoder.add("ttl", "must not be given together with expire_time")
    if header.HasField("expire_time") and decoder.is_time("expire_time", header.expire_time):
        expire_time = time_from_proto(header.expire_time)
        if expire_time <= now:
            decoder.add("expire_time", "must be in the future")
    return ttl, expire_time
