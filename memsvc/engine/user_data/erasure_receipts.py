"""What is kept of erasures: notes while they run, so that a crash loses none, then receipts that name nobody."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.user_data import Erased, Receipt, covered, uncovered
from memsvc.engine.user_data.file_erasure import BLOBS, ORPHANS

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class ErasureJournal:
    """What an erasure found before it removed anything.

    Attributes:
        found: How much of what, by store.
        digests: Of all texts that were embedded.
        samples: Pieces of content to look for in files; *ids* likewise.
    """

    found: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    digests: frozenset[bytes] = frozenset()
    samples: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was found."""
        return not any(counts for counts in self.found.values())


@dataclass(frozen=True, slots=True)
class ExternalCopies:
    """What came of an erasure, or would, beside what it notes.

    Attributes:
        embeddings: How many are removed.
        orphans: How many blobs are removed that no file names.
        left: How many blobs are there still that nobody uses.
    """

    embeddings: int = 0
    orphans: int = 0
    left: int = 0


def with_beside(found: Mapping[str, Mapping[str, int]], beside: ExternalCopies) -> dict[str, dict[str, int]]:
    """Return what was found, by store, with what is removed beside it."""
    every = {name: dict(counts) for name, counts in found.items()}
    for store, name, count in (("metadata", "embeddings", beside.embeddings), (BLOBS, ORPHANS, beside.orphans)):
        if count:
            every[store] = {**every.get(store, {}), name: count}
    return every


def notes_text(notes: ErasureJournal) -> str:
    """Return notes as JSON."""
    digests = b64encode(b"".join(sorted(notes.digests))).decode()
    found = {name: dict(counts) for name, counts in notes.found.items()}
    samples, ids = (list(map(covered, texts)) for texts in (notes.samples, notes.ids))
    return json.dumps({"found": found, "digests": digests, "samples": samples, "ids": ids})


def notes_of(text: str) -> ErasureJournal:
    """Return the notes that `notes_text` wrote."""
    content = json.loads(text)
    raw = b64decode(content["digests"])
    digests = (raw[start : start + DIGEST_BYTES] for start in range(0, len(raw), DIGEST_BYTES))
    samples, ids = (tuple(map(uncovered, content[name])) for name in ("samples", "ids"))
    return ErasureJournal(content["found"], frozenset(digests), samples, ids)


def receipt_text(receipt: Receipt, place: int) -> str:
    """Return a receipt as JSON, with the *place* in the changes that the erasure had reached."""
    content = {
        "begin": to_micros(receipt.begin_time),
        "end": to_micros(receipt.end_time),
        "clean": receipt.is_clean,
        "stores": [(one.name, dict(one.removed), one.remaining) for one in receipt.stores],
        "backups": receipt.backups,
        "files": receipt.files_searched,
        "place": place,
    }
    return json.dumps(content)


def erased_place(text: str) -> int:
    """Return the place that was noted with a receipt; 0 when it is one without."""
    return int(json.loads(text).get("place", 0)) if text else 0


def receipt_of(text: str) -> Receipt:
    """Return the receipt that `receipt_text` wrote."""
    content: Any = json.loads(text)
    return Receipt(
        begin_time=from_micros(content["begin"]),
        end_time=from_micros(content["end"]),
        is_done=True,
        is_clean=content["clean"],
        stores=tuple(Erased(*one) for one in content["stores"]),
        backups=tuple(content["backups"]),
        files_searched=content["files"],
    )
