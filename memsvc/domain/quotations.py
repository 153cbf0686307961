"""What of a text is quoted, so that whoever says it only repeats it."""

from __future__ import annotations

import re

_LINE_END = r"(?:\n(?![ \t]*\n))"
"""A line's end within a paragraph: no quotation goes on after a blank line."""
_TRIPLE = r"\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}"
_PAIRS = "|".join(
    rf"{opening}[^{opening}{closing}\n]*(?:{_LINE_END}[^{opening}{closing}\n]*)*{closing}"
    for opening, closing in (("“", "”"), ("「", "」"), ("『", "』"), ("«", "»"), ("‘", "’"))
)
# An inch mark, as in 5", opens none; an apostrophe stands within a word.
_STRAIGHT = rf"(?<![0-9A-Za-z])\"[^\"\n]*(?:{_LINE_END}[^\"\n]*)*\"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
QUOTATION = re.compile(rf"{_TRIPLE}|{_PAIRS}|{_STRAIGHT}")
"""What stands between marks of quotation, with them. It takes time linear in the text."""

_UNCLOSED = re.compile(r"(?:[“「『«]|(?<![0-9A-Za-z])\")(?=\S)[^“”「」『』«»\"]*$")
"""A quotation that goes on in the next sentence."""
_CLAUSE = re.compile(r"\S\s+\S+\s+\S|[\u3400-\u9fff]{3}")
"""Three words, or three Han characters: fewer are a name."""


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Return where the quotations of *text* begin and end, in order."""
    return [match.span() for match in QUOTATION.finditer(text)]


def without_quotations(text: str) -> str:
    """Return *text* with "…" in the place of every quotation that is more than a name."""
    for pattern in (QUOTATION, _UNCLOSED):
        text = pattern.sub(lambda match: "“…”" if _CLAUSE.search(match[0]) else match[0], text)
    return text
