"""Rendering of memories as lines of a context, with their token counts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from memsvc.domain.conflicts import CURRENT, CurrencyMark
from memsvc.domain.context import CitationStyle, ContextQuery, Section
from memsvc.domain.files import HEADINGS, format_ref
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory, repeats_title
from memsvc.domain.sessions import SOURCE
from memsvc.ports.models import Tokenizer
from memsvc.text.context_phrases import as_data, currency_mark, day_text, heading, local, origin_mark
from memsvc.text.file_refs import refs_given_apart
from memsvc.text.recalled_text import MOST_HANDLES, citation, handle

ITEM_TOKENS = 1_024
LEAST_TOKENS = 128
CHARS_A_TOKEN = 8
"""No language has fewer tokens than one for this number of characters; longer text need not be counted."""
KEPT_CHARS = 1_000
"""Lines of longer contents are not cached, which bounds the size of the cache."""
_LEAST_CHARS = 24
"""Minimum length of an excerpt."""
_SLACK_TOKENS = 8
"""An excerpt is long enough with no more than this number of tokens left."""
ELLIPSIS = "…"
FILES = 8
"""Number of listed files of one memory."""

KEPT_COUNTS = 8_192
_FORMS = frozenset({Section.SESSION, Section.EVIDENCE, Section.FILES})
"""Sections whose lines have a form of their own."""


UNNAMED = "[m000]"
"""In the place of a handle until the line is part of a context: as long as the longest."""


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """A text and its token count.

    Attributes:
        excerpt: The shown part of the memory in the service's own formatting; empty if all is shown.
    """

    text: str
    tokens: int
    excerpt: str = ""


NO_LINE = RenderedLine("", 0)


def most_item_tokens(room: int) -> int:
    """Return the maximum size of one memory in a section of *room* tokens; a longer memory is shown as an excerpt.

    Half of a small room, a quarter of a large one; a very small room is not divided.
    """
    return max(room // 4, min(ITEM_TOKENS, room // 2), min(LEAST_TOKENS, room))


def least_room(tokens: int) -> int:
    """Return the smallest room in which one memory may use *tokens*."""
    if tokens <= LEAST_TOKENS:
        return tokens
    return 2 * tokens if tokens <= ITEM_TOKENS else 4 * tokens


class LineRenderer:
    """Renderer of the lines of one context.

    Every text ends with a newline and starts with a visible character: tokenizers split there, so that the counts of
    the texts add up to that of the whole.
    """

    def __init__(
        self,
        query: ContextQuery,
        tokenizer: Tokenizer,
        cache: LruCache[Hashable, RenderedLine],
        handles: Mapping[str, str] | None = None,
    ) -> None:
        """Render for *query*, count tokens by *tokenizer*, and cache lines in *cache*.

        *handles* are the citations of the earlier context, by memory id.
        """
        self._locale, self._zone = query.locale, query.zone
        self.cost = self._count = tokenizer.count
        self._headings: dict[Section, RenderedLine] = {}
        self._cache = cache
        self.marks: Mapping[str, CurrencyMark] = {}
        """The marks of memories that are not current, by id."""
        self._has_handles = query.citation_style is CitationStyle.HANDLE
        self._handles = {} if handles is None else dict(handles)
        self.next_handle = query.first_handle

    def citation(self, memory_id: str) -> str:
        """Return how this context cites a memory; the same each time."""
        if not self._has_handles or self.next_handle > MOST_HANDLES:
            return citation(memory_id)
        if memory_id not in self._handles:
            self._handles[memory_id] = f"[{handle(self.next_handle)}]"
            self.next_handle += 1
        return self._handles[memory_id]

    @property
    def handles(self) -> Mapping[str, str]:
        """Return the citations of this context and those before it, by memory id."""
        return self._handles

    def cite(self, line: RenderedLine, memory_id: str) -> RenderedLine:
        """Return a line with its citation, and that of a newer memory; it never has more tokens than without.

        So only lines of the context have handles, and those do not depend on what was found and is not shown.
        """
        if not self._has_handles:
            return line
        newer_id = self.marks.get(memory_id, CURRENT).newer_id
        text, is_equal = line.text, True
        for cited in (self.citation(one) for one in (memory_id, newer_id) if one):
            text = text.replace(UNNAMED, cited, 1)
            # A vocabulary has one token for each number of up to three digits.
            is_equal = is_equal and self._count(cited) == self._count(UNNAMED)
        return replace(line, text=text, tokens=line.tokens if is_equal else self._count(text))

    def heading(self, section: Section) -> RenderedLine:
        """Return the heading of a section."""
        if section not in self._headings:
            text = heading(section, self._locale)
            self._headings[section] = RenderedLine(text, self._count(text))
        return self._headings[section]

    def line(self, section: Section, memory: Memory, *, most: int, part: str = "") -> RenderedLine | None:
        """Return the line of a memory with at most *most* tokens, or None if there is none.

        *part* replaces content that is too long, such as the chunk that matches the query.
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
        return self._truncate(front, as_data((part or memory.content)[: most * CHARS_A_TOKEN]), most)

    def _short(self, section: Section, memory: Memory) -> RenderedLine:
        """Return the line that shows all of a memory, cached."""
        if memory.id in self.marks:
            return self._whole(self._front(section, memory), memory.content, self._files(memory), is_excerpt=False)
        form = section if section in _FORMS else None
        key = (form, self._has_handles, self._locale, self._zone.key, content_identity(memory))
        line = self._cache.get(key)
        if line is None:
            line = self._whole(self._front(section, memory), memory.content, self._files(memory), is_excerpt=False)
            self._cache.put(key, line)
        return line

    def _whole(self, front: str, body: str, files: str, *, is_excerpt: bool) -> RenderedLine:
        text = f"{front}{as_data(body)}{files}\n"
        return RenderedLine(text, self._count(text), body if is_excerpt else "")

    def _truncate(self, front: str, body: str, most: int) -> RenderedLine | None:
        """Return the beginning of a body, close to the longest that fits."""
        best: RenderedLine | None = None
        low, high = _LEAST_CHARS, len(body)
        while low <= high and (best is None or best.tokens < most - _SLACK_TOKENS):
            middle = (low + high) // 2
            piece = f"{body[:middle].rstrip()}{ELLIPSIS}"
            text = f"{front}{piece}\n"
            tokens = self._count(text)
            if tokens <= most:
                best, low = RenderedLine(text, tokens, piece), middle + 1
            else:
                high = middle - 1
        return best

    def _files(self, memory: Memory) -> str:
        """Return the files that a memory refers to outside of its content, as a further line of the item."""
        apart = refs_given_apart(memory.content, memory.file_refs)[:FILES]
        listed = ", ".join(f"`{format_ref(ref)}`" for ref in apart)
        return f"\n  {HEADINGS[self._locale.value.lower()]}: {listed}" if apart else ""

    def _front(self, section: Section, memory: Memory) -> str:
        moment = local(memory.moment, self._zone)
        day = day_text(moment)
        when = f"{day} {moment:%H:%M}" if section is Section.SESSION else day
        # It matters who said what: the category of a message of a session is its role.
        is_said = section in {Section.EVIDENCE, Section.SESSION} and memory.source == SOURCE
        speaker = memory.speaker or (memory.category if is_said else "")
        said = f" {as_data(speaker)}:" if speaker else ""
        title = "" if repeats_title(memory.title, memory.content) else f" {as_data(memory.title)} —"
        origin = origin_mark(memory.origin, self._locale)
        cited = UNNAMED if self._has_handles else citation(memory.id)
        mark = self.marks.get(memory.id, CURRENT)
        newer = "" if not mark.newer_id else UNNAMED if self._has_handles else citation(mark.newer_id)
        return f"- {cited} {when}{currency_mark(mark.currency, newer, self._locale)}{origin}{said}{title} "


def _bodies(memory: Memory, part: str) -> list[tuple[str, bool]]:
    bodies = [(memory.content, False)]
    if part and part != memory.content:
        bodies.append((part, True))
    if memory.summary:
        bodies.append((memory.summary, True))
    return bodies


# Token counts are cached: a context that is built again has nearly the same lines.


class CachedTokenCounter:
    """`memsvc.ports.models.Tokenizer` with a cache for short texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count by *tokenizer*."""
        self.name, self.adds_up = tokenizer.name, tokenizer.adds_up
        self._tokenizer = tokenizer
        self._cache = lru_cache(maxsize=KEPT_COUNTS)(tokenizer.count)

    def count(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        return self._cache(text) if len(text) <= KEPT_CHARS else self._tokenizer.count(text)

    def clear(self) -> None:
        """Clear the cache."""
        self._cache.cache_clear()

    def ping(self) -> None:
        """Return if the tokenizer answers, otherwise raise."""
        self._tokenizer.ping()


Identity = tuple[str, int, datetime, str]


def content_identity(memory: Memory) -> Identity:
    """Return the cache key of a memory: nothing that a context shows changes without a revision."""
    return memory.id, memory.revision, memory.update_time, memory.content_hash
