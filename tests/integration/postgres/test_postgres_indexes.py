"""The indexes on PostgreSQL: shared by processes, with a graph, when the database goes away, and when it lacks a thing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    BackendUnavailableError,
    DeadlineExceededError,
    ReindexRunningError,
)
from memsvc.domain.filters import AnyOf, Field
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest, VectorManifest, View, entry_id
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import LexicalIndex, VectorEntry, VectorIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.vectors import vector_entry
from memsvc_backends.postgres_index import FULLTEXT, PGVECTOR
from memsvc_backends.postgres_index.settings import FulltextSettings, PgvectorSettings
from tests.support.postgres_server import database, down, without_tables

DIMENSION = 16
CONTEXT = BackendContext(Path(), lambda: datetime.now(UTC))
FIRST = VectorManifest(1, "m", DIMENSION, 1)
LARGE = 400
TOPICS, OF_TOPIC = 40, 100


@pytest.fixture
def url() -> str:
    """Give a schema without tables."""
    return without_tables("indexes")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold what is open."""
    with ExitStack() as stack:
        yield stack


def _words(stack: ExitStack, url: str) -> LexicalIndex:
    return stack.enter_context(FULLTEXT.open(FulltextSettings(url=SecretStr(url)), CONTEXT))


def _vectors(stack: ExitStack, url: str, **options: Any) -> VectorIndex:
    return stack.enter_context(PGVECTOR.open(PgvectorSettings(url=SecretStr(url), **options), CONTEXT))


def _said(row: int, *terms: str) -> dict[int, list[LexicalEntry]]:
    return {row: [LexicalEntry(entry_id(row, View.CHUNK, 0), terms, factories.attributes(row))]}


def _found(index: LexicalIndex, *terms: str) -> list[int]:
    return [hit.entry_id >> 16 for hit in index.search(terms, reach=REACH, limit=1000, deadline=NO_HURRY)]


def _random(count: int, seed: int = 3) -> Any:
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _meant(rows: range, **about: Any) -> dict[int, list[VectorEntry]]:
    drawn = _random(len(rows))
    return {row: [vector_entry(factories.attributes(row, **about), drawn[n])] for n, row in enumerate(rows)}


def _nearest(index: VectorIndex, vector: Any, limit: int = 10, **more: Any) -> list[int]:
    hits = index.search(vector, view=View.CHUNK, reach=REACH, limit=limit, deadline=NO_HURRY, **more)
    return [hit.entry_id >> 16 for hit in hits]


def _renew(index: Any, manifest: Any, changes: Any) -> None:
    made = index.begin(manifest)
    made.replace(changes)
    made.seal()
    index.switch(made)


def test_their_connections_have_names(url: str) -> None:
    """In pg_stat_activity, by the index, or as the URL says."""

    def opened(url: str) -> set[str]:
        with ExitStack() as indexes:
            for index in (_words(indexes, url), _vectors(indexes, url)):
                index.ping()
            with psycopg.connect(url) as asking:
                mine = "SELECT application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                found = asking.execute(f"{mine} AND datname = current_database() AND application_name <> ''").fetchall()
        return {name for (name,) in found}

    assert {"memsvc-pg-fulltext", "memsvc-pgvector"} <= opened(url)
    assert "agents" in opened(f"{url}&application_name=agents")


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_a_stricter_isolation_of_the_role_fails_no_writer(stack: ExitStack, isolation: str) -> None:
    """Changes of two processes to the entries of one owner wait for each other as usual."""
    url = stack.enter_context(database(default_transaction_isolation=isolation))
    one, other = _words(stack, url), _words(stack, url)
    _renew(one, LexicalManifest(1, 1, "a"), {})

    def write(index: LexicalIndex, first: int) -> None:
        for row in range(first, first + 40):
            index.replace(_said(row, "tea", f"word{row % 3}"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (one, other), (1, 101)))

    assert sorted(_found(one, "tea")) == [*range(1, 41), *range(101, 141)]


