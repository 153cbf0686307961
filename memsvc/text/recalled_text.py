"""Detection of text that the service rendered or quoted: it is not captured again."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from memsvc.domain.field_rules import UUID
from memsvc.text.context_phrases import HEADINGS, MESSAGES, OPENING
from memsvc.text.sentences import sentences

_DATA = re.compile(r"^[ \t>]*<memory>[ \t]*\r?$.*?(?:^[ \t>]*</memory>|\Z)", re.DOTALL | re.MULTILINE)
_SLOT = re.compile(r"\\{(?:value|limit)\\}|\\{detail\\}")
_TODAY = re.compile(r"Today is (?:[A-Z][a-z]+, )?\d{4}-\d\d-\d\d\.|今天是 ?\d{4}-\d\d-\d\d(?: 周[一二三四五六日])?。")
_LEFT_OUT = re.compile(r"(?:Left out: |未列出：).*[)）][.。]?|(?:No longer part of the context: |不再属于上下文：).*")


def spans_of_rendered(text: str) -> list[tuple[int, int]]:
    """Return where the lines between the marks of remembered data begin and end, with the marks, in order."""
    return [match.span() for match in _DATA.finditer(text)] if "<memory>" in text else []


def is_rendered(sentence: str) -> bool:
    """Return whether a sentence is one of those that the service writes around memories, in either language."""
    is_known = normal_text(sentence) in _phrases()
    return is_known or any(form.fullmatch(sentence) for form in (_LEFT_OUT, _TODAY, _messages()))


@cache
def _phrases() -> frozenset[str]:
    openings = [sentence for opening in OPENING.values() for sentence in sentences(opening)]
    headings = [heading for named in HEADINGS.values() for heading in named.values()]
    return frozenset(normal for phrase in (*openings, *headings) if (normal := normal_text(phrase)))


@cache
def _messages() -> re.Pattern[str]:
    forms = [form for messages in MESSAGES.values() for form in messages.values()]
    patterns = [_SLOT.sub(lambda slot: ".*" if "detail" in slot[0] else "[0-9]+", re.escape(form)) for form in forms]
    return re.compile("|".join(patterns))


# Quotations: a text that only repeats a quotation is not captured.


_LINE_END = r"(?:\n(?![ \t]*\n))"
"""A line's end within a paragraph: no quotation goes on after a blank line."""
_TRIPLE = r"\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}"
_PAIRS = "|".join(
    rf"{opening}[^{opening}{closing}\n]*(?:{_LINE_END}[^{opening}{closing}\n]*)*{closing}"
    for opening, closing in (("“", "”"), ("「", "」"), ("『", "』"), ("«", "»"), ("‘", "’"))
)
# An inch mark, as in 5", opens none; an apostrophe is within a word.
_STRAIGHT = rf"(?<![0-9A-Za-z])\"[^\"\n]*(?:{_LINE_END}[^\"\n]*)*\"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
QUOTATION = re.compile(rf"{_TRIPLE}|{_PAIRS}|{_STRAIGHT}")
"""Quotations with their marks. Takes time linear in the text."""

_UNCLOSED = re.compile(r"(?:[“「『«]|(?<![0-9A-Za-z])\")(?=\S)[^“”「」『』«»\"]*$")
"""A quotation that goes on in the next sentence."""
_CLAUSE = re.compile(r"\S\s+\S+\s+\S|[\u3400-\u9fff]{3}")
"""Three words, or three Han characters: fewer are a name."""


def spans_of_quotes(text: str) -> list[tuple[int, int]]:
    """Return where the quotations of *text* begin and end, in order."""
    return [match.span() for match in QUOTATION.finditer(text)]


def without_quotations(text: str) -> str:
    """Return *text* with "…" in the place of every quotation that is more than a name."""
    for pattern in (QUOTATION, _UNCLOSED):
        text = pattern.sub(lambda match: "“…”" if _CLAUSE.search(match[0]) else match[0], text)
    return text


# Citations: how text that was recalled names the memory it comes from, so that it is not captured again.


_UUID = UUID.pattern
_HANDLE = r"m[1-9]\d{0,2}"
CITATION = re.compile(rf"\[(?:mem:\s?(?P<id>{_UUID})|(?P<handle>{_HANDLE}))\]")
"""A citation anywhere in a text; the group "id" is the memory's id, or the group "handle" its name in a context."""
HANDLE = re.compile(r"\[?(?P<handle>[m-z][1-9]\d{0,2})\]?")
"""A handle with or without its brackets."""

LEADING_CITATION = re.compile(rf"\s*(?:[-*+>]\s+|\d+[.)]\s+)?\[(?:mem:\s?{_UUID}|{_HANDLE})\]")
"""A citation at the beginning of a line, as every line of a rendered context has it."""

LEAST_SHARED_CHARS, LEAST_SHARED_HAN = 6, 4
"""A shorter text is found in many memories by chance; Han characters say more."""
_NOISE = re.compile(r"[\W_]+")


def citation(memory_id: str) -> str:
    """Return the citation of a memory: "[mem:0190163d-8694-739b-aea5-966c26f8ad91]"."""
    return f"[mem:{memory_id}]"


MOST_HANDLES = 14 * 999
"""m1 to m999, then n1 to n999, and so on to z999."""


def handle(number: int) -> str:
    """Return a short name of a memory within a context, for 1 to `MOST_HANDLES`: "m1".

    All have as many tokens: numbers of up to three digits are one.
    """
    block, place = divmod(number - 1, 999)
    return f"{chr(ord('m') + block)}{place + 1}"


def handle_number(name: str) -> int:
    """Return the number of which `handle` made *name*."""
    return (ord(name[0]) - ord("m")) * 999 + int(name[1:])


def ids_cited_in(text: str) -> list[str]:
    """Return the ids of the memories that *text* cites, in lower case, each once, in order."""
    return list(dict.fromkeys(match["id"].lower() for match in CITATION.finditer(text) if match["id"]))


def normal_text(text: str) -> str:
    """Return what is left of *text* when neither case nor width, white space nor signs count, nor citations."""
    bare = CITATION.sub(" ", text)
    return _NOISE.sub("", unicodedata.normalize("NFKC", bare).casefold())


def is_part_of(normal: str, whole: str) -> bool:
    """Return whether a normal text is a part of another, and not merely by chance."""
    return len(normal) >= (LEAST_SHARED_CHARS if normal.isascii() else LEAST_SHARED_HAN) and normal in whole
