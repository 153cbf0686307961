"""What the chosen memories of a context say, so that nothing is said twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memsvc.domain.memory import Memory
from memsvc.domain.near_duplicates import Shingles, is_near_duplicate
from memsvc.engine.context.kept import LruCache, identity
from memsvc.text.context_phrases import day_text

THRESHOLD = 0.85
COMPARED_CHARS = 2_000
_Bucket = tuple[str, tuple[str, ...]]


class Deduplicator:
    """The memories that were chosen so far. What they say is worked out when the first one is compared with them."""

    def __init__(self, kept: LruCache[Shingles]) -> None:
        """Begin with none; what is in *kept* need not be worked out again."""
        self._kept = kept
        self._waiting: list[Memory] = []
        self._sayings: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}

    def add(self, memory: Memory) -> None:
        """Take in a memory that is going to be shown."""
        self._waiting.append(memory)

    def twin(self, memory: Memory) -> Memory | None:
        """Return the first chosen memory that says the same as this one, or nearly."""
        for chosen in self._waiting:
            saying = self._saying(chosen)
            self._sayings.setdefault(saying.bucket, []).append((saying, chosen))
        self._waiting.clear()
        return _same(self._saying(memory), self._sayings)

    def groups(self, memories: Sequence[Memory]) -> list[list[Memory]]:
        """Return memories that say the same together, the one changed last first, in the order of the first of each."""
        groups: dict[str, list[Memory]] = {}
        sayings: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}
        for memory in memories:
            saying = self._saying(memory)
            twin = _same(saying, sayings)
            if twin is None:
                sayings.setdefault(saying.bucket, []).append((saying, memory))
            groups.setdefault((twin or memory).id, []).append(memory)
        return [sorted(group, key=lambda one: (one.update_time, one.row), reverse=True) for group in groups.values()]

    def _saying(self, memory: Memory) -> Shingles:
        key = identity(memory)
        saying = self._kept.get(key)
        if saying is None:
            saying = _said(memory)
            self._kept.keep(key, saying)
        return saying


def _same(saying: Shingles, sayings: Mapping[_Bucket, Sequence[tuple[Shingles, Memory]]]) -> Memory | None:
    others = sayings.get(saying.bucket, ())
    return next((memory for other, memory in others if is_near_duplicate(saying, other, THRESHOLD)), None)


def _said(memory: Memory) -> Shingles:
    beyond = memory.content_hash if len(memory.content) > COMPARED_CHARS else ""
    happened_on = "" if memory.event_time is None else day_text(memory.event_time)
    content, title = memory.content[:COMPARED_CHARS], memory.title
    # A title that is the beginning of the content says nothing.
    text = content if content.lstrip().startswith(title) else f"{title} {content}"
    return Shingles.of(text, beyond=beyond, marks=(memory.speaker, happened_on))