def test_a_switch_by_one_process_is_seen_by_the_others_at_once(stack: ExitStack, url: str) -> None:
    """By their searches, their changes and their counts, though they were told nothing."""
    one, other = _words(stack, url), _words(stack, url)
    _renew(one, LexicalManifest(1, 1, "a"), _said(1, "tea"))
    assert _found(other, "tea") == [1]

    _renew(one, LexicalManifest(2, 2, "a"), _said(2, "tea"))
    assert _found(other, "tea") == [2]

    _renew(one, LexicalManifest(3, 3, "a"), _said(3, "tea"))
    other.replace(_said(4, "tea"))
    assert _found(one, "tea") == _found(other, "tea") == [3, 4]
    assert other.manifest == LexicalManifest(3, 3, "a")
    assert other.count() == 2


def test_vectors_made_for_an_earlier_generation_are_refused(stack: ExitStack, url: str) -> None:
    """They are centred by its means: whoever brings them is told, and then knows the new manifest."""
    one, other = _vectors(stack, url), _vectors(stack, url)
    _renew(one, FIRST, {})
    assert other.manifest == FIRST
    _renew(one, replace(FIRST, generation=2), _meant(range(1, 3)))

    with pytest.raises(BackendUnavailableError):
        other.replace(_meant(range(5, 6)))

    assert other.manifest == replace(FIRST, generation=2)
    assert one.count() == other.count() == 2
    other.replace(_meant(range(5, 6)))
    assert sorted(_nearest(one, _random(1)[0])) == [1, 2, 5]


def test_tables_of_an_earlier_layout_go_with_the_next_generation(stack: ExitStack, url: str) -> None:
    """They are not read, and dropped when the words are in the new ones."""
    earlier = _words(stack, url)
    _renew(earlier, LexicalManifest(3, 1, "a"), _said(1, "tea"))
    with psycopg.connect(url) as connection:
        found = connection.execute("UPDATE index_generations SET kind = 'index_words' RETURNING base").fetchone()
    assert found is not None

    words = _words(stack, url)
    assert words.manifest is None
    _renew(words, LexicalManifest(1, 1, "a"), _said(2, "tea"))

    assert _found(words, "tea") == [2]
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT count(*) FROM pg_tables WHERE starts_with(tablename, %s)", found).fetchone()
        kinds = connection.execute("SELECT kind FROM index_generations").fetchall()
    assert (left, kinds) == ((0,), [("index_terms",)])


def test_one_process_at_a_time_makes_a_generation(stack: ExitStack, url: str) -> None:
    """Who comes meanwhile, or too late with the same number, is told that another is at it."""
    one, other = _words(stack, url), _words(stack, url)
    made = one.begin(LexicalManifest(1, 1, "a"))
    with pytest.raises(ReindexRunningError):
        other.begin(LexicalManifest(1, 1, "a"))

    made.seal()
    one.switch(made)

    with pytest.raises(ReindexRunningError):
        other.begin(LexicalManifest(1, 1, "a"))
    other.begin(LexicalManifest(2, 2, "a")).discard()
    assert other.manifest == LexicalManifest(1, 1, "a")


