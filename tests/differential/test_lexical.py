"""Every full-text index and the plain one agree on what is found, in which order, and how well it scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Or, Range, number_terms, number_test
from memsvc.domain.index_entries import Attributes, LexicalEntry, LexicalManifest, View, entry_id, row_of
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing import factories
from memsvc_backends.in_memory.indexes import LEXICAL, InMemoryLexicalIndex
from memsvc_backends.postgres_index import FULLTEXT
from memsvc_backends.postgres_index.settings import FulltextSettings
from memsvc_backends.qdrant_server.sparse_index import NAME, QdrantSparseIndex
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings
from tests.support.postgres_server import without_tables
from tests.support.qdrant_targets import context as surroundings
from tests.support.qdrant_targets import place, sparse_settings

Corpus = dict[int, list[LexicalEntry]]

WORDS = ["tea", "milk", "kitten", "mitten", "basket", "baskets", "日本語の本", "a:b", "AND", "x y", "🙂"]
UNKNOWN = ["kiten", "kittne", "bosket", "日本語の木", "rum", "tee", "bitten"]
OWNERS = ["\x1fa", "\x1fab", "a\x1fb"]
PROJECTS = ["", "p", "p2"]
STRINGS = ["", "x", "X", "x y", "é"]
NUMBERS = st.integers(-2, 6)

terms = st.lists(st.sampled_from(WORDS), max_size=12)
queries = st.lists(st.sampled_from(WORDS + UNKNOWN), min_size=1, max_size=5)
reaches = st.builds(Reach, st.sampled_from(OWNERS), st.lists(st.sampled_from(PROJECTS), unique=True).map(tuple))


@st.composite
def attributes(draw: st.DrawFn, row: int) -> Attributes:
    """Draw the attributes of a memory with this row."""
    return factories.attributes(row)._replace(
        owner=draw(st.sampled_from(OWNERS[:2])),
        project_id=draw(st.sampled_from(PROJECTS)),
        category=draw(st.sampled_from(STRINGS)),
        tags=tuple(draw(st.lists(st.sampled_from(STRINGS), max_size=3))),
        importance=draw(st.integers(1, 5)),
        confidence=draw(st.sampled_from([0.0, 0.25, 1.0])),
        create_time=draw(NUMBERS),
        event_time=draw(st.none() | NUMBERS),
        metadata=tuple(number_terms({"n": [*draw(st.lists(NUMBERS | st.sampled_from((0.1, 1e300)), max_size=2))]})),
    )


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Draw memories of up to three entries each."""
    corpus: Corpus = {}
    for row in draw(st.sets(st.integers(0, 40), max_size=14)):
        about = draw(attributes(row))
        texts = draw(st.lists(terms, min_size=1, max_size=3))
        corpus[row] = [LexicalEntry(entry_id(row, View.CHUNK, n), text, about) for n, text in enumerate(texts)]
    return corpus


bounds = st.none() | NUMBERS | st.floats(-3, 7) | st.sampled_from([float("inf"), float("-inf"), 1e30, -1e30])
numeric = st.sampled_from([Field.ROW, Field.IMPORTANCE, Field.CONFIDENCE, Field.CREATE_TIME, Field.EVENT_TIME])
leaves: st.SearchStrategy[Filter] = st.one_of(
    st.builds(
        AnyOf, st.sampled_from([Field.CATEGORY, Field.TAGS]), st.lists(st.sampled_from(STRINGS), max_size=3).map(tuple)
    ),
    st.builds(AnyOf, numeric, st.lists(NUMBERS, max_size=3).map(tuple)),
    st.builds(Range, numeric, above=bounds, at_least=bounds, below=bounds, at_most=bounds),
    st.builds(
        Range, st.just(Field.METADATA), path=st.just("n"), above=bounds, at_least=bounds, below=bounds, at_most=bounds
    ).map(number_test),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    leaves,
    lambda child: st.one_of(
        st.builds(And, st.lists(child, max_size=3).map(tuple)),
        st.builds(Or, st.lists(child, max_size=3).map(tuple)),
        st.builds(Not, child),
    ),
    max_leaves=6,
)
searches = st.lists(st.tuples(queries, reaches, st.none() | filters), min_size=1, max_size=4)
numbers = count(1)


class MeanOfAll(InMemoryLexicalIndex):
    """The oracle of Tantivy, which knows no mean length of one owner's entries."""

    def mean_length(self, owner: str) -> float:
        """Return the mean number of terms of all entries."""
        lengths = [len(entry.terms) for entry in self._entries()]
        return sum(lengths) / max(len(lengths), 1)


