"""The options of the wordllama embedder."""

from __future__ import annotations

from memsvc.ports.plugin import BackendSettings


class WordllamaSettings(BackendSettings):
    """There is nothing to choose: the package holds one table, of 256 dimensions."""
