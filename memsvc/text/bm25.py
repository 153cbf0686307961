"""BM25 (Robertson and Zaragoza, 2009), and terms that are one edit apart.

An entry's score is the sum, over the terms of a query, of `rarity` times `saturation`.
"""

from __future__ import annotations

import math

K1 = 1.2
B = 0.75


def rarity(entries: int, holders: int) -> float:
    """Return the weight of a term that *holders* of all *entries* hold."""
    return math.log(1 + (entries - holders + 0.5) / (holders + 0.5))


def length_norm(length: int, average: float) -> float:
    """Return what thins out the terms of an entry of *length* terms, where entries have *average* of them."""
    return K1 * (1 - B + B * length / average)


def saturation(count: int, norm: float) -> float:
    """Return the share of a term that an entry of this `length_norm` holds *count* times."""
    return count * (K1 + 1) / (count + norm)


def is_one_edit(one: str, other: str) -> bool:
    """Return whether inserting, removing or replacing a character, or swapping two neighbours, makes them equal."""
    if len(one) > len(other):
        one, other = other, one
    start = 0
    while start < len(one) and one[start] == other[start]:
        start += 1
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    swapped = one[:start] + one[start + 1 : start + 2] + one[start : start + 1] + one[start + 2 :]
    return one[start + 1 :] == other[start + 1 :] or swapped == other