class Pair:
    """An index and the oracle, given the same entries."""

    def __init__(self, index: LexicalIndex, oracle: LexicalIndex, *, counts_exactly: bool) -> None:
        self.index = index
        self.oracle = oracle
        self.counts_exactly = counts_exactly

    def renew(self, corpus: Corpus) -> None:
        """Start afresh with these entries, so that no removed ones are in the statistics."""
        manifest = LexicalManifest(next(numbers), 0, "test")
        for index in (self.index, self.oracle):
            if self.counts_exactly and index.manifest is not None:
                index.replace({row_of(listed.entry_id): () for listed in index.inventory()})
                index.replace(corpus)
                continue
            made = index.begin(manifest)
            made.replace(corpus)
            made.seal()
            index.switch(made)

    def search(
        self, query: Sequence[str], reach: Reach, where: Filter | None, limit: int = 1000
    ) -> list[list[tuple[int, float]]]:
        """Return what each of the two finds."""
        return [
            [(hit.entry_id, hit.score) for hit in hits]
            for hits in (
                index.search(query, reach=reach, where=where, limit=limit, deadline=Deadline())
                for index in (self.index, self.oracle)
            )
        ]


@pytest.fixture(scope="module", params=["tantivy", "pg-fulltext"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Open both indexes once; each example starts afresh."""

    def context(folder: Path) -> BackendContext:
        return BackendContext(directory=folder, now=lambda: datetime.now(UTC))

    with ExitStack() as stack:
        oracle: LexicalIndex
        if request.param == "tantivy":
            opened = TANTIVY.open(TantivySettings(), context(tmp_path_factory.mktemp("tantivy")))
            oracle = stack.enter_context(closing(MeanOfAll()))
        else:
            url = SecretStr(without_tables("words_congruence"))
            opened = FULLTEXT.open(FulltextSettings(url=url), context(tmp_path_factory.mktemp("postgres")))
            oracle = stack.enter_context(closing(InMemoryLexicalIndex()))
        index = stack.enter_context(opened)
        yield Pair(index, oracle, counts_exactly=request.param != "tantivy")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Open the words of a Qdrant server, and the oracle."""
    chosen = sparse_settings()
    with ExitStack() as stack:
        connect = stack.enter_context(place("local"))
        sparse = QdrantSparseIndex(connect(chosen, NAME), chosen, surroundings())
        oracle = stack.enter_context(LEXICAL.open(BackendSettings(), surroundings()))
        yield Pair(sparse, oracle, counts_exactly=False)


@settings(max_examples=15, deadline=None)
@given(corpus=corpora(), wanted=searches)
def test_a_server_finds_the_same(served: Pair, corpus: Corpus, wanted: list[tuple[list[str], Reach, Filter]]) -> None:
    """Every filter tree and every bag of terms finds the same entries; the scores are the server's own."""
    served.renew(corpus)

    for query, reach, where in wanted:
        found, expected = served.search(query, reach, where)
        assert set(dict(found)) == set(dict(expected))
        assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))


@settings(max_examples=60, deadline=None)
@given(corpus=corpora(), wanted=searches)
def test_the_same_is_found_with_the_same_scores(
    pair: Pair, corpus: Corpus, wanted: list[tuple[list[str], Reach, Filter]]
) -> None:
    """Every filter tree and every bag of terms finds the same entries with scores that are equal within 0.1 %."""
    pair.renew(corpus)

    for query, reach, where in wanted:
        found, expected = pair.search(query, reach, where)
        assert dict(found) == pytest.approx(dict(expected), rel=1e-3)
        assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))


@settings(max_examples=30, deadline=None)
@given(corpus=corpora(), query=queries, limit=st.integers(0, 8))
def test_the_limit_cuts_off_the_same(pair: Pair, corpus: Corpus, query: list[str], limit: int) -> None:
    """The best few are the same in the same order, however many are equal at the limit."""
    pair.renew(corpus)

    found, expected = pair.search(query, Reach(OWNERS[0], tuple(PROJECTS)), None, limit)

    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-3)
    assert [entry for entry, _ in found] == [entry for entry, _ in expected]


@settings(max_examples=30, deadline=None)
@given(before=corpora(), after=corpora(), removed=st.sets(st.integers(0, 40)), wanted=searches)
def test_the_same_is_found_after_changes(
    pair: Pair, before: Corpus, after: Corpus, removed: set[int], wanted: list[tuple[list[str], Reach, Filter]]
) -> None:
    """After replacing and removing both hold and find the same; statistics may remember what was removed."""
    pair.renew(before)
    for index in (pair.index, pair.oracle):
        index.replace(after)
        index.replace(dict.fromkeys(removed, ()))

    assert set(pair.index.inventory()) == set(pair.oracle.inventory())
    for query, reach, where in wanted:
        found, expected = pair.search(query, reach, where)
        assert set(dict(found)) == set(dict(expected))
        assert pair.index.count(reach=reach) == pair.oracle.count(reach=reach)
