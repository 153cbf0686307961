"""What keeps memories as files."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.diagnostics import Diagnostics
from memsvc.bootstrap.memories import MemoryServices
from memsvc.bootstrap.vault_watching import attending
from memsvc.data_directory import owned
from memsvc.engine.vault.filesystem import OWN, VaultFilesystem
from memsvc.engine.vault.note_import import ThreeWay, VaultContext
from memsvc.engine.vault.vault import Vault, assembled
from memsvc.settings import Settings


def vault(
    settings: Settings, backends: Backends, writes: MemoryServices, looks: Diagnostics, stack: ExitStack
) -> Vault | None:
    """Make the vault, bring it up to date in a thread, and have it follow; *stack* stops that. None: there is none.

    Its files are watched; *looks* tell what about them deserves attention.

    Raises:
        DataDirectoryLockedError: Another service keeps the vault.
        OSError: The folder cannot be made or written to.
    """
    if settings.vault.directory is None:
        return None
    root, store = settings.vault.directory.absolute(), backends.metadata
    attends = attending(settings.vault, root, store.vault, backends.now, stack)
    folder = VaultFilesystem(root, attends.note_own)
    stack.enter_context(owned(folder.root / OWN))
    folder.prepare()
    desk = VaultContext(folder, store.vault, store.memories, writes.remember, writes.revise, threading.RLock())
    made = assembled(desk, store.feed, ThreeWay(), attends.note_taken)
    writes.committer.on_commit(made.nudge)
    looks.statistics.also_tell(attends.notices_of)
    looks.diagnose.also_tell(attends.notices)
    attends.start(made.take)
    made.start()
    stack.callback(made.stop)
    stack.callback(attends.stop)
    return made