def test_what_a_dead_process_was_making_is_removed_by_the_next(stack: ExitStack, url: str) -> None:
    """It can no longer go live, and leaves no table behind."""
    one, other = _words(stack, url), _words(stack, url)
    made = one.begin(LexicalManifest(1, 1, "a"))
    made.replace(_said(9, "tea"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objid <> 0 "
            "AND pid <> pg_backend_pid() AND classid = 1835363710"
        )

    _renew(other, LexicalManifest(1, 1, "a"), _said(1, "tea"))

    with pytest.raises(BackendUnavailableError):
        made.replace(_said(8, "tea"))
    with pytest.raises(BackendUnavailableError):
        one.switch(made)
    assert _found(one, "tea") == [1]
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
    assert tables == (1 + 3,)


def test_processes_that_write_the_same_words_count_them_all(stack: ExitStack, url: str) -> None:
    """They wait for each other and never in a circle; in the end every word is counted, and forgotten, exactly."""
    indexes = [_words(stack, url) for _ in range(2)]
    _renew(indexes[0], LexicalManifest(1, 1, "a"), {})
    terms = [f"w{number}" for number in range(40)]

    def write(which: int) -> None:
        for turn in range(12):
            first = 100 * which + turn * 4
            order = terms if which else terms[::-1]
            indexes[which].replace({row: _said(row, *order)[row] for row in range(first, first + 4)})
        indexes[which].replace(dict.fromkeys(range(100 * which, 100 * which + 24), ()))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, range(2)))

    with psycopg.connect(url) as connection:
        base = connection.execute("SELECT base FROM index_generations").fetchone()
        assert base is not None
        counted = connection.execute(f'SELECT DISTINCT held FROM "{base[0]}_w" WHERE word IS NOT NULL').fetchall()
    assert counted == [(48,)]
    assert indexes[0].count() == 48
    indexes[0].replace(dict.fromkeys(range(200), ()))
    with psycopg.connect(url) as connection:
        left = connection.execute(f'SELECT count(*) FROM "{base[0]}_w" WHERE word IS NOT NULL').fetchone()
    assert left == (0,)


@pytest.mark.parametrize("kind", ["vectors", "lexical"])
def test_processes_that_replace_the_same_memory_do_not_fail(stack: ExitStack, url: str, kind: str) -> None:
    """A claim may expire while its owner still writes: the last of both writes wins."""
    rows = range(20)
    if kind == "vectors":
        first: Any = _vectors(stack, url)
        second: Any = _vectors(stack, url)
        changes: Any = _meant(rows)
        first.switch(first.begin(FIRST))
    else:
        first, second = _words(stack, url), _words(stack, url)
        changes = {row: _said(row, "walrus")[row] for row in rows}
        first.switch(first.begin(LexicalManifest(1, 1, "a")))
    second.ping()

    def replace_often(index: Any) -> None:
        for _ in range(15):
            index.replace(changes)

    with ThreadPoolExecutor(2) as executor:
        for done in [executor.submit(replace_often, index) for index in (first, second)]:
            done.result()

    assert first.count() == second.count() == len(rows)


def test_a_graph_finds_nearly_all_and_filters_leave_nothing_out(stack: ExitStack, url: str) -> None:
    """Searches of an owner of many entries take it, also for what is written later."""
    index = _vectors(stack, url, graph_threshold=LARGE, graph_search_width=40)
    _renew(index, FIRST, _meant(range(1, LARGE)))
    assert not index.wants_graph()
    _renew(index, replace(FIRST, generation=2), _meant(range(1, LARGE + 1)))
    assert index.wants_graph()
    exact = [_nearest(index, vector) for vector in _random(20, 9)]

    _renew(index, replace(FIRST, generation=3, hnsw=True), _meant(range(1, LARGE + 1)))
    found = [_nearest(index, vector) for vector in _random(20, 9)]
    later = vector_entry(factories.attributes(9999), _random(1, 5)[0])
    index.replace({9999: [later]})

    kept = [len(set(one) & set(other)) for one, other in zip(exact, found, strict=True)]
    assert sum(kept) >= 0.9 * 20 * 10
    assert _nearest(index, later.vector)[0] == 9999
    far = -_random(len(range(1, LARGE + 1)))[6]
    assert _nearest(index, far, where=AnyOf(Field.ROW, (7,))) == [7]
    assert len(_nearest(index, far, limit=LARGE + 10)) == LARGE + 1


