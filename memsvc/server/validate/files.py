"""Rules for the requests about files."""

from __future__ import annotations

import re
from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.files import media_type_matches
from memsvc.engine.files.upload import FileRules
from memsvc.server.convert.enums import FILE_CATEGORY, VISIBILITY
from memsvc.server.convert.files import extension_of, media_type_of
from memsvc.server.convert.times import time_from_proto
from memsvc.server.validate.captures import SHA256
from memsvc.server.validate.metadata import check_metadata
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_enum,
    check_enums,
    check_integer,
    check_name,
    check_text,
    check_time,
    check_ttl,
    check_uuid,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import file_service_pb2 as pb

_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,62}"
MEDIA_TYPE = re.compile(f"{_NAME}/{_NAME}", re.ASCII)
MEDIA_TYPES = re.compile(rf"{_NAME}/(?:{_NAME}|\*)", re.ASCII)
MAX_OFFSET = 2**63 - 1


def check_header(header: pb.UploadFileHeader, rules: FileRules, now: datetime) -> None:
    """Check the first message of an upload."""
    found = Violations()
    check_scope(found, header.scope, field="header.scope")
    check_name(found, "header.name", header.name, most=limits.FILE_NAME, least=1)
    check_enum(found, "header.category", header.category, FILE_CATEGORY.from_proto)
    _check_kind(found, header, rules)
    if header.HasField("metadata"):
        check_metadata(found, "header.metadata", header.metadata)
    if header.HasField("size_bytes") and not 0 <= header.size_bytes <= rules.max_bytes:
        found.add("header.size_bytes", f"must be 0 to {rules.max_bytes} (setting files.max_bytes)")
    _check_sha256(found, "header.sha256", header.sha256)
    _check_end(found, header, now)
    check_request_id(found, header.request_id, field="header.request_id")
    found.finish()


def check_download(request: pb.DownloadFileRequest) -> None:
    """Check a request for the bytes of a file."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    for field, value in (("offset", request.offset), ("length", request.length)):
        if value < 0:
            found.add(field, "must be 0 or more")
    found.finish()


def check_get(request: pb.GetFileRequest) -> None:
    """Check a request for what is known of a file."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    found.finish()


def check_list(request: pb.ListFilesRequest) -> None:
    """Check a request for a page of files, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_enum(found, "visibility", request.visibility, VISIBILITY.from_proto)
    check_enums(found, "categories", request.categories, FILE_CATEGORY.from_proto, count=len(FILE_CATEGORY.names))
    check_text(found, "query", request.query, most=limits.FILE_QUERY)
    if request.media_type and not (
        len(request.media_type) <= limits.MEDIA_TYPE and MEDIA_TYPES.fullmatch(request.media_type)
    ):
        found.add("media_type", "must be a type such as 'image/png', or a family such as 'image/*'")
    _check_sha256(found, "sha256", request.sha256)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_delete(request: pb.DeleteFileRequest) -> None:
    """Check a request to delete a file."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_request_id(found, request.request_id)
    found.finish()


def _check_kind(found: Violations, header: pb.UploadFileHeader, rules: FileRules) -> None:
    if header.media_type and not (
        len(header.media_type) <= limits.MEDIA_TYPE and MEDIA_TYPE.fullmatch(header.media_type)
    ):
        found.add("header.media_type", "must be a type and a subtype without parameters, such as 'image/png'")
    elif rules.media_types and not any(media_type_matches(one, media_type_of(header)) for one in rules.media_types):
        allowed = ", ".join(rules.media_types)
        found.add(
            "header.media_type", f"is {media_type_of(header)!r}; allowed are {allowed} (setting files.media_types)"
        )
    if rules.extensions and extension_of(header.name) not in rules.extensions:
        allowed = ", ".join(rules.extensions)
        found.add("header.name", f"must end in one of {allowed} (setting files.extensions)")


def _check_sha256(found: Violations, field: str, value: str) -> None:
    if value and not SHA256.fullmatch(value):
        found.add(field, "must be 64 hexadecimal digits")


def _check_end(found: Violations, header: pb.UploadFileHeader, now: datetime) -> None:
    if header.HasField("ttl"):
        check_ttl(found, "header.ttl", header.ttl)
        if header.HasField("expire_time"):
            found.add("header.ttl", "must not be given together with expire_time")
    if (
        header.HasField("expire_time")
        and check_time(found, "header.expire_time", header.expire_time)
        and time_from_proto(header.expire_time) <= now
    ):
        found.add("header.expire_time", "must lie in the future")
