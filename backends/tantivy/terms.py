"""Search terms as Tantivy's query. No term ever meets a query parser."""

from __future__ import annotations

from collections.abc import Sequence

from tantivy import Occur, Query, Schema, Searcher

from backends.tantivy.schema import BODY, term_key
from memsvc.ports.lexical import FUZZY_BOOST, FUZZY_MIN_LENGTH

_FUZZY_MAX_LENGTH = 255
"""The automaton of a longer term costs more than it is worth; such terms are matched exactly alone."""
_SURELY_HELD = 1000


def any_term(schema: Schema, searcher: Searcher, terms: Sequence[str]) -> Query:
    """Return the query for entries that hold one of the terms or more, scored by BM25."""
    return Query.boolean_query([(Occur.Should, _query_of(schema, searcher, term)) for term in terms])


def _query_of(schema: Schema, searcher: Searcher, term: str) -> Query:
    exact = Query.term_query(schema, BODY, term_key(term), "freq")
    if not FUZZY_MIN_LENGTH <= len(term) <= _FUZZY_MAX_LENGTH or _is_held(searcher, term, exact):
        return exact
    near = Query.fuzzy_term_query(schema, BODY, term, distance=1, transposition_cost_one=True)
    return Query.boost_query(near, FUZZY_BOOST)


def _is_held(searcher: Searcher, term: str, exact: Query) -> bool:
    # The frequency counts removed entries until their segment is merged, so a small one is looked into.
    frequency = searcher.doc_freq(BODY, term)
    if frequency == 0 or frequency > _SURELY_HELD:
        return frequency > 0
    return bool(searcher.search(exact, 1, count=False).hits)
