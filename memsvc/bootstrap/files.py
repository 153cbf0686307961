"""What keeps files."""

from __future__ import annotations

from contextlib import ExitStack

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.file_rules import file_rules
from memsvc.bootstrap.memories import Writing
from memsvc.domain.url_templates import UrlTemplates
from memsvc.engine.files.attaching import Attaching
from memsvc.engine.files.deleting import DeletingFiles
from memsvc.engine.files.garbage_collection import Sweep, Sweeper
from memsvc.engine.files.resolving import ResolvingRefs
from memsvc.engine.files.service import ReadingFiles
from memsvc.engine.files.shelf import Files
from memsvc.engine.files.upload import Uploads
from memsvc.settings import Settings

_MINUTE_SECONDS = 60


def files(settings: Settings, backends: Backends, writes: Writing, stack: ExitStack) -> Files:
    """Make the use cases, and start what sweeps; *stack* stops it."""
    chosen, reads, blobs, now = settings.files, backends.metadata.files, backends.blobs, backends.now
    keeping = writes.keeping
    sweep = Sweep(writes.committer, reads, blobs, keeping, now)
    if chosen.sweep_minutes:
        stack.callback(Sweeper(sweep, chosen.sweep_minutes * _MINUTE_SECONDS).stop)
    attaching = Attaching(writes.recording, now)
    return Files(
        uploads=Uploads(writes.committer, blobs, keeping, file_rules(settings), now, attaching),
        reading=ReadingFiles(reads, blobs, now),
        deleting=DeletingFiles(writes.committer, keeping, now),
        sweep=sweep,
        keeping=keeping,
        resolving=ResolvingRefs(reads, UrlTemplates(chosen.download_url, chosen.preview_url), now),
    )
