"""Counting tokens, each line once: a context that is built again is made of nearly the same lines."""

from __future__ import annotations

from functools import lru_cache

from memsvc.ports.models import Tokenizer

KEPT_COUNTS = 8_192
KEPT_CHARS = 1_000
"""Longer texts are counted anew each time; so what is kept stays small."""


class CachedTokenCounter:
    """`memsvc.ports.models.Tokenizer` that remembers the counts of short texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count by *tokenizer*."""
        self.name, self.adds_up = tokenizer.name, tokenizer.adds_up
        self._tokenizer = tokenizer
        self._kept = lru_cache(maxsize=KEPT_COUNTS)(tokenizer.count)

    def count(self, text: str) -> int:
        """Count the tokens of *text*."""
        return self._kept(text) if len(text) <= KEPT_CHARS else self._tokenizer.count(text)

    def clear(self) -> None:
        """Forget every text."""
        self._kept.cache_clear()

    def ping(self) -> None:
        """Return when the tokenizer answers."""
        self._tokenizer.ping()
