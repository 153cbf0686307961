"""All that is done with files, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.engine.files.blob_guard import Keeping
from memsvc.engine.files.deleting import DeletingFiles
from memsvc.engine.files.garbage_collection import Sweep
from memsvc.engine.files.resolving import ResolvingRefs
from memsvc.engine.files.service import ReadingFiles
from memsvc.engine.files.upload import Uploads


@dataclass(frozen=True, slots=True)
class Files:
    """The use cases of files."""

    uploads: Uploads
    reading: ReadingFiles
    deleting: DeletingFiles
    sweep: Sweep
    keeping: Keeping
    resolving: ResolvingRefs
