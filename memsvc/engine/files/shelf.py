"""All that is done with files, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.deleting import DeletingFiles
from memsvc.engine.files.garbage_collection import Sweep
from memsvc.engine.files.resolving import FileRefResolver
from memsvc.engine.files.service import FileReader
from memsvc.engine.files.upload import Uploads


@dataclass(frozen=True, slots=True)
class FileService:
    """The use cases of files."""

    uploads: Uploads
    reading: FileReader
    deleting: DeletingFiles
    sweep: Sweep
    keeping: BlobGuard
    resolving: FileRefResolver
