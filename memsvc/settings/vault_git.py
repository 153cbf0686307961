"""Settings of how the vault is committed to Git."""

from __future__ import annotations

from pydantic import Field

from memsvc.settings.part import Part

_NAME = r"^[^<>\x00-\x1f]+$"


class GitSettings(Part):
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
