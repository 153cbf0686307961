"""Strings as PostgreSQL can hold them, and their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_ESCAPE = "\x01"
_NUL = "\x00"


def held(text: str) -> str:
    """Return *text* without NUL, which PostgreSQL refuses; different texts stay different."""
    if _NUL not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}2").replace(_NUL, f"{_ESCAPE}1")


def all_held(texts: Sequence[str]) -> list[str]:
    """Return each of *texts* as `held` does."""
    return [held(text) for text in texts]


def key_of(text: str) -> int:
    """Return a key of 64 bits. It finds; where it matters whose something is, the text is compared as well."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)
