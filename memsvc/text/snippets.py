"""The part of a text that shows why it was found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from memsvc.text.analysis import UNSPACED, matching_spans

ELLIPSIS = "…"
_BORDER_REACH = 32
"""A word longer than this is cut inside rather than left out."""

_UNBREAKABLE = re.compile(rf"[^\W{UNSPACED}]")

_Hit = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A window of a text: *spans* are the matched ranges of *text*, lines are those of the source, 1-based."""

    text: str
    spans: tuple[tuple[int, int], ...]
    start_line: int
    end_line: int


def snippet(text: str, query_terms: Collection[str], *, width: int = 240) -> Snippet:
    """Return the window of at most *width* characters that holds the most distinct terms; the earliest of equals.

    *query_terms* are analysed terms: "go" marks "went". Text no longer than *width* is returned whole; a longer one is
    cut between words and an ellipsis, counted in the width, marks omitted text. Without a match the window
    is the beginning. Spans are sorted and do not touch.
    """
    hits = matching_spans(text, frozenset(query_terms)) if query_terms else []
    if len(text) <= width:
        return Snippet(text, _merge_ranges(hits, 0, len(text), 0), 1, _line(text, len(text) - 1))
    start, end = _window(text, hits, max(width - 2 * len(ELLIPSIS), 1))
    head = ELLIPSIS if start > 0 else ""
    tail = ELLIPSIS if end < len(text) else ""
    shown = f"{head}{text[start:end]}{tail}"
    return Snippet(shown, _merge_ranges(hits, start, end, len(head)), _line(text, start), _line(text, end - 1))


def _window(text: str, hits: list[_Hit], width: int) -> tuple[int, int]:
    first, last = _densest(hits, width)
    spare = max(width - (last - first), 0)
    start = min(max(first - spare // 2, 0), len(text) - width)
    end = start + width
    start = _border_after(text, start, min(first, start + _BORDER_REACH) if hits else start)
    end = _border_before(text, end, max(min(last, end), end - _BORDER_REACH))
    while start < end - 1 and text[start].isspace():
        start += 1
    while end > start + 1 and text[end - 1].isspace():
        end -= 1
    return start, end


def _densest(hits: list[_Hit], width: int) -> tuple[int, int]:
    """Return the extent of the hits of the best window, in one pass; (0, 0) without hits."""
    best, extent = 0, (0, 0)
    inside: Counter[str] = Counter()
    left = 0
    for term, _, end in hits:
        inside[term] += 1
        while end - hits[left][1] > width and hits[left][2] != end:
            inside[hits[left][0]] -= 1
            if not inside[hits[left][0]]:
                del inside[hits[left][0]]
            left += 1
        if len(inside) > best:
            best, extent = len(inside), (hits[left][1], end)
    return extent


def _border_after(text: str, start: int, limit: int) -> int:
    for place in range(start, limit + 1):
        if _is_border(text, place):
            return place
    return start


def _border_before(text: str, end: int, limit: int) -> int:
    for place in range(end, limit - 1, -1):
        if _is_border(text, place):
            return place
    return end


def _is_border(text: str, place: int) -> bool:
    if place <= 0 or place >= len(text):
        return True
    return not (_UNBREAKABLE.match(text[place - 1]) and _UNBREAKABLE.match(text[place]))


def _merge_ranges(hits: list[_Hit], start: int, end: int, shift: int) -> tuple[tuple[int, int], ...]:
    """Return the hits inside [start, end) as merged ranges of the shown text."""
    moved = shift - start
    merged: list[tuple[int, int]] = []
    for hit_start, hit_end in sorted((hit[1], hit[2]) for hit in hits if hit[1] < end and hit[2] > start):
        shown_start, shown_end = max(hit_start, start) + moved, min(hit_end, end) + moved
        if merged and shown_start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], shown_end))
        else:
            merged.append((shown_start, shown_end))
    return tuple(merged)


def _line(text: str, place: int) -> int:
    return 1 + text.count("\n", 0, max(place, 0))
