"""Recognition of text that was recalled from memory, or that a memory states already: it is not captured again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError, NotReadyError
from memsvc.domain.filters import AnyOf, Field, Not, conjunction
from memsvc.domain.index_entries import row_of
from memsvc.domain.memory import Kind, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import session_privacy, visible
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.text.analysis import terms
from memsvc.text.recalled_text import CITATION, LEADING_CITATION, ids_cited_in, is_part_of, normal_text
from memsvc.text.statement_split import StatementPiece, statements

MOST_CITED = 256
"""Number of cited memories that are loaded; lines that cite others are recognised by the citation alone."""
MOST_TERMS = 48
MOST_ALIKE = 8
MOST_PARTS = 256
log = logging.getLogger(__name__)


class KnownTextFilter:
    """Recognition of known text, limited to what the scope may see."""

    def __init__(self, reads: MemoryReads, lexical: LexicalIndex) -> None:
        """Load cited memories from *reads*, and find equal ones by *lexical*."""
        self._reads = reads
        self._lexical = lexical

    def find_cited(self, scope: Scope, text: str) -> CitedMemories:
        """Return the memories that *text* cites."""
        ids = ids_cited_in(text)
        if not ids:
            return CitedMemories()
        stored = self._reads.get(ids[:MOST_CITED], reach=Reach.from_scope(scope))
        readable = {name: memory for name, memory in stored.items() if visible(memory, scope)}
        texts = {
            name: normal_text(f"{memory.title} {memory.content} {memory.summary}") for name, memory in readable.items()
        }
        return CitedMemories(frozenset(ids), texts)

    def find_known(self, scope: Scope, text: str, deadline: Deadline, *, speaker: str = "") -> Memory | None:
        """Return an ACTIVE memory of which *text* is all or one sentence, ignoring case, width and punctuation.

        What another *speaker* said is not known: "I live here" differs by who says it.
        """
        normal = normal_text(text)
        if not normal:
            return None
        for memory in self._find_similar(scope, text, deadline):
            if speaker and memory.speaker and speaker.casefold() != memory.speaker.casefold():
                continue
            if normal == normal_text(memory.content) or normal in _parts(memory.content):
                return memory
        return None

    def _find_similar(self, scope: Scope, text: str, deadline: Deadline) -> Sequence[Memory]:
        words = list(dict.fromkeys(terms(text)))[:MOST_TERMS]
        # Messages are the source of captures, and summaries repeat them: neither makes a statement known.
        where = conjunction(
            AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
            Not(AnyOf(Field.KIND, (Kind.MESSAGE.value, Kind.SUMMARY.value))),
            session_privacy(scope),
        )
        reach = Reach.from_scope(scope)
        try:
            hits = self._lexical.search(words, reach=reach, where=where, limit=MOST_ALIKE, deadline=deadline)
        except (BackendUnavailableError, DeadlineExceededError, NotReadyError) as error:
            # Exact duplicates of the same kind are still detected by the store on writing.
            log.warning("text was captured without a search for memories that state the same: %s", error)
            return ()
        found = self._reads.by_rows(list(dict.fromkeys(row_of(hit.entry_id) for hit in hits)), reach=reach)
        return [memory for memory in found.values() if memory.status is Status.ACTIVE]


@dataclass(frozen=True, slots=True)
class CitedMemories:
    """The memories that a text cites, and the text of those that can be read."""

    ids: frozenset[str] = frozenset()
    normal_texts: Mapping[str, str] = field(default_factory=dict)

    def contains(self, piece: StatementPiece) -> bool:
        """Return whether *piece* was recalled: it has a citation, or is part of a context or a cited memory.

        A line that starts with the citation of an unreadable memory counts as recalled as a whole.
        """
        if piece.is_recalled or CITATION.search(piece.text):
            return True
        if not (self.ids or LEADING_CITATION.match(piece.line)):
            return False
        normal = normal_text(piece.text)
        if any(is_part_of(normal, whole) for whole in self.normal_texts.values()):
            return True
        if not LEADING_CITATION.match(piece.line):
            return False
        # On a line with a citation even "Yes." is recalled if the cited memory contains it.
        cited = ids_cited_in(piece.line)
        return not cited or any(normal in self.normal_texts.get(memory_id, normal) for memory_id in cited)


def _parts(content: str) -> set[str]:
    return {normal_text(piece.text) for piece in statements(content[:100_000], most=MOST_PARTS)}
