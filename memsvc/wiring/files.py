"""What keeps files."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta

from memsvc.domain.files import FileCategory, folded
from memsvc.engine.files.deleting import DeletingFiles
from memsvc.engine.files.keeping import Keeping
from memsvc.engine.files.reading import ReadingFiles
from memsvc.engine.files.shelf import Files
from memsvc.engine.files.sweep import Sweep, Sweeper
from memsvc.engine.files.upload import FileRules, Uploads
from memsvc.settings import Settings
from memsvc.wiring.backends import Backends
from memsvc.wiring.writing import Writing

_MINUTE_SECONDS = 60


def files(settings: Settings, backends: Backends, writes: Writing, stack: ExitStack) -> Files:
    """Make the use cases, and start what sweeps; *stack* stops it."""
    chosen, reads, blobs, now = settings.files, backends.metadata.files, backends.blobs, backends.now
    keeping = Keeping(reads, blobs)
    hours = {FileCategory.TEMP: chosen.temp_hours, FileCategory.CACHE: chosen.cache_hours}
    lifetimes = {category: timedelta(hours=value) for category, value in hours.items() if value}
    sweep = Sweep(writes.committer, reads, blobs, keeping, now)
    if chosen.sweep_minutes:
        stack.callback(Sweeper(sweep, chosen.sweep_minutes * _MINUTE_SECONDS).stop)
    extensions = tuple(folded(one).removeprefix(".") for one in chosen.extensions)
    rules = FileRules(chosen.max_bytes, chosen.media_types, extensions, lifetimes)
    return Files(
        uploads=Uploads(writes.committer, blobs, keeping, rules, now),
        reading=ReadingFiles(reads, blobs, now),
        deleting=DeletingFiles(writes.committer, keeping, now),
        sweep=sweep,
        keeping=keeping,
    )
