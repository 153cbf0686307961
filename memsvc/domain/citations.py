"""Citations: how text that was recalled names the memory it comes from, so that it is not captured again."""

from __future__ import annotations

import re
import unicodedata

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
CITATION = re.compile(rf"\[mem:\s?(?P<id>{_UUID})\]")
"""A citation anywhere in a text; the group "id" is the memory's id."""

LEADING_CITATION = re.compile(rf"\s*(?:[-*+>]\s+|\d+[.)]\s+)?\[mem:\s?{_UUID}\]")
"""A citation at the beginning of a line, as every line of a rendered context has it."""

LEAST_SHARED_CHARS, LEAST_SHARED_HAN = 6, 4
"""A shorter text is found in many memories by chance; Han characters say more."""
_NOISE = re.compile(r"[\W_]+")


def citation(memory_id: str) -> str:
    """Return the citation of a memory: "[mem:0190163d-8694-739b-aea5-966c26f8ad91]"."""
    return f"[mem:{memory_id}]"


def cited_ids(text: str) -> list[str]:
    """Return the ids of the memories that *text* cites, in lower case, each once, in order."""
    return list(dict.fromkeys(match["id"].lower() for match in CITATION.finditer(text)))


def normal_text(text: str) -> str:
    """Return what is left of *text* when neither case nor width, white space nor signs count, nor citations."""
    bare = CITATION.sub(" ", text)
    return _NOISE.sub("", unicodedata.normalize("NFKC", bare).casefold())


def is_part_of(normal: str, whole: str) -> bool:
    """Return whether a normal text is a part of another, and not merely by chance."""
    return len(normal) >= (LEAST_SHARED_CHARS if normal.isascii() else LEAST_SHARED_HAN) and normal in whole
