"""What a piece of a memory is embedded as, and the terms it is found by.

Both carry what a reader of the conversation would know beside the words: who said it, when, under which headings;
the terms also the line before. Measured on chats: without the speaker in the embedded text recall falls to half.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memsvc.domain.text_cache import remembered
from memsvc.text.analysis import is_han, terms
from memsvc.text.date_mentions import date_terms

ANALYSIS_VERSION = "1"
"""Changes whenever the terms or passages of the same memory do: an index of another version is built anew."""

OWN_WEIGHT = 3
PREVIOUS_WEIGHT = 2
DATE_WEIGHT = 1
LONG_TERMS = 200
"""Text of more terms is written once: BM25 divides by the length, so three times as often scores nearly the same."""
PREVIOUS_CHARS = 1000
"""As much of the line before is taken: its subject, not all of a long answer."""


def passage(*, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None) -> str:
    """Return the text to embed: "[8 May 2023] Title > Heading", a line break, "Anna: text"; what is empty is left out.

    The date is written as in the text's own script: "[2023年5月8日]" before Han text.
    """
    date = f"[{date_terms(moment, han=is_han(text))}] " if moment else ""
    headings = _headings(title, heading_path, text)
    return f"{date}{' > '.join(headings)}\n{_line(speaker, text)}" if headings else f"{date}{_line(speaker, text)}"


def lexical_terms(
    *, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None, previous: str
) -> list[str]:
    """Return the terms to index, each part repeated by its weight: own words 3, the line before 2, the date 1.

    Repetition inside one field is what weighs parts against each other without separate length norms. In text of
    more than `LONG_TERMS` terms every part is written once.
    """
    own = _terms(" \n".join((*_headings(title, heading_path, text), _line(speaker, text))))
    date = _terms(date_terms(moment, han=is_han(text))) if moment else ()
    before = _terms(previous) if previous else ()
    if len(own) > LONG_TERMS:
        return [*before, *date, *own]
    return [*before * PREVIOUS_WEIGHT, *date * DATE_WEIGHT, *own * OWN_WEIGHT]


def previous_line(speaker: str, text: str) -> str:
    """Return what a memory passes on to the next one of its session as the line before: "Anna: text", not too long."""
    return _line(speaker, text[:PREVIOUS_CHARS])


def _terms(text: str) -> tuple[str, ...]:
    return _remembered_terms(text) if len(text) <= PREVIOUS_CHARS else tuple(terms(text))


@remembered(256)
def _remembered_terms(text: str) -> tuple[str, ...]:
    """Analyse a line once, though the next line of its session needs it too; days recur even more."""
    return tuple(terms(text))


def _line(speaker: str, text: str) -> str:
    """Put the speaker before the text, unless the text begins with the speaker's name itself."""
    return f"{speaker}: {text}" if speaker and not text.startswith(speaker) else text


def _headings(title: str, heading_path: Sequence[str], text: str) -> list[str]:
    """Return title and headings, each once, without those that the text begins with."""
    if not title and not heading_path:
        return []
    start = text.lstrip("# ")
    return [heading for heading in dict.fromkeys((title, *heading_path)) if heading and not start.startswith(heading)]
