"""What attends to the vault's files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from memsvc.domain.vault_layout import path_key
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.vault.git import CommitForm, GitCommits, Signature
from memsvc.engine.vault.vault import VaultMonitor
from memsvc.engine.vault.watcher import WatchConfig
from memsvc.ports.features import VaultManifest
from memsvc.settings.vault import VaultWatchingSettings

PAGE = 1_000


def attending(
    settings: VaultWatchingSettings, root: Path, book: VaultManifest, now: Callable[[], datetime], stack: ExitStack
) -> VaultMonitor:
    """Make it, and the thread that commits; *stack* stops that, after a last commit. The watcher is not yet started."""
    manner = WatchConfig(settings.watch, settings.debounce_seconds, settings.poll_seconds, settings.sweep_seconds)
    git: GitCommits | None = None
    if settings.git.enabled:
        form = CommitForm(Signature(settings.git.author_name, settings.git.author_email), settings.git.message)
        git = GitCommits(root, form, now)
        stack.callback(PeriodicTask("vault-git", settings.git.batch_seconds, _committing(git, book)).stop)
    return VaultMonitor(root, manner, git)


def _committing(git: GitCommits, book: VaultManifest) -> Callable[[], None]:
    """Return what commits; the first time also what an earlier run of the process had no time for."""
    is_first = True

    def commit() -> None:
        nonlocal is_first
        after = ""
        while is_first and (page := book.page(owner=None, after=after, limit=PAGE)):
            git.note(entry.path for entry in page)
            after = path_key(page[-1].path)
        is_first = False
        git.commit()

    return commit
