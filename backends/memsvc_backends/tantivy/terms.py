"""Search terms as Tantivy's query. No term ever meets a query parser."""

from __future__ import annotations

from collections.abc import Sequence

from tantivy import Occur, Query, Schema, Searcher

from memsvc.ports.lexical import FUZZY_BOOST, FUZZY_MIN_LENGTH
from memsvc_backends.tantivy.schema import BODY, term_key

_FUZZY_MAX_LENGTH = 255
"""The automaton of a longer term costs more than it is worth; such terms are matched exactly alone."""
_SURELY_HELD = 1000
_MOST_WORDS = 20_000


class Vocabulary:
    """The words of one state of an index, looked up once each."""

    def __init__(self, searcher: Searcher) -> None:
        """Look them up by *searcher*, which sees one state for ever."""
        self._searcher = searcher
        self._held: dict[str, bool] = {}

    def holds(self, term: str, exact: Query) -> bool:
        """Return whether an entry holds a term; *exact* is the query for it."""
        held = self._held.get(term)
        if held is None:
            if len(self._held) >= _MOST_WORDS:
                self._held.clear()
            held = self._held[term] = _is_held(self._searcher, term, exact)
        return held


def any_term(schema: Schema, vocabulary: Vocabulary, terms: Sequence[str]) -> Query:
    """Return the query for entries that hold one of the terms or more, scored by BM25."""
    return Query.boolean_query([(Occur.Should, _query_of(schema, vocabulary, term)) for term in terms])


def _query_of(schema: Schema, vocabulary: Vocabulary, term: str) -> Query:
    exact = Query.term_query(schema, BODY, term_key(term), "freq")
    if not FUZZY_MIN_LENGTH <= len(term) <= _FUZZY_MAX_LENGTH or vocabulary.holds(term, exact):
        return exact
    near = Query.fuzzy_term_query(schema, BODY, term, distance=1, transposition_cost_one=True)
    return Query.boost_query(near, FUZZY_BOOST)


def _is_held(searcher: Searcher, term: str, exact: Query) -> bool:
    # The frequency counts removed entries until their segment is merged, so a small one is looked into.
    frequency = searcher.doc_freq(BODY, term)
    if frequency == 0 or frequency > _SURELY_HELD:
        return frequency > 0
    return bool(searcher.search(exact, 1, count=False).hits)
