"""Responses of FileService."""

from __future__ import annotations

from collections.abc import Iterable

from memsvc.domain.errors import StoredFileNotFoundError
from memsvc.domain.file_text import REASON_MESSAGES
from memsvc.domain.files import File, format_ref
from memsvc.engine.files.service import ResolvedRef
from memsvc.server.enums import CATEGORY_NUMBERS, FILE_CATEGORY, TEXT_REASONS, TEXT_STATE
from memsvc.server.error_status import item_status_from_error
from memsvc.server.responses.memories import fill_time, struct_to_proto
from memsvc.text.file_refs import link_refs
from memsvc.v1 import file_service_pb2 as file_pb


def file_to_proto(file: File) -> file_pb.File:
    """Return the description of a file."""
    message = file_pb.File()
    fill_file(message, file)
    return message


def fill_file(message: file_pb.File, file: File) -> None:
    """Fill an empty message with the description of a file."""
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
    message.text.state = TEXT_STATE.to_proto[file.text.state]
    message.text.reason = TEXT_REASONS.get(file.text.reason.value, file_pb.FILE_TEXT_REASON_UNSPECIFIED)
    message.text.message = REASON_MESSAGES[file.text.reason]
    message.text.char_count, message.text.passage_count = file.text.chars, file.text.passages
    message.text.truncated = file.text.is_truncated


def linked_content(content: str, resolved: Iterable[ResolvedRef]) -> str:
    """Return *content* with links to the files that it refers to; empty if that changes nothing."""
    links = {
        one.ref: (one.file.name or format_ref(one.ref), one.download_url)
        for one in resolved
        if one.file is not None and one.download_url
    }
    linked = link_refs(content, links)
    return linked if linked != content else ""


def fill_resolved(message: file_pb.ResolvedFileRef, resolved: ResolvedRef) -> None:
    """Fill an empty message with the file that a reference leads to, or with the reason that there is none."""
    message.ref.category, message.ref.id = CATEGORY_NUMBERS[resolved.ref.category], resolved.ref.id
    if resolved.file is None:
        message.status.CopyFrom(item_status_from_error(StoredFileNotFoundError(resolved.ref.id, resolved.fault)))
        return
    fill_file(message.file, resolved.file)
    message.download_url, message.preview_url = resolved.download_url, resolved.preview_url
