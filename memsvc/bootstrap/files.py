"""What keeps files."""

from __future__ import annotations

from contextlib import ExitStack

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.memories import MemoryServices, file_rules
from memsvc.domain.files import UrlTemplates
from memsvc.engine.files.garbage_collection import BlobGarbageCollector, Sweep
from memsvc.engine.files.service import DeletingFiles, FileReader, FileRefResolver
from memsvc.engine.files.upload import AttachmentLinker, Uploads
from memsvc.engine.services import FileService
from memsvc.settings import Settings

_MINUTE_SECONDS = 60


def files(settings: Settings, backends: Backends, writes: MemoryServices, stack: ExitStack) -> FileService:
    """Make the use cases, and start what sweeps; *stack* stops it."""
    chosen, reads, blobs, now = settings.files, backends.metadata.files, backends.blobs, backends.now
    keeping = writes.keeping
    sweep = Sweep(writes.committer, reads, blobs, keeping, now)
    if chosen.sweep_minutes:
        stack.callback(BlobGarbageCollector(sweep, chosen.sweep_minutes * _MINUTE_SECONDS).stop)
    attaching = AttachmentLinker(writes.recording, now)
    return FileService(
        uploads=Uploads(writes.committer, blobs, keeping, file_rules(settings), now, attaching),
        reading=FileReader(reads, blobs, now),
        deleting=DeletingFiles(writes.committer, keeping, now),
        sweep=sweep,
        keeping=keeping,
        resolving=FileRefResolver(reads, UrlTemplates(chosen.download_url, chosen.preview_url), now),
    )
