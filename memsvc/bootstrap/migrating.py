"""What moves the store: for a running service, and for a command while none runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from memsvc.bootstrap.backends import opened_store, utc_now
from memsvc.data_directory import owned
from memsvc.engine.admin.store_migration import Migration
from memsvc.settings import Settings


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
