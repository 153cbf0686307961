"""Wiring of export, import, erasure and backups."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import version
from threading import Thread

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.indexing import IndexParts
from memsvc.bootstrap.memories import WriteParts
from memsvc.domain.errors import MemsvcError
from memsvc.engine.admin.backup import BLOBS, BackupManifest, BackupService, BlobSource
from memsvc.engine.services import FileService, SearchServices, UserDataServices
from memsvc.engine.user_data.erasure import (
    CacheInvalidation,
    DataLocations,
    DerivedIndexes,
    UserBlobs,
    UserEraser,
    clear_text_caches,
)
from memsvc.engine.user_data.export import UserExporter
from memsvc.engine.user_data.import_user import UserImporter
from memsvc.engine.vault.vault import Vault

BACKUPS = "backups"
"""The folder of backups in a data directory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErasureScope:
    """The services whose data and caches an erasure clears."""

    index: IndexParts
    search: SearchServices
    files: FileService
    vault: Vault | None


def build_user_data_services(assembly: Assembly, parts: WriteParts, erased: ErasureScope) -> UserDataServices:
    """Build the use cases, and finish the erasures that an earlier process began."""
    settings, backends, directory = assembly.settings, assembly.backends, assembly.directory.path
    index, tier, store = erased.index, settings.ranking.tier, backends.metadata
    priority, blob_guard = assembly.search_priority, erased.files.blob_guard
    folder = settings.backup.directory or directory / BACKUPS
    manifest = BackupManifest(version("memsvc"), settings.metadata.backend, index.embedding.model)
    blob_source = BlobSource(backends.blobs, blob_guard.defer_removals)
    backups = BackupService(store, blob_source, folder, manifest, backends.now)
    user_blobs = UserBlobs(store.files, backends.blobs, blob_guard, priority)
    eraser = UserEraser(
        store,
        parts.committer,
        DerivedIndexes(backends.vectors, backends.lexical, index.indexer, index.reindex, index.unused_embeddings),
        _cache_invalidation(parts, erased),
        DataLocations(directory, backups.names, user_blobs, (folder, directory / BLOBS)),
        backends.now,
        priority,
    )
    _finish_begun(assembly, eraser)
    return UserDataServices(
        user_exporter=UserExporter(store, parts.accesses, index.embedding, tier, backends.now, priority),
        user_importer=UserImporter(parts.committer, index.embedding, tier, priority),
        user_eraser=eraser,
        backups=backups,
    )


def _cache_invalidation(parts: WriteParts, erased: ErasureScope) -> CacheInvalidation:
    return CacheInvalidation(
        parts.accesses.flush,
        (
            erased.search.core_memories.forget,
            erased.search.contexts.forget,
            lambda _: erased.index.spaces.clear_text_caches(),
            *(() if erased.vault is None else (erased.vault.forget,)),
            lambda _: clear_text_caches(),
        ),
    )


def _finish_begun(assembly: Assembly, eraser: UserEraser) -> None:
    if not assembly.backends.metadata.erasures.unfinished_erasures():
        return

    def finish() -> None:
        try:
            eraser.finish_begun()
        except MemsvcError:
            log.warning("an erasure that was begun could not be finished; call EraseUser again", exc_info=True)

    thread = Thread(target=finish, name="erasing", daemon=True)
    thread.start()
    assembly.stack.callback(thread.join)
    assembly.stack.callback(eraser.stop)
