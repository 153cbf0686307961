"""Whether the indexes of a data directory have followed the present store all along, and what is owed where not.

Which changes are applied is noted in the store. When the store was elsewhere for a while, or other indexes or another
model were in use, the ones in the directory lack what was applied meanwhile, and the store would not tell them. After
an unclean stop nobody can tell. So they are compared with the store; that is owed until it was done once, however often
the service is stopped before.
"""

from __future__ import annotations

import json
from pathlib import Path

from memsvc.data_directory import DataDirectory
from memsvc.engine.admin.backup import write_synced
from memsvc.ports.metadata import MetadataStore
from memsvc.settings import Settings

FOLLOWED = "indexed-store.json"
OWED = "indexes-to-compare"


class Comparison:
    """The comparison of the indexes with the store, which may be owed."""

    def __init__(self, directory: Path) -> None:
        """Keep in *directory* whether it is."""
        self._mark = directory / OWED

    @property
    def is_owed(self) -> bool:
        """Return whether it has yet to be done."""
        return self._mark.exists()

    def owe(self) -> None:
        """Have it done, by a later process if not by this one."""
        write_synced(self._mark, "")

    def settle(self) -> None:
        """Note that it was done."""
        self._mark.unlink(missing_ok=True)


def comparison(settings: Settings, directory: DataDirectory, store: MetadataStore, model: str) -> Comparison:
    """Return the comparison; it is owed when the last stop was unclean or the last start with something else.

    Of a directory without a record nothing more is known: it may be new.
    """
    found = Comparison(directory.path)
    present = {
        "store": store.changes.identity,
        "arrival": store.moves.arrival,
        "shared": store.is_shared,
        "vectors": settings.vectors.backend,
        "lexical": settings.lexical.backend,
        "model": model,
    }
    path = directory.path / FOLLOWED
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        before = None
    if not directory.was_closed_cleanly or before not in (None, present):
        found.owe()
    if before != present:
        write_synced(path, json.dumps(present))
    return found
