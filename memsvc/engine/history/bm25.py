"""BM25 over a handful of entries, where they are to be compared with each other and no index holds them all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from memsvc.domain.index_entries import Hit, LexicalEntry

K1 = 1.2
B = 0.75


def bm25(entries: Sequence[LexicalEntry], terms: Sequence[str]) -> list[Hit]:
    """Return the entries that hold one of *terms* or more, best first, equal scores by entry id."""
    wanted = dict.fromkeys(terms)
    counted = [(entry, Counter(term for term in entry.terms if term in wanted)) for entry in entries]
    average = sum(len(entry.terms) for entry in entries) / max(len(entries), 1) or 1.0
    holders = Counter(term for _, counts in counted for term in counts)
    rarities = {term: math.log(1 + (len(entries) - number + 0.5) / (number + 0.5)) for term, number in holders.items()}
    hits = []
    for entry, counts in counted:
        norm = K1 * (1 - B + B * len(entry.terms) / average)
        shares = (rarities[term] * count * (K1 + 1) / (count + norm) for term, count in counts.items())
        if counts:
            hits.append(Hit(entry.entry_id, math.fsum(shares)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))
