"""Wiring of the vault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.memories import WriteParts
from memsvc.data_directory import owned
from memsvc.domain.vault_layout import path_key
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.services import DiagnosticServices, MemoryServices
from memsvc.engine.vault.filesystem import SERVICE_FOLDER, VaultFilesystem
from memsvc.engine.vault.git import CommitFormat, CommitSignature, GitCommits
from memsvc.engine.vault.note_import import ThreeWayMerge, VaultContext
from memsvc.engine.vault.vault import Vault, VaultMonitor, create_vault
from memsvc.engine.vault.watcher import WatchConfig
from memsvc.ports.features import VaultManifest
from memsvc.settings.groups import VaultWatchingSettings

PAGE = 1_000


def build_vault(
    assembly: Assembly, parts: WriteParts, memories: MemoryServices, diagnostics: DiagnosticServices
) -> Vault | None:
    """Build the vault, synchronise it in a thread, and watch its files; None if no directory is configured.

    Raises:
        DataDirectoryLockedError: Another service uses the vault.
        OSError: The folder cannot be created or written to.
    """
    settings, stack = assembly.settings.vault, assembly.stack
    if settings.directory is None:
        return None
    root, store = settings.directory.absolute(), assembly.backends.metadata
    monitor = _vault_monitor(settings, root, store.vault, assembly)
    folder = VaultFilesystem(root, monitor.note_own)
    stack.enter_context(owned(folder.root / SERVICE_FOLDER))
    folder.prepare()
    context = VaultContext(
        folder,
        store.vault,
        store.memories,
        memories.memory_creator,
        memories.memory_updater,
        assembly.search_priority,
        threading.RLock(),
        settings.format,
    )
    vault = create_vault(context, store.feed, ThreeWayMerge(), monitor.note_taken)
    parts.committer.on_commit(vault.nudge)
    diagnostics.statistics.add_notice_source(monitor.notices_of)
    diagnostics.diagnosis.add_notice_source(monitor.notices)
    monitor.start(vault.take)
    vault.start()
    stack.callback(vault.stop)
    stack.callback(monitor.stop)
    return vault


def _vault_monitor(
    settings: VaultWatchingSettings, root: Path, manifest: VaultManifest, assembly: Assembly
) -> VaultMonitor:
    """Build the monitor, and start the thread that commits; it commits once more when it stops."""
    config = WatchConfig(settings.watch, settings.debounce_seconds, settings.poll_seconds, settings.sweep_seconds)
    git: GitCommits | None = None
    if settings.git.enabled:
        form = CommitFormat(CommitSignature(settings.git.author_name, settings.git.author_email), settings.git.message)
        git = GitCommits(root, form, assembly.backends.now)
        task = PeriodicTask("vault-git", settings.git.batch_seconds, _commit_task(git, manifest))
        assembly.stack.callback(task.stop)
    return VaultMonitor(root, config, git)


def _commit_task(git: GitCommits, manifest: VaultManifest) -> Callable[[], None]:
    """Return a function that commits; its first call also commits files that an earlier process did not."""
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
