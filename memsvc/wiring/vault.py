"""What keeps memories as files."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from memsvc.data_directory import owned
from memsvc.engine.vault.folder import OWN, VaultFolder
from memsvc.engine.vault.merging import KeepBoth
from memsvc.engine.vault.taking import Desk
from memsvc.engine.vault.vault import Vault, assembled
from memsvc.settings import Settings
from memsvc.wiring.backends import Backends
from memsvc.wiring.writing import Writing


def vault(settings: Settings, backends: Backends, writes: Writing, stack: ExitStack) -> Vault | None:
    """Make the vault, bring it up to date in a thread, and have it follow; *stack* stops that. None: there is none.

    Raises:
        DataDirectoryLockedError: Another service keeps the vault.
        OSError: The folder cannot be made or written to.
    """
    if settings.vault.directory is None:
        return None
    folder = VaultFolder(settings.vault.directory.absolute())
    stack.enter_context(owned(folder.root / OWN))
    folder.prepare()
    store = backends.metadata
    desk = Desk(folder, store.vault, store.memories, writes.remember, writes.revise, threading.RLock())
    made = assembled(desk, store.feed, KeepBoth())
    writes.committer.on_commit(made.nudge)
    made.start()
    stack.callback(made.stop)
    return made
