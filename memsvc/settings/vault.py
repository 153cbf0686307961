"""Settings of how the vault is watched and committed to Git."""

from __future__ import annotations

from pydantic import Field

from memsvc.engine.vault.watcher import SWEEP_SECONDS, WatchMode
from memsvc.settings.part import SettingsGroup

_NAME = r"^[^<>\x00-\x1f]+$"


class GitSettings(SettingsGroup):
    """Commits of what happens to the vault's files, in the repository that the vault lies in, or in a new one."""

    enabled: bool = False
    """Whether to commit. Only the vault's own files are; what people have staged is left alone."""
    author_name: str = Field(default="memsvc", pattern=_NAME, max_length=128)
    """Who commits."""
    author_email: str = Field(default="memsvc@localhost", pattern=_NAME, max_length=128)
    """The address of who commits."""
    message: str = Field(default="memory: {summary}", min_length=1, max_length=256, pattern=r"^[^\n\r]+$")
    """The first line of a commit's message; {summary} stands for what happened, such as "2 added, 1 changed"."""
    batch_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """How often what happened since the last commit is committed, if anything did."""


class VaultWatchingSettings(SettingsGroup):
    """How edits of the vault's files are noticed, and what becomes of them in Git."""

    watch: WatchMode = WatchMode.EVENTS
    """How files that people edit are noticed. events: the system tells; where it does not, the vault is looked over
    again and again. polling: it is from the start. off: only SyncVault, and the next start, take edits."""
    debounce_seconds: float = Field(default=1.0, ge=0.05, le=60)
    """How long a file must be left alone before it is taken: an editor may take that long to save it."""
    poll_seconds: float = Field(default=2.0, ge=0.1, le=3_600)
    """How often the vault is looked over without events; less often when a look takes long."""
    sweep_seconds: float = Field(default=SWEEP_SECONDS, ge=1, le=86_400)
    """How often the vault is looked over with events, for what they did not tell."""
    git: GitSettings = GitSettings()
    """Commits."""
