"""Keys: for a running service, and for commands while none runs."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from memsvc.bootstrap.backends import Backends, opened_store
from memsvc.bootstrap.plugins import load_backend
from memsvc.data_directory import owned
from memsvc.domain.clock import utc_now
from memsvc.engine.admin.api_keys import ApiKeyAccess, ApiKeyAuthenticator, ApiKeyService
from memsvc.engine.admin.backup import STORE, BackupError, read_backup
from memsvc.engine.admin.store_migration import StoreMigration
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.fsync import sync
from memsvc.ports.plugin import BackendContext
from memsvc.settings import Settings


def access_of(settings: Settings, backends: Backends, committer: GroupCommitter) -> ApiKeyAccess:
    """Return what makes the keys of a running service, and what knows them again."""
    access, reads = settings.access, backends.metadata.api_keys
    refresh = timedelta(seconds=access.refresh_seconds)
    keyring = ApiKeyAuthenticator(reads, demand=access.keys, refresh=refresh, now=backends.now)
    made = ApiKeyService(reads, committer, now=backends.now, random=secrets.token_bytes, changed=keyring.forget)
    return ApiKeyAccess(made, keyring)


@contextmanager
def offline_keys(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[ApiKeyService]:
    """Open the store alone, and yield what makes keys in it.

    Raises:
        DataDirectoryLockedError: A service has the data directory open: ask it.
        PluginError: The store cannot be chosen.
        StartError: Its options are wrong.
        BackendUnavailableError: It cannot be opened.
        StoreMovedError: Its data are elsewhere.
    """
    with owned(settings.data_dir, visits=True) as directory, opened_store(settings, directory.path, now) as store:
        store.moves.require_here()
        committer = GroupCommitter(store)
        with closing(committer):
            yield ApiKeyService(store.api_keys, committer, now=now, random=secrets.token_bytes)


def has_keys(settings: Settings) -> bool:
    """Return whether a key was ever made, while no service runs. Where nothing is stored yet, nothing is left behind.

    Raises:
        DataDirectoryLockedError: A service has the data directory open.
    """
    is_elsewhere = bool(settings.metadata.options)
    if not is_elsewhere and not settings.data_dir.exists():
        return False
    with owned(settings.data_dir, visits=True) as directory, opened_store(settings, directory.path) as store:
        return store.api_keys.are_there()


# Migration of the store, for a running service and for a command while none runs.


@contextmanager
def offline_migration(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[StoreMigration]:
    """Open the store alone, wherever its data are, and yield what moves it.

    Raises:
        DataDirectoryLockedError: A service has the data directory open: ask it.
        PluginError: The store cannot be chosen.
        StartError: Its options are wrong.
        BackendUnavailableError: It cannot be opened.
    """
    with owned(settings.data_dir, visits=True) as directory, opened_store(settings, directory.path, now) as store:
        yield StoreMigration(store, lambda: None)


# Restoring: a data directory made of a backup.


RESTORING = ".restoring"


def restore(backup: Path, data_dir: Path, tell: Callable[[int, int, str], None]) -> Mapping[str, int]:
    """Make *data_dir*, which must be empty or not there, of a backup; return the counts of what is in it.

    *tell* is told steps done, steps in all, and what is being done. Nothing is left of a restore that fails.

    Raises:
        BackupError: The directory is not empty, or the backup is not whole; nothing was changed.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        message = f"{str(data_dir)!r} is not empty; restore into a new directory."
        raise BackupError(message)
    tell(0, 3, "verifying")
    manifest = read_backup(backup)
    beside = data_dir.absolute().with_name(f"{data_dir.absolute().name}{RESTORING}")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        tell(1, 3, "copying")
        beside.mkdir(parents=True, mode=0o700)
        for file in manifest["files"]:
            _copy(backup / file["path"], beside / file["path"])
        tell(2, 3, "opening")
        counts = _opened(beside, manifest)
        beside.replace(data_dir)
        sync(data_dir.absolute().parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    tell(3, 3, "done")
    return counts


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(source, target)
    target.chmod(0o600)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _opened(directory: Path, manifest: Mapping[str, object]) -> Mapping[str, int]:
    """Open the restored store once: it must hold what the manifest says, and gets a name of its own."""
    spec = load_backend("metadata", str(manifest["backend"]))
    context = BackendContext(directory=directory / STORE, now=utc_now)
    with spec.open(spec.settings(), context) as store:
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
