"""References to files on their way out: what they lead to."""

from __future__ import annotations

from memsvc.domain.errors import StoredFileNotFoundError
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope
from memsvc.engine.files.service import FileRefResolver, ResolvedRef
from memsvc.server.convert.files import fill_file
from memsvc.server.error_status import item_status_from_error
from memsvc.v1 import file_service_pb2 as files
from memsvc.v1 import search_service_pb2 as search


def fill_resolved(message: files.ResolvedFileRef, resolved: ResolvedRef) -> None:
    """Make an empty message what became of a reference."""
    message.ref.category, message.ref.id = resolved.ref.category, resolved.ref.id
    if resolved.file is None:
        message.status.CopyFrom(item_status_from_error(StoredFileNotFoundError(resolved.ref.id)))
        return
    fill_file(message.file, resolved.file)
    message.download_url, message.preview_url = resolved.download_url, resolved.preview_url


def add_files(response: search.SearchResponse, resolving: FileRefResolver, scope: Scope) -> None:
    """Add to hits that have references what these lead to: one question to the store for the whole page."""
    refs = [FileRef(ref.category, ref.id) for hit in response.hits for ref in hit.file_refs]
    resolved = resolving.resolve(scope, refs)
    for hit in response.hits:
        for ref in hit.file_refs:
            fill_resolved(hit.files.add(), resolved[FileRef(ref.category, ref.id)])
