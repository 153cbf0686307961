"""Comparison of titles with texts."""

from __future__ import annotations

import re

_BEFORE_TEXT = " …-*#>"
_AFTER_TITLE = " .,;:!?…。，；：！？、"
_SENTENCE_CHARS, _SENTENCE_HAN = 20, 8
"""The least length of a title that is looked for within a text, in ASCII and in other characters."""
_CUT = ("…", "...")
_LETTER = r"[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
"""A letter or digit of a script with spaces between words."""


def repeats_title(title: str, text: str) -> bool:
    """Return whether a title is empty or repeats the beginning of a text, or if it is a sentence, another part of it.

    Case, the amount of white space, marks of lists and headings, and punctuation at the end of the title do not count.
    Only a title that ends in "…" may end within a word.
    """
    plain, said = (" ".join(part.split()).casefold() for part in (title, text))
    bare = plain.rstrip(_AFTER_TITLE)
    if not bare:
        return not plain
    is_within_word = plain.endswith(_CUT) or not re.match(_LETTER, bare[-1])
    repeated = re.compile(re.escape(bare) + ("" if is_within_word else f"(?!{_LETTER})"))
    is_sentence = len(bare) >= (_SENTENCE_CHARS if bare.isascii() else _SENTENCE_HAN)
    return bool(repeated.search(said) if is_sentence else repeated.match(said.lstrip(_BEFORE_TEXT)))
