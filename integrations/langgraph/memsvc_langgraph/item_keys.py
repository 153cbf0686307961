"""Keys of memories for items: the labels of the namespace and the key, escaped and joined by slashes.

The last segment is the key of the item, so no two items have the same memory key, and a prefix of whole labels is a
prefix of memory keys that ends with a slash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from urllib.parse import unquote

ROOT = "langgraph/"
MOST_CHARS = 256
"""The maximum length of a memory's key."""
_HASH = "%h"
"""The beginning of a hashed segment: no escaped label contains it, because "h" is no hexadecimal digit."""
_HASHED_CHARS = len(_HASH) + hashlib.sha256().digest_size * 2
_MOST_PREFIX_CHARS = MOST_CHARS - _HASHED_CHARS


def memory_key(namespace: Sequence[str], key: str) -> str:
    """Return the key of the memory that holds an item; keys that are too long end with a SHA-256 digest."""
    full = ROOT + "/".join(escape(part) for part in (*namespace, key))
    if len(full) <= MOST_CHARS:
        return full
    name = json.dumps([list(namespace), key]).encode()
    return key_prefix(namespace) + _HASH + hashlib.sha256(name).hexdigest()


def key_prefix(namespace: Sequence[str]) -> str:
    """Return the longest common beginning of the keys of all items in a namespace and below it.

    For a very long namespace it covers leading labels only, so the keys of other namespaces may begin with it, too.
    """
    prefix = ROOT
    for label in namespace:
        longer = f"{prefix}{escape(label)}/"
        if len(longer) > _MOST_PREFIX_CHARS:
            break
        prefix = longer
    return prefix


def namespace_of(memory_key: str) -> tuple[str, ...] | None:
    """Return the namespace of an item, or None if its key is hashed: its metadata has the namespace."""
    *labels, last = memory_key.removeprefix(ROOT).split("/")
    if last.startswith(_HASH):
        return None
    return tuple(unquote(label, errors="surrogatepass") for label in labels)


def escape(part: str) -> str:
    """Return a label or key with slashes, percent signs and characters without a shape as %XX."""
    if part.isprintable() and "%" not in part and "/" not in part:
        return part
    return "".join(
        char
        if char.isprintable() and char not in "%/"
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in part
    )