def test_a_graph_is_not_searched_for_a_part_of_what_an_owner_has(stack: ExitStack, url: str) -> None:
    """A project has half of the topics, and nothing near to queries about the others: the nearest ones are found."""
    random, dimension = np.random.default_rng(4), 256
    topics = random.normal(size=(TOPICS, dimension))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    vectors = topics[np.arange(TOPICS * OF_TOPIC) % TOPICS] + 0.04 * random.normal(size=(TOPICS * OF_TOPIC, dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def held(row: int) -> VectorEntry:
        attributes = factories.attributes(row)._replace(project_id=str(row % 2), tags=(str(row % 2),))
        return VectorEntry(entry_id(row, View.CHUNK, 0), View.CHUNK, vectors[row], attributes)

    index = _vectors(stack, url, graph_threshold=LARGE, graph_links=4, graph_build_width=16, graph_search_width=20)
    _renew(index, replace(FIRST, dimension=dimension, hnsw=True), {row: [held(row)] for row in range(len(vectors))})
    owner = REACH.owner
    searches = {
        "project": (Reach(owner, ("0",)), None),
        "tag": (Reach(owner, ("0", "1")), AnyOf(Field.TAGS, ("0",))),
    }
    for name, (reach, where) in searches.items():
        for query in topics[1::2].astype(np.float32):
            hits = index.search(query, view=View.CHUNK, reach=reach, where=where, limit=10, deadline=NO_HURRY)
            nearest = 2 * np.argsort(-(vectors[::2] @ query), kind="stable")[:10]
            assert nearest.tolist() == [hit.entry_id >> 16 for hit in hits], name


def test_a_database_that_goes_away_is_found_again(stack: ExitStack, url: str) -> None:
    """While it is away the index is unavailable, and afterwards the first call works: nothing has to be restarted."""
    words, vectors = _words(stack, url), _vectors(stack, url)
    _renew(words, LexicalManifest(1, 1, "a"), _said(1, "tea"))
    _renew(vectors, FIRST, _meant(range(1, 2)))
    calls: list[Callable[[], object]] = [
        lambda: _found(words, "tea"),
        lambda: words.replace(_said(2, "tea")),
        lambda: _nearest(vectors, _random(1)[0]),
        lambda: vectors.replace(_meant(range(2, 3))),
        words.ping,
        vectors.ping,
    ]

    with down():
        for call in calls:
            with pytest.raises(BackendUnavailableError):
                call()
        assert words.manifest == LexicalManifest(1, 1, "a")

    for call in calls:
        call()
    assert _found(words, "tea") == [1, 2]
    assert len(_nearest(vectors, _random(1)[0])) == 2


def test_a_search_ends_soon_after_its_deadline(stack: ExitStack, url: str) -> None:
    """Also when the server is at something else: the statement is broken off."""
    words, vectors = _words(stack, url), _vectors(stack, url)
    _renew(words, LexicalManifest(1, 1, "a"), _said(1, "tea"))
    _renew(vectors, FIRST, _meant(range(1, 2)))
    with psycopg.connect(url) as connection:
        for base, part in connection.execute("SELECT base, kind FROM index_generations").fetchall():
            connection.execute(f'LOCK TABLE "{base}{"_p" if part == "index_terms" else ""}"')

        with pytest.raises(DeadlineExceededError):
            words.search(["tea"], reach=REACH, limit=1, deadline=Deadline.after(0.2))
        with pytest.raises(DeadlineExceededError):
            vectors.search(_random(1)[0], view=View.CHUNK, reach=REACH, limit=1, deadline=Deadline.after(0.2))

    assert _found(words, "tea") == [1]
    assert _nearest(vectors, _random(1)[0]) == [1]


def test_searches_go_on_while_generations_follow_each_other(stack: ExitStack, url: str) -> None:
    """In another process every search sees one whole generation."""
    one, other = _words(stack, url), _words(stack, url)
    _renew(one, LexicalManifest(1, 1, "a"), _said(1, "tea"))
    seen: set[tuple[int, ...]] = set()
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            seen.add(tuple(_found(other, "tea")))

    with ThreadPoolExecutor(2) as threads:
        searches = [threads.submit(search) for _ in range(2)]
        for number in range(2, 8):
            _renew(one, LexicalManifest(number, 1, "a"), _said(number % 2 + 1, "tea"))
        done.set()
        for each in searches:
            each.result()

    assert seen <= {(1,), (2,)}
