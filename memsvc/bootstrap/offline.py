"""API keys of a running service; key, migration and restore commands while no service runs."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from memsvc.bootstrap.backends import Assembly, open_store
from memsvc.bootstrap.plugins import load_backend
from memsvc.data_directory import owned, sync
from memsvc.domain.clock import utc_now
from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.admin.api_keys import ApiKeyAccess, ApiKeyAuthenticator, ApiKeyService, QuotaService
from memsvc.engine.admin.backup import STORE, BackupError, read_backup
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.settings import Settings

RESTORING = ".restoring"
LOST_AND_FOUND = "lost+found"
"""A folder of a new file system."""


def build_key_access(assembly: Assembly, committer: GroupCommitter) -> ApiKeyAccess:
    """Build the service that manages the API keys of a running service, and their authenticator."""
    settings, backends = assembly.settings.access, assembly.backends
    keys, now = backends.metadata.api_keys, backends.now
    refresh = timedelta(seconds=settings.refresh_seconds)
    authenticator = ApiKeyAuthenticator(keys, demand=settings.keys, refresh=refresh, now=now)
    service = ApiKeyService(keys, committer, now=now, random=secrets.token_bytes, changed=authenticator.forget)
    quotas = QuotaService(backends.metadata, committer, now=now, changed=authenticator.forget_all)
    store = backends.metadata
    return ApiKeyAccess(service, authenticator, quotas, store.call_rates if store.is_shared else None)


@contextmanager
def offline_keys(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[ApiKeyService]:
    """Open only the store, and yield the service that manages its API keys.

    Raises:
        DataDirectoryLockedError: A service has the data directory open: ask it.
        PluginError: The store cannot be chosen.
        StartError: Its options are wrong.
        BackendUnavailableError: It cannot be opened.
        StoreMovedError: Its data are elsewhere.
    """
    with owned(settings.data_dir, visits=True) as directory, open_store(settings, directory.path, now) as store:
        store.moves.require_here()
        committer = GroupCommitter(store)
        with closing(committer):
            yield ApiKeyService(store.api_keys, committer, now=now, random=secrets.token_bytes)


def has_keys(settings: Settings) -> bool:
    """Return whether a key was ever created, while no service runs. A data directory is not created for it.

    Raises:
        DataDirectoryLockedError: A service has the data directory open.
    """
    is_elsewhere = bool(settings.metadata.options)
    if not is_elsewhere and not settings.data_dir.exists():
        return False
    with owned(settings.data_dir, visits=True) as directory, open_store(settings, directory.path) as store:
        return store.api_keys.has_any()


@contextmanager
def offline_migration(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[StoreMigration]:
    """Open only the store, wherever its data are, and yield its migration.

    Raises:
        DataDirectoryLockedError: A service has the data directory open: ask it.
        PluginError: The store cannot be chosen.
        StartError: Its options are wrong.
        BackendUnavailableError: It cannot be opened.
    """
    with owned(settings.data_dir, visits=True) as directory, open_store(settings, directory.path, now) as store:
        yield StoreMigration(store, lambda: None, SearchPriority())


def restore(backup: Path, data_dir: Path, report: Callable[[int, int, str], None]) -> Mapping[str, int]:
    """Create *data_dir*, which must be empty or absent, from a backup; return the counts of its records.

    *report* receives the steps done, the number of steps, and the current step. A failed restore leaves nothing.

    Raises:
        BackupError: The directory is not empty, or the backup is not whole; nothing was changed.
    """
    # The target of a link, which cannot be replaced by a directory.
    target = data_dir.resolve()
    if target.exists() and not target.is_dir():
        message = f"{str(data_dir)!r} is a file; restore into a new directory."
        raise BackupError(message)
    if target.exists() and not _is_empty(target):
        message = f"{str(data_dir)!r} is not empty; restore into a new directory."
        raise BackupError(message)
    report(0, 3, "verifying")
    manifest = read_backup(backup)
    partial = _partial(target)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        report(1, 3, "copying")
        partial.mkdir(parents=True, mode=0o700)
        for file in manifest["files"]:
            _copy(backup / file["path"], partial / file["path"])
        report(2, 3, "opening")
        counts = _open_restored(partial, manifest, backup)
        _put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report(3, 3, "done")
    return counts


def _is_empty(directory: Path) -> bool:
    """Return whether a directory holds nothing but an interrupted restore, or what a new file system holds."""
    return all(child.name in {RESTORING, LOST_AND_FOUND} for child in directory.iterdir())


def _partial(target: Path) -> Path:
    """Return the folder of an unfinished restore: next to the directory, which it replaces, or in it.

    A file system is mounted at a directory that cannot be replaced, and a service may not be allowed to write next to
    its own directory.
    """
    is_kept = target.exists() and (any(target.iterdir()) or target.is_mount() or not os.access(target.parent, os.W_OK))
    return target / RESTORING if is_kept else target.with_name(f"{target.name}{RESTORING}")


def _put_in_place(partial: Path, target: Path) -> None:
    if partial.parent == target:
        # The store last: without it a service does not mistake a part for the whole.
        for child in sorted(partial.iterdir(), key=lambda child: child.name == STORE):
            child.replace(target / child.name)
        sync(target)
        return
    partial.replace(target)
    sync(target.parent)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(source, target)
    target.chmod(0o600)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _open_restored(directory: Path, manifest: Mapping[str, object], backup: Path) -> Mapping[str, int]:
    """Open the restored store once: check it and its counts, and give it a new identity."""
    spec = load_backend("metadata", str(manifest["backend"]))
    context = BackendContext(directory=directory / STORE, now=utc_now)
    try:
        return _renew_restored(spec.open(spec.settings(), context), manifest)
    except BackendUnavailableError as error:
        # Digests only show that the files are those that were backed up.
        problem = error.problem.partition(":")[0]
        message = f"The store of the backup {str(backup)!r} {problem}; mend the cause, or restore an earlier backup."
        raise BackupError(message) from error


def _renew_restored(opened: AbstractContextManager[MetadataStore], manifest: Mapping[str, object]) -> Mapping[str, int]:
    with opened as store:
        store.copies.verify()
        counts: Mapping[str, int] = store.copies.counts()
        said = cast("Mapping[str, int]", manifest["counts"])
        # An older memsvc did not count all that there is now; there is none of it then.
        if _some(counts) != _some(said):
            message = f"The backup holds {dict(counts)}, but its manifest says {said}."
            raise BackupError(message)
        store.copies.renew()
    return counts


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
