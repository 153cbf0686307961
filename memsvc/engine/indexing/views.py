"""What of a memory is embedded and what is indexed by its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memsvc.domain.index_entries import MAX_ORDINAL, Document, LexicalEntry, View, entry_id
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.text.passages import lexical_terms, passage, previous_line
from memsvc.text.sentences import merged_sentences


class EmbeddingGranularity(StrEnum):
    """How many vectors a memory gets: S one for each chunk; E also one for each run of sentences, and a window."""

    S = "S"
    E = "E"


VIEWS = {
    EmbeddingGranularity.S: (View.CHUNK,),
    EmbeddingGranularity.E: (View.CHUNK, View.SENTENCES, View.WINDOW),
}


@dataclass(frozen=True, slots=True)
class Passage:
    """One text to embed, and the entry that its vector becomes."""

    view: View
    ordinal: int
    text: str


def passages_of(document: Document, tier: EmbeddingGranularity) -> list[Passage]:
    """Return the texts to embed for one memory, the chunk view first, ordinals ascending within a view."""
    SEARCH_PRIORITY.give_way()
    memory = document.memory
    found = [
        Passage(
            View.CHUNK,
            chunk.ordinal,
            passage(
                text=chunk.text,
                speaker=memory.speaker,
                title=memory.title,
                heading_path=chunk.heading_path,
                moment=memory.event_time,
            ),
        )
        for chunk in document.chunks[: MAX_ORDINAL + 1]
    ]
    if tier is EmbeddingGranularity.E:
        found.extend(_richer(document))
    return found


def _richer(document: Document) -> list[Passage]:
    memory = document.memory
    pieces = [piece for chunk in document.chunks for piece in merged_sentences(chunk.text)]
    found = [
        Passage(
            View.SENTENCES,
            ordinal,
            passage(text=piece, speaker=memory.speaker, title=memory.title, heading_path=(), moment=memory.event_time),
        )
        for ordinal, piece in enumerate(pieces[: MAX_ORDINAL + 1])
    ]
    own = previous_line(memory.speaker, document.chunks[0].text)
    before = _line_before(document)
    lines = own if before is None else f"{previous_line(before.speaker, before.content)}\n{own}"
    window = passage(text=lines, speaker="", title=memory.title, heading_path=(), moment=memory.event_time)
    return [*found, Passage(View.WINDOW, 0, window)]


def lexical_entries(document: Document) -> list[LexicalEntry]:
    """Return the lexical entries of one memory: one for each chunk; the previous line counts for the first."""
    SEARCH_PRIORITY.give_way()
    memory, before = document.memory, _line_before(document)
    return [
        LexicalEntry(
            entry_id(memory.row, View.CHUNK, chunk.ordinal),
            lexical_terms(
                text=chunk.text,
                speaker=memory.speaker,
                title=memory.title,
                heading_path=chunk.heading_path,
                moment=memory.event_time or memory.create_time,
                previous=previous_line(before.speaker, before.content) if before and not chunk.ordinal else "",
            ),
            document.attributes,
        )
        for chunk in document.chunks[: MAX_ORDINAL + 1]
    ]


def _line_before(document: Document) -> Memory | None:
    """Return the line before, unless it is hidden: by its words others would find what follows it.

    Hidden is what is private to its session, or waits for a review, while what follows is not.
    """
    before, own = document.previous, document.memory
    if before is not None and before.layer is Layer.SESSION and own.layer is not Layer.SESSION:
        return None
    if before is not None and before.status is Status.QUARANTINED and own.status is not Status.QUARANTINED:
        return None
    return before
