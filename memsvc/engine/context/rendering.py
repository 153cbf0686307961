"""From a memory to the lines that show it, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from memsvc.domain.context import ContextQuery, Section
from memsvc.domain.files import HEADINGS, written
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory
from memsvc.ports.models import Tokenizer
from memsvc.text.context_phrases import age, day_text, heading, local, origin_mark
from memsvc.text.file_refs import given_apart
from memsvc.text.recalled_text import citation

ITEM_TOKENS = 1_024
LEAST_TOKENS = 128
CHARS_A_TOKEN = 8
"""No text of a language has fewer tokens than one for so many characters; what is longer need not be counted."""
KEPT_CHARS = 1_000
"""Lines of longer contents are made anew each time; so what is kept stays small."""
_LEAST_CHARS = 24
"""A shorter piece says nothing."""
_NEARLY = 8
"""With so few tokens left over, an excerpt is long enough."""
ELLIPSIS = "…"
FILES = 8
"""So many files of one memory are named."""

_UNSEEN = (
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]*"
)
"""White space, and what leaves no trace on paper but would part the letters of a word."""


def _unseen_between(letters: str) -> str:
    return "".join(f"{_UNSEEN}{letter}" for letter in letters)


_TAG = re.compile(f"[<\uff1c\ufe64](?={_UNSEEN}[/\uff0f]?{_unseen_between('memory')})", re.IGNORECASE)
_MARK = re.compile(rf"[\[\uff3b](?={_unseen_between('mem')}{_UNSEEN}[:\uff1a])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """A text and what it costs.

    Attributes:
        excerpt: What of the memory it shows, as the service's own text; empty: all.
    """

    text: str
    tokens: int
    excerpt: str = ""


NO_LINE = Line("", 0)


def most_item_tokens(room: int) -> int:
    """Return what one memory may cost where there is room for so many tokens; of a longer one an excerpt is shown.

    Half of the room, but where that is much a quarter is enough; little is not divided.
    """
    return max(room // 4, min(ITEM_TOKENS, room // 2), min(LEAST_TOKENS, room))


def least_room(tokens: int) -> int:
    """Return the least room in which one memory may cost so many tokens."""
    if tokens <= LEAST_TOKENS:
        return tokens
    return 2 * tokens if tokens <= ITEM_TOKENS else 4 * tokens


class LineRenderer:
    """Writes the lines of one context.

    Every text ends with a newline and begins with a sign that is no white space: there tokenizers cut, so that the
    costs of the texts add up to that of the whole.
    """

    def __init__(
        self, query: ContextQuery, now: datetime, tokenizer: Tokenizer, kept: LruCache[Hashable, Line]
    ) -> None:
        """Write for *query* as of *now*, tokens counted by *tokenizer*; what is in *kept* need not be made again."""
        self._locale, self._zone = query.locale, query.zone
        self._today = local(now, query.zone).date()
        self.cost = self._count = tokenizer.count
        self._headings: dict[Section, Line] = {}
        self._kept = kept

    def heading(self, section: Section) -> Line:
        """Return the line above a section."""
        if section not in self._headings:
            text = heading(section, self._locale)
            self._headings[section] = Line(text, self._count(text))
        return self._headings[section]

    def line(self, section: Section, memory: Memory, *, most: int, part: str = "") -> Line | None:
        """Return the line of a memory that costs at most *most* tokens, or None when there is none.

        *part* stands for content that is too long, such as the piece of it that fits a query.
        """
        if most <= 0:
            return None
        if len(memory.content) <= KEPT_CHARS and (line := self._short(section, memory)).tokens <= most:
            return line
        front, files = self._front(section, memory), self._files(memory)
        for body, is_excerpt in _bodies(memory, part):
            if len(body) > most * CHARS_A_TOKEN:
                continue
            line = self._whole(front, body, files, is_excerpt=is_excerpt)
            if line.tokens <= most:
                return line
        return self._cut(front, _as_data((part or memory.content)[: most * CHARS_A_TOKEN]), most)

    def _short(self, section: Section, memory: Memory) -> Line:
        """Return the line that shows all of a memory, made once a day."""
        key = (section is Section.SESSION, self._locale, self._zone.key, self._today, content_identity(memory))
        line = self._kept.get(key)
        if line is None:
            line = self._whole(self._front(section, memory), memory.content, self._files(memory), is_excerpt=False)
            self._kept.put(key, line)
        return line

    def _whole(self, front: str, body: str, files: str, *, is_excerpt: bool) -> Line:
        text = f"{front}{_as_data(body)}{files}\n"
        return Line(text, self._count(text), body if is_excerpt else "")

    def _cut(self, front: str, body: str, most: int) -> Line | None:
        """Return the beginning of a body, nearly as much of it as there is room for."""
        best: Line | None = None
        low, high = _LEAST_CHARS, len(body)
        while low <= high and (best is None or best.tokens < most - _NEARLY):
            middle = (low + high) // 2
            piece = f"{body[:middle].rstrip()}{ELLIPSIS}"
            text = f"{front}{piece}\n"
            tokens = self._count(text)
            if tokens <= most:
                best, low = Line(text, tokens, piece), middle + 1
            else:
                high = middle - 1
        return best

    def _files(self, memory: Memory) -> str:
        """Return the files that a memory refers to apart from its content, as a further line of the item."""
        apart = given_apart(memory.content, memory.file_refs)[:FILES]
        listed = ", ".join(f"`{written(ref)}`" for ref in apart)
        return f"\n  {HEADINGS[self._locale.value.lower()]}: {listed}" if apart else ""

    def _front(self, section: Section, memory: Memory) -> str:
        moment = local(memory.event_time or memory.create_time, self._zone)
        day = day_text(moment)
        when = f"{day} {moment:%H:%M}" if section is Section.SESSION else day
        old = age(moment.date(), self._today, self._locale)
        said = f" {_as_data(memory.speaker)}:" if memory.speaker else ""
        # A title that is the beginning of the content says nothing, and costs tokens.
        is_new = memory.title and not memory.content.lstrip().startswith(memory.title)
        title = f" {_as_data(memory.title)} —" if is_new else ""
        origin = origin_mark(memory.origin, self._locale)
        return f"- {citation(memory.id)} {when} ({old}){origin}{said}{title} "


def _bodies(memory: Memory, part: str) -> list[tuple[str, bool]]:
    bodies = [(memory.content, False)]
    if part and part != memory.content:
        bodies.append((part, True))
    if memory.summary:
        bodies.append((memory.summary, True))
    return bodies


def _as_data(text: str) -> str:
    """Return a text that can neither end the data, nor begin a line as one of ours, nor pass for a citation.

    Its further lines are indented, so that its headings and lists stay within the item.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    joined = "\n  ".join(line for line in lines if line.strip()).strip()
    return _MARK.sub("(", _TAG.sub("‹", joined))


# Counting tokens, each line once: a context that is built again is made of nearly the same lines.


KEPT_COUNTS = 8_192


class CachedTokenCounter:
    """`memsvc.ports.models.Tokenizer` that remembers the counts of short texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count by *tokenizer*."""
        self.name, self.adds_up = tokenizer.name, tokenizer.adds_up
        self._tokenizer = tokenizer
        self._kept = lru_cache(maxsize=KEPT_COUNTS)(tokenizer.count)

    def count(self, text: str) -> int:
        """Count the tokens of *text*."""
        return self._kept(text) if len(text) <= KEPT_CHARS else self._tokenizer.count(text)

    def clear(self) -> None:
        """Forget every text."""
        self._kept.cache_clear()

    def ping(self) -> None:
        """Return when the tokenizer answers."""
        self._tokenizer.ping()


# What contexts worked out of memories and will ask for again: a context is mostly made of what the last one showed.


Identity = tuple[str, int, datetime, str]


def content_identity(memory: Memory) -> Identity:
    """Return what a memory's words depend on: nothing that a context shows changes without a revision."""
    return memory.id, memory.revision, memory.update_time, memory.content_hash
