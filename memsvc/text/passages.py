"""What of a memory is embedded, and which terms it is found by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memsvc.text.analysis import terms
from memsvc.text.dates import date_terms, is_han

ANALYSIS_VERSION = "1"
"""Changes whenever the same text would be indexed by other terms: lexical indexes are then built anew."""

PREVIOUS_WEIGHT = 2
DATE_WEIGHT = 1
OWN_WEIGHT = 3


def passage(*, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None) -> str:
    """Return the text that is embedded for a chunk: date, speaker, title and headings, then the text itself."""
    han = is_han(text)
    date = f"[{date_terms(moment, han=han)}] " if moment is not None else ""
    who = f"{speaker}: " if speaker and not han else ""
    head = " > ".join(part for part in (title, *heading_path) if part)
    return f"{date}{head}\n{who}{text}" if head else f"{date}{who}{text}"


def previous_line(speaker: str, text: str) -> str:
    """Return a message as the line before the next one."""
    return f"{speaker}: {text}" if speaker else text


def lexical_terms(
    *, text: str, speaker: str, title: str, heading_path: Sequence[str], moment: datetime | None, previous: str
) -> list[str]:
    """Return the terms of a chunk; repetition within the one field is weight (BM25F): previous 2, date 1, own 3."""
    head = " ".join((title, *heading_path))
    own = terms(f"{head} {previous_line(speaker, text)}" if head.strip() else previous_line(speaker, text))
    date = terms(date_terms(moment, han=is_han(text))) if moment is not None else []
    before = terms(previous) if previous else []
    return [*before * PREVIOUS_WEIGHT, *date * DATE_WEIGHT, *own * OWN_WEIGHT]
