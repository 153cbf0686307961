"""From ranked rows to hits: one query for the memories, and the best chunk's snippet for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memsvc.domain.index_entries import Chunk, ordinal_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import SearchHit
from memsvc.engine.search.ranking import Ranking
from memsvc.engine.search.retrieval_request import CandidateReader
from memsvc.text.snippets import snippet

SHORT = 300
"""Content of so few characters is always one chunk, whatever tokens are counted by."""


class HitHydrator:
    """Turns rankings into hits."""

    def __init__(self, reads: CandidateReader) -> None:
        self._reads = reads

    def hits(
        self, ranked: Sequence[Ranking], *, reach: Reach, terms: Sequence[str], snippet_chars: int
    ) -> tuple[SearchHit, ...]:
        """Return one hit for each ranking, in order; a memory that is gone meanwhile is left out."""
        memories = self._reads.by_rows([place.row for place in ranked], reach=reach)
        chunks = self._chunks(ranked, memories)
        words = frozenset(terms)
        return tuple(
            _hit(place, memories[place.row], chunks.get(place.row), words, snippet_chars)
            for place in ranked
            if place.row in memories
        )

    def _chunks(self, ranked: Sequence[Ranking], memories: Mapping[int, Memory]) -> dict[int, Chunk]:
        wanted = [
            (place.row, ordinal_of(place.entry_id))
            for place in ranked
            if place.row in memories and len(memories[place.row].content) > SHORT
        ]
        return {row: chunk for (row, _), chunk in self._reads.chunks(wanted).items()} if wanted else {}


def _hit(place: Ranking, memory: Memory, chunk: Chunk | None, terms: frozenset[str], snippet_chars: int) -> SearchHit:
    text = memory.content if chunk is None else chunk.text
    found = snippet(text, terms, width=snippet_chars)
    first = 1 if chunk is None else chunk.start_line
    return SearchHit(
        memory=memory,
        score=place.score,
        snippet=found.text,
        spans=found.spans,
        start_line=first + found.start_line - 1,
        end_line=first + found.end_line - 1,
        chunk_ordinal=0 if chunk is None else chunk.ordinal,
        heading_path=() if chunk is None else chunk.heading_path,
    )
