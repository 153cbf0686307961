"""Wiring of export, import, erasure and backups."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from threading import Thread

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.bootstrap.memories import MemoryServices
from memsvc.bootstrap.search import SearchServices
from memsvc.data_directory import DataDirectory
from memsvc.domain.errors import MemsvcError
from memsvc.domain.text_cache import forget_texts
from memsvc.engine.admin.backup import BLOBS, BackupManifest, BackupService, BlobSource
from memsvc.engine.services import FileService
from memsvc.engine.user_data.erasure import CacheInvalidation, DataLocations, DerivedIndexes, UserBlobs, UserEraser
from memsvc.engine.user_data.export import UserExporter
from memsvc.engine.user_data.import_user import UserImporter
from memsvc.engine.vault.vault import Vault
from memsvc.settings import Settings

BACKUPS = "backups"
"""The folder of backups in a data directory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UserDataServices:
    """The use cases that forget users, that carry them elsewhere, and that make backups."""

    user_eraser: UserEraser
    backups: BackupService
    user_exporter: UserExporter
    user_importer: UserImporter


def forgetting(
    settings: Settings,
    directory: DataDirectory,
    backends: Backends,
    parts: tuple[Indexing, MemoryServices, SearchServices, FileService],
    vault: Vault | None,
    stack: ExitStack,
) -> UserDataServices:
    """Make them, and finish the erasures that an earlier run of the process began; *stack* stops that."""
    index, writes, reads, files = parts
    users_files = UserBlobs(backends.metadata.files, backends.blobs, files.blob_guard)
    folder = settings.backup.directory or directory.path / BACKUPS
    about = BackupManifest(version("memsvc"), settings.metadata.backend, index.embedding.model)
    beside = BlobSource(backends.blobs, files.blob_guard.defer_removals)
    backups = BackupService(backends.metadata, beside, folder, about, backends.now)
    forget_files = () if vault is None else (vault.forget,)
    erase = UserEraser(
        backends.metadata,
        writes.committer,
        DerivedIndexes(
            backends.vectors, backends.lexical, index.indexer, index.reindex, index.embedding, settings.ranking.tier
        ),
        CacheInvalidation(
            writes.accesses.flush,
            (
                reads.core_memories.forget,
                reads.contexts.forget,
                lambda _: index.embedding.forget_queries(),
                *forget_files,
                lambda _: forget_texts(),
            ),
        ),
        DataLocations(directory.path, backups.names, users_files, (folder, directory.path / BLOBS)),
        backends.now,
    )
    _finish_begun(backends, erase, stack)
    tier = settings.ranking.tier
    return UserDataServices(
        user_eraser=erase,
        backups=backups,
        user_exporter=UserExporter(backends.metadata, writes.accesses, index.embedding, tier, backends.now),
        user_importer=UserImporter(writes.committer, index.embedding, tier),
    )


def _finish_begun(backends: Backends, erase: UserEraser, stack: ExitStack) -> None:
    if not backends.metadata.erasures.unfinished():
        return

    def finish() -> None:
        try:
            erase.finish_begun()
        except MemsvcError:
            log.warning("an erasure that was begun could not be finished; call EraseUser again", exc_info=True)

    thread = Thread(target=finish, name="erasing", daemon=True)
    thread.start()
    stack.callback(thread.join)
    stack.callback(erase.stop)
