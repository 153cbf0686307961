"""The best hits in an order that does not depend on how the index happens to be cut into segments."""

from __future__ import annotations

from tantivy import Query, Searcher

from backends.tantivy.schema import ENTRY
from memsvc.domain.entries import Hit, hits_of

_MARGIN = 16
_GROWTH = 4
_MOST = 16_384
"""Of more entries than this with the same score at the limit, those are returned that Tantivy meets first."""


def best_hits(searcher: Searcher, query: Query, *, limit: int) -> list[Hit]:
    """Return the best *limit* entries, equal scores by entry id."""
    # Tantivy allocates for as many hits as are asked for (and aborts the process), and panics at none.
    total = searcher.num_docs
    if min(limit, total) < 1:
        return []
    wanted = min(limit + _MARGIN, total)
    found = searcher.search(query, wanted, count=False).hits
    while (
        len(found) == wanted and wanted < min(total, max(_MOST, limit)) and _is_tied(found[limit - 1][0], found[-1][0])
    ):
        wanted = min(wanted * _GROWTH, total)
        found = searcher.search(query, wanted, count=False).hits
    entries = searcher.fast_field_values(ENTRY, [address for _, address in found])
    ordered = sorted([(-_rounded(score), entry) for entry, (score, _) in zip(entries, found, strict=True)])
    return hits_of([int(entry or 0) for _, entry in ordered[:limit]], [-score for score, _ in ordered[:limit]])


def _is_tied(one: float, other: float) -> bool:
    return _rounded(one) == _rounded(other)


def _rounded(score: float) -> float:
    # The sum of several terms differs in the last bits with the order of addition, which differs by segment.
    return float(f"{score:.6g}")
