"""Keys: for a running service, and for commands while none runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta

from memsvc.bootstrap.backends import Backends, opened_store, utc_now
from memsvc.data_directory import owned
from memsvc.engine.admin.api_keys import Access, ApiKeyAuthenticator, Keys
from memsvc.engine.admin.store_migration import Migration
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.settings import Settings


def access_of(settings: Settings, backends: Backends, committer: GroupCommitter) -> Access:
    """Return what makes the keys of a running service, and what knows them again."""
    access, reads = settings.access, backends.metadata.api_keys
    refresh = timedelta(seconds=access.refresh_seconds)
    keyring = ApiKeyAuthenticator(reads, demand=access.keys, refresh=refresh, now=backends.now)
    made = Keys(reads, committer, now=backends.now, random=secrets.token_bytes, changed=keyring.forget)
    return Access(made, keyring)


@contextmanager
def offline_keys(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[Keys]:
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
            yield Keys(store.api_keys, committer, now=now, random=secrets.token_bytes)


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


# What moves the store: for a running service, and for a command while none runs.


@contextmanager
def offline_migration(settings: Settings, *, now: Callable[[], datetime] = utc_now) -> Iterator[Migration]:
    """Open the store alone, wherever its data are, and yield what moves it.

    Raises:
        DataDirectoryLockedError: A service has the data directory open: ask it.
        PluginError: The store cannot be chosen.
        StartError: Its options are wrong.
        BackendUnavailableError: It cannot be opened.
    """
    with owned(settings.data_dir, visits=True) as directory, opened_store(settings, directory.path, now) as store:
        yield Migration(store, lambda: None)
