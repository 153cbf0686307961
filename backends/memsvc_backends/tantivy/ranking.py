"""The best hits in an order that does not depend on how the index happens to be cut into segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tantivy import Query, Searcher

from memsvc.ports.candidates import Hits
from memsvc_backends.tantivy.schema import ENTRY

_HALF = np.uint32(1 << 3)
_KEPT_BITS = np.uint32(0xFFFF_FFF0)
"""Six digits of a score."""
_MARGIN = 16
_GROWTH = 4
_MOST = 16_384
"""Of more entries than this with the same score at the limit, those are returned that Tantivy meets first."""


def best_hits(searcher: Searcher, query: Query, *, limit: int) -> Hits:
    """Return the best *limit* entries, equal scores by entry id."""
    # Tantivy allocates for as many hits as are asked for (and aborts the process), and panics at none.
    total = searcher.num_docs
    if min(limit, total) < 1:
        return Hits.of(())
    wanted = min(limit + _MARGIN, total)
    found = searcher.search(query, wanted, count=False).hits
    while (
        len(found) == wanted and wanted < min(total, max(_MOST, limit)) and _is_tied(found[limit - 1][0], found[-1][0])
    ):
        wanted = min(wanted * _GROWTH, total)
        found = searcher.search(query, wanted, count=False).hits
    entries = np.array(searcher.fast_field_values(ENTRY, [address for _, address in found]), np.int64)
    scores = _rounded([score for score, _ in found])
    order = np.lexsort((entries, -scores))[:limit]
    return Hits(entries[order], scores[order].astype(np.float64))


def _is_tied(one: float, other: float) -> bool:
    first, second = _rounded([one, other])
    return bool(first == second)


def _rounded(scores: Sequence[float]) -> npt.NDArray[np.float32]:
    # The sum of several terms differs in the last bits with the order of addition, which differs by segment.
    bits = np.array(scores, np.float32).view(np.uint32)
    return ((bits + _HALF) & _KEPT_BITS).view(np.float32)
