"""What of a text is a context that the service rendered: whoever hands it in only repeats it."""

from __future__ import annotations

import re
from functools import cache

from memsvc.domain.citations import normal_text
from memsvc.text.context_phrases import HEADINGS, MESSAGES, OPENING
from memsvc.text.sentences import sentences

_DATA = re.compile(r"^[ \t>]*<memory>[ \t]*\r?$.*?(?:^[ \t>]*</memory>|\Z)", re.DOTALL | re.MULTILINE)
_SLOT = re.compile(r"\\{(?:value|limit)\\}|\\{detail\\}")
_LEFT_OUT = re.compile(r"(?:Left out: |未列出：).*[)）][.。]?|(?:No longer part of the context: |不再属于上下文：).*")


def rendered_spans(text: str) -> list[tuple[int, int]]:
    """Return where the lines between the marks of remembered data begin and end, with the marks, in order."""
    return [match.span() for match in _DATA.finditer(text)] if "<memory>" in text else []


def is_rendered(sentence: str) -> bool:
    """Return whether a sentence is one of those that the service writes around memories, in either language."""
    is_known = normal_text(sentence) in _phrases()
    return is_known or _LEFT_OUT.fullmatch(sentence) is not None or _messages().fullmatch(sentence) is not None


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
