"""Terms as the dimensions of sparse vectors, weighed by BM25, and words that are one edit apart.

The part of BM25 (k1 = 1.2, b = 0.75) that an entry alone decides is stored as the value of the term's dimension:

    f (k1 + 1) / (f + k1 (1 - b + b length / average))

with f how often the entry holds the term (fields that weigh more repeat their terms), *length* the number of all its
terms, and *average* a number that is fixed when a generation is begun (see `sparse_index`). The
server multiplies by ln(1 + (N - n + 0.5) / (n + 0.5)), n of its N points having the dimension, at search time.

A dimension is a hash of 32 bits. Two words with the same one find each other's entries: of a million different words
about a hundred pairs have, which costs such a search some wrong hits far down, and loses none.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from qdrant_client import models

from memsvc.ports.indexes import FUZZY_MIN_LENGTH
from memsvc.text.bm25 import length_norm, saturation

FUZZY_MAX_LENGTH = 64
"""Longer terms are matched exactly alone."""


@lru_cache(maxsize=65_536)
def dimension_of(term: str) -> int:
    """Return the dimension of a term: the same in every process and for ever."""
    return int.from_bytes(hashlib.blake2b(_bytes(term), digest_size=4).digest(), "big")


def entry_vector(terms: Sequence[str], average: float) -> models.SparseVector:
    """Return the vector of an entry with these terms."""
    counts = Counter(map(dimension_of, terms))
    norm = length_norm(len(terms), average)
    values = [saturation(count, norm) for count in counts.values()]
    return models.SparseVector(indices=list(counts), values=values)


def query_vector(terms: Iterable[str], weights: Iterable[float]) -> models.SparseVector:
    """Return the vector of a search for these terms; a term that is named twice counts twice."""
    sums: Counter[int] = Counter()
    for term, weight in zip(terms, weights, strict=True):
        sums[dimension_of(term)] += weight  # type: ignore[assignment]  # A Counter of fractions is one too.
    return models.SparseVector(indices=list(sums), values=[float(value) for value in sums.values()])


def is_forgivable(term: str) -> bool:
    """Return whether a search may match the term one edit away."""
    return FUZZY_MIN_LENGTH <= len(term) <= FUZZY_MAX_LENGTH


def is_near_something(term: str) -> bool:
    """Return whether the term may be one edit away from one that is forgivable."""
    return FUZZY_MIN_LENGTH - 1 <= len(term) <= FUZZY_MAX_LENGTH + 1


def word_number(term: str) -> int:
    """Return the 63-bit number of a word."""
    return int.from_bytes(hashlib.blake2b(_bytes(term), digest_size=8).digest(), "big") >> 1


def near_keys(term: str) -> list[int]:
    """Return the numbers of the term and of all that are left of it when one character goes.

    Words that are one edit apart have one in common; some that have one in common are two apart.
    """
    shorter = {term[:place] + term[place + 1 :] for place in range(len(term))}
    return sorted({word_number(one) for one in (term, *shorter)})


def _bytes(term: str) -> bytes:
    return term.encode(errors="surrogatepass")
