"""Wiring of the vault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.diagnostics import Diagnostics
from memsvc.bootstrap.memories import MemoryServices
from memsvc.data_directory import owned
from memsvc.domain.vault_layout import path_key
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.vault.filesystem import SERVICE_FOLDER, VaultFilesystem
from memsvc.engine.vault.git import CommitFormat, CommitSignature, GitCommits
from memsvc.engine.vault.note_import import ThreeWayMerge, VaultContext
from memsvc.engine.vault.vault import Vault, VaultMonitor, build_vault
from memsvc.engine.vault.watcher import WatchConfig
from memsvc.ports.features import VaultManifest
from memsvc.settings import Settings
from memsvc.settings.groups import VaultWatchingSettings


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
    stack.enter_context(owned(folder.root / SERVICE_FOLDER))
    folder.prepare()
    context = VaultContext(
        folder, store.vault, store.memories, writes.memory_creator, writes.memory_updater, threading.RLock()
    )
    made = build_vault(context, store.feed, ThreeWayMerge(), attends.note_taken)
    writes.committer.on_commit(made.nudge)
    looks.statistics.add_notice_source(attends.notices_of)
    looks.diagnosis.add_notice_source(attends.notices)
    attends.start(made.take)
    made.start()
    stack.callback(made.stop)
    stack.callback(attends.stop)
    return made


# Wiring of the vault's watcher and Git commits.


PAGE = 1_000


def attending(
    settings: VaultWatchingSettings, root: Path, manifest: VaultManifest, now: Callable[[], datetime], stack: ExitStack
) -> VaultMonitor:
    """Make it, and the thread that commits; *stack* stops that, after a last commit. The watcher is not yet started."""
    config = WatchConfig(settings.watch, settings.debounce_seconds, settings.poll_seconds, settings.sweep_seconds)
    git: GitCommits | None = None
    if settings.git.enabled:
        form = CommitFormat(CommitSignature(settings.git.author_name, settings.git.author_email), settings.git.message)
        git = GitCommits(root, form, now)
        stack.callback(PeriodicTask("vault-git", settings.git.batch_seconds, _committing(git, manifest)).stop)
    return VaultMonitor(root, config, git)


def _committing(git: GitCommits, manifest: VaultManifest) -> Callable[[], None]:
    """Return what commits; the first time also what an earlier run of the process had no time for."""
    is_first = True

    def commit() -> None:
        nonlocal is_first
        after = ""
        while is_first and (page := manifest.page(owner=None, after=after, limit=PAGE)):
            git.note(entry.path for entry in page)
            after = path_key(page[-1].path)
        is_first = False
        git.commit()

    return commit
