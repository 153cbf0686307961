"""Whether the indexes of a data directory have followed the present store all along.

Which changes are applied is noted in the store. When the store was elsewhere for a while, or other indexes were in use,
the ones in the directory lack what was applied meanwhile, and the store would not tell them: so they are compared.
"""

from __future__ import annotations

import json
from pathlib import Path

from memsvc.engine.lifecycle.backup import write_synced
from memsvc.ports.metadata import MetadataStore
from memsvc.settings import Settings

FILE = "indexed-store.json"


def has_followed(settings: Settings, directory: Path, store: MetadataStore) -> bool:
    """Return whether the last start in *directory* was with the same store and indexes; from now on it was.

    True also when nothing is known, as in a new directory.
    """
    present = {
        "store": store.changes.identity,
        "arrival": store.moves.arrival,
        "shared": store.is_shared,
        "vectors": settings.vectors.backend,
        "lexical": settings.lexical.backend,
    }
    path = directory / FILE
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        before = None
    if before != present:
        write_synced(path, json.dumps(present))
    return before is None or before == present
