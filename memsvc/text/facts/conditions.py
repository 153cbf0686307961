"""When something is so: what is said of summers is not contradicted by what is said of winters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from memsvc.domain.conflicts import Statement

_SPANS = (
    r"(?:spring|summer|autumn|fall|winter|week|weekend|weekday|workday|holiday|vacation|semester|term|school year"
    r"|season|off-season|(?:rainy|dry|low|high|peak) season|business day)s?"
)
_ENGLISH_SPAN = rf"(?:in|during|over|on|at|for|throughout)\s+(?:the\s+)?(?P<span>{_SPANS})"
_ENGLISH_FIRST = re.compile(rf"^{_ENGLISH_SPAN}\s*,?\s+(?=\w)", re.IGNORECASE)
_ENGLISH_LAST = re.compile(
    rf"\s+(?:{_ENGLISH_SPAN}(?=\s*$|\s+(?:and|but|with)\b|[,;])|during\s+(?P<other>(?:the\s+|my\s+|our\s+)?\w+(?:\s+\w+)?)\s*$)",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?:在|每年|每到|一到|到了?)*(?P<span>[春夏秋冬][天季]|周末|工作日|平日|节假日|假期|[暑寒]假|暑期|[淡旺雨旱]季|出差(?=[时的期]))"
    r"(?:的时候|时候|时|期间|里)?(?:，)?(?:都|则|就)?"
)


def english_setting(sentence: str) -> tuple[str, str]:
    """Return a sentence without the season or span that it begins with, and that in lower case; empty: with none."""
    first = _ENGLISH_FIRST.match(sentence)
    return (sentence, "") if first is None else (sentence[first.end() :], _singular(first["span"]))


def english_condition(clause: str) -> tuple[str, str]:
    """Return a clause without the season or span that it ends with, and that in lower case; empty: with none."""
    last = _ENGLISH_LAST.search(clause)
    if last is None:
        return clause, ""
    return clause[: last.start()] + clause[last.end() :], _singular(last["span"] or last["other"])


def chinese_condition(clause: str) -> tuple[str, str]:
    """Return a clause without the season or span that it holds for, and that; empty when it has none."""
    match = _CHINESE.search(clause)
    if match is None:
        return clause, ""
    return clause[: match.start()] + clause[match.end() :], match["span"].replace("季", "天")


def said_when(found: Iterable[Statement], *when: str) -> Iterator[Statement]:
    """Yield statements as what is so in these seasons or spans; empty ones are none."""
    spans = " and ".join(span for span in when if span)
    for statement in found:
        yield replace(statement, topic=f"{statement.topic} in {spans}") if spans else statement


def _singular(span: str) -> str:
    return span.lower().removeprefix("the ").removesuffix("s")
