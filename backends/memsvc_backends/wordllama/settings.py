"""The options of the wordllama embedder."""

from __future__ import annotations

from memsvc.ports.plugin import BackendSettings


class WordllamaSettings(BackendSettings):
    """No options: the package has one table, of 256 dimensions."""
