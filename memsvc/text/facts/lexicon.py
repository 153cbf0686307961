"""Lists of words, written as a text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of *text*, in order."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases that commas part in *text*, in order."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))
