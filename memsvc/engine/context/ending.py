"""The first and the last lines of a context: what encloses the data, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from memsvc.domain.context import ContextQuery, Held, LeftOut, Locale, Reason, Section, Summary
from memsvc.ports.models import Tokenizer
from memsvc.text.context_phrases import CLOSING, OPENING, left_out_line, removed_line
from memsvc.text.recalled_text import citation

NAMED_IDS = 100
"""So many of what was left out are named."""
REMOVED_MARKS = 20
RESERVED_TOKENS = 160
"""Kept free for the line that says what was left out, or a twentieth of a small budget."""
_PART = 20
_HELD = frozenset({Reason.UNCHANGED, Reason.UNCERTAIN})


class LedgerView(Protocol):
    """What the ending needs to know of a context."""

    holds: dict[str, Held]
    counts: dict[Section, list[int]]
    left_out: dict[tuple[Section, Reason], list[str]]
    texts: list[str]


def opening(locale: Locale, tokenizer: Tokenizer) -> tuple[str, int]:
    """Return the first lines and what they cost."""
    return OPENING[locale], tokenizer.count(OPENING[locale])


class ContextFooter:
    """Closes a context."""

    def __init__(self, query: ContextQuery, tokenizer: Tokenizer, earlier: Mapping[str, Held] | None) -> None:
        self._query = query
        self._count, self._adds_up = tokenizer.count, tokenizer.adds_up
        self._earlier = earlier
        self.least_tokens = tokenizer.count(CLOSING)
        self.reserved_tokens = min(RESERVED_TOKENS, query.total_tokens // _PART)

    def nothing(self, books: LedgerView, sections: Sequence[Section]) -> Summary:
        """Return the summary of a context that has no room for anything."""
        total = self._query.total_tokens
        return Summary("", 0, 0, total, dict.fromkeys(sections, (0, 0)), _left_out(books))

    def summary(self, books: LedgerView, sections: Sequence[Section]) -> Summary:
        """Return the summary: its text says as much of what was left out as there is room for."""
        left_out = _left_out(books)
        removed = () if self._earlier is None else tuple(one for one in self._earlier if one not in books.holds)
        before = "" if self._adds_up else "".join(books.texts)
        spent = sum(map(self._count, books.texts)) if self._adds_up else 0
        for text in (*self._texts(left_out, removed), ""):
            whole = spent + self._count(before + text)
            if whole <= self._query.total_tokens:
                break
        return Summary(
            text=text,
            text_token_count=self._count(text),
            token_count=whole,
            total_tokens=self._query.total_tokens,
            sections={section: _pair(books.counts.get(section)) for section in sections},
            left_out=left_out,
            removed_ids=removed,
        )

    def _texts(self, left_out: Sequence[LeftOut], removed: Sequence[str]) -> Iterator[str]:
        locale = self._query.locale
        told = left_out_line([one for one in left_out if one.reason is not Reason.UNCHANGED], locale)
        marks = removed_line([citation(one) for one in removed[:REMOVED_MARKS]], locale)
        yield told + marks + CLOSING
        if told and marks:
            yield marks + CLOSING
        total = sum(one.count for one in left_out if one.reason is not Reason.UNCHANGED)
        if total:
            yield f"{'Left out' if locale is Locale.EN else '未列出'}: {total}\n{CLOSING}"
        yield CLOSING


def _left_out(books: LedgerView) -> tuple[LeftOut, ...]:
    """Return what was left out by section and reason; what another section shows all the same is not missing."""
    found = []
    order = list(Section)
    for (section, reason), ids in sorted(
        books.left_out.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1])
    ):
        missing = ids if reason in _HELD else [one for one in dict.fromkeys(ids) if one not in books.holds]
        if missing:
            found.append(LeftOut(section, reason, len(missing), tuple(missing[:NAMED_IDS])))
    return tuple(found)


def _pair(counts: Sequence[int] | None) -> tuple[int, int]:
    return (counts[0], counts[1]) if counts else (0, 0)
