"""Text that comes from the memory, or that it holds already: it is not captured again (requirement B5)."""

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
from memsvc.text.recalled_text import CITATION, LEADING_CITATION, cited_ids, is_part_of, normal_text
from memsvc.text.statement_split import Piece, statements

MOST_CITED = 256
"""So many cited memories are looked up; lines that cite others are still recognised by their citation."""
MOST_TERMS = 48
MOST_ALIKE = 8
MOST_PARTS = 256

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CitedMemories:
    """The memories that a text cites, and which of them can be read."""

    ids: frozenset[str] = frozenset()
    normal_texts: Mapping[str, str] = field(default_factory=dict)

    def contains(self, piece: Piece) -> bool:
        """Return whether *piece* was recalled: it bears a citation or stands in a context or a memory that is cited.

        A line that begins with the citation of a memory which cannot be read is recalled as a whole.
        """
        if piece.is_recalled or CITATION.search(piece.text):
            return True
        if not self.ids:
            return False
        normal = normal_text(piece.text)
        if any(is_part_of(normal, whole) for whole in self.normal_texts.values()):
            return True
        if not LEADING_CITATION.match(piece.line):
            return False
        # On the line of a citation even "Yes." is what the memory says, if the memory says so.
        return any(normal in self.normal_texts.get(memory_id, normal) for memory_id in cited_ids(piece.line))


class KnownTextFilter:
    """Finds out what of a text the memory knows already. It never tells more than the scope may see."""

    def __init__(self, reads: MemoryReads, lexical: LexicalIndex) -> None:
        """Look up cited memories by *reads*, and such as say the same by *lexical*."""
        self._reads = reads
        self._lexical = lexical

    def find_cited(self, scope: Scope, text: str) -> CitedMemories:
        """Return what *text* cites."""
        ids = cited_ids(text)
        if not ids:
            return CitedMemories()
        stored = self._reads.get(ids[:MOST_CITED], reach=Reach.from_scope(scope))
        readable = {name: memory for name, memory in stored.items() if visible(memory, scope)}
        texts = {
            name: normal_text(f"{memory.title} {memory.content} {memory.summary}") for name, memory in readable.items()
        }
        return CitedMemories(frozenset(ids), texts)

    def find_known(self, scope: Scope, text: str, deadline: Deadline) -> Memory | None:
        """Return an ACTIVE memory of which *text* is the whole or a sentence, whatever its case, width and signs."""
        normal = normal_text(text)
        if not normal:
            return None
        for memory in self._alike(scope, text, deadline):
            if normal == normal_text(memory.content) or normal in _parts(memory.content):
                return memory
        return None

    def _alike(self, scope: Scope, text: str, deadline: Deadline) -> Sequence[Memory]:
        words = list(dict.fromkeys(terms(text)))[:MOST_TERMS]
        # A message is what was said, and what is captured from: it makes nothing known, nor does a summary of such.
        where = conjunction(
            AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
            Not(AnyOf(Field.KIND, (Kind.MESSAGE.value, Kind.SUMMARY.value))),
            session_privacy(scope),
        )
        reach = Reach.from_scope(scope)
        try:
            hits = self._lexical.search(words, reach=reach, where=where, limit=MOST_ALIKE, deadline=deadline)
        except (BackendUnavailableError, DeadlineExceededError, NotReadyError) as error:
            # What is exactly the same, of the same kind, is still met by the store when it is written.
            log.warning("text was captured without a look for memories that say the same: %s", error)
            return ()
        found = self._reads.by_rows(list(dict.fromkeys(row_of(hit.entry_id) for hit in hits)), reach=reach)
        return [memory for memory in found.values() if memory.status is Status.ACTIVE]


def _parts(content: str) -> set[str]:
    return {normal_text(piece.text) for piece in statements(content[:100_000], most=MOST_PARTS)}
