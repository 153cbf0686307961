"""SQLite and PostgreSQL agree: on lists, rows and keyword hits, whatever the filter, and on what a series of writes leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from memsvc.domain.clock import to_micros
from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import And, AnyOf, Field, Filter, Match, Not, Or, Range
from memsvc.domain.index_entries import ChangeAction, Chunk
from memsvc.domain.memory import Json, Keyword, Kind, Memory, Recurrence, Reminder, Status
from memsvc.domain.reminders import window
from memsvc.domain.scope import Reach
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.ports.metadata import ContentName, MetadataStore, Record, RequestRecord, Transaction, UniquenessRaceError
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied
from tests.support.sqlite_store import sqlite_store

Stores = tuple[MetadataStore, MetadataStore]

PROJECTS = ("", "web", "web-2")
OWNERS = ("\x1fada", "\x1fada-2")
WORDS = ("a", "A", "ab", "世界", "it's", "")
MOMENTS = tuple(NOW + timedelta(microseconds=step) for step in (-(10**15), -1, 0, 1, 10**12))
REMINDERS = (Reminder(NOW.month, NOW.day), Reminder(2, 29), Reminder(NOW.month, NOW.day, NOW.year, Recurrence.NONE))
METADATA_VALUES: tuple[dict[str, Json], ...] = (
    {},
    {"a": "a"},
    {"a": {"b": [1, None]}},
    {"a": {"b": [1.0, "世界", {}]}},
    {"a": {"b": "1"}, "c": True},
    {"a": {"b": [-7, 0.5]}, "c": 3},
)
_TEXTS = (Field.KEY, Field.AGENT_ID, Field.SESSION_ID, Field.CATEGORY, Field.SPEAKER, Field.TAGS)
_TIMES = (
    Field.CREATE_TIME, Field.UPDATE_TIME, Field.ACCESS_TIME, Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM,
    Field.VALID_TO,
)  # fmt: skip
_SMALL = (Field.IMPORTANCE, Field.CONFIDENCE, Field.ROW)

words = st.sampled_from(WORDS)
moments = st.sampled_from(MOMENTS)
micros = st.sampled_from([to_micros(moment) for moment in MOMENTS])
small = st.integers(-1, 12) | st.floats(-1, 12, width=16)


def _bounds(field: Field, numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Filter]:
    bound = st.none() | numbers
    return st.builds(Range, st.just(field), above=bound, at_least=bound, below=bound, at_most=bound)


def _tests() -> st.SearchStrategy[Filter]:
    def any_of(field: Field, values: st.SearchStrategy[str] | st.SearchStrategy[int]) -> st.SearchStrategy[Filter]:
        return st.builds(AnyOf, st.just(field), st.lists(values, max_size=3).map(tuple))

    return st.one_of(
        *(any_of(field, words) for field in _TEXTS),
        any_of(Field.METADATA, st.sampled_from(['a="a"', "a.b=1", "a.b=null", 'a.b="世界"', "a"])),
        st.builds(
            Range,
            st.just(Field.METADATA),
            path=st.sampled_from(["a.b", "c", "a"]),
            above=st.none() | small,
            at_least=st.none() | small,
            below=st.none() | small,
            at_most=st.none() | small,
        ),
        st.builds(
            AnyOf, st.just(Field.KEY), st.lists(words.filter(bool), max_size=3).map(tuple), st.just(Match.PREFIX)
        ),
        any_of(Field.STATUS, st.sampled_from([status.value for status in Status])),
        any_of(Field.KIND, st.sampled_from([kind.value for kind in Kind][:3])),
        *(any_of(field, micros) for field in _TIMES),
        *(any_of(field, st.integers(-1, 12)) for field in _SMALL),
        *(_bounds(field, micros) for field in _TIMES),
        *(_bounds(field, small) for field in _SMALL),
    )


filters: st.SearchStrategy[Filter] = st.recursive(
    _tests(),
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=8,
)
reaches = st.builds(Reach, st.sampled_from(OWNERS), st.lists(st.sampled_from(PROJECTS), unique=True).map(tuple))
orders = st.builds(Order, st.sampled_from(OrderField), st.booleans())


def some_memory(seed: int) -> Memory:
    """Return a memory that has much in common with others, the same for the same seed."""
    random = Random(seed)
    plain = factories.memory(
        random.choice(["one", "two", "three", "四"]),
        user_id=random.choice(OWNERS)[1:],
        project_id=random.choice(PROJECTS),
        session_id=random.choice(WORDS),
        agent_id=random.choice(WORDS),
    )
    terms = random.sample(WORDS, random.randrange(5))
    return replace(
        plain,
        key=random.choice(("", *WORDS)),
        category=random.choice(WORDS),
        speaker=random.choice(WORDS),
        kind=random.choice(list(Kind)[:3]),
        status=random.choice([Status.ACTIVE, Status.ARCHIVED, Status.DELETED]),
        tags=tuple(random.choices(WORDS, k=random.randrange(4))),
        keywords=tuple(Keyword(term, random.choice([0.1, 0.2, 0.3, 0.7, 1.0])) for term in terms),
        metadata=random.choice(METADATA_VALUES),
        importance=random.randint(1, 5),
        confidence=random.choice([0.0, 0.5, 1.0]),
        access_count=random.randrange(4),
        create_time=random.choice(MOMENTS),
        update_time=random.choice(MOMENTS),
        access_time=random.choice((None, *MOMENTS)),
        event_time=random.choice((None, *MOMENTS)),
        expire_time=random.choice((None, *MOMENTS)),
        valid_from=random.choice((None, *MOMENTS)),
        valid_to=random.choice((None, *MOMENTS)),
        reminder=random.choice((None, *REMINDERS)),
    )


def _value(memory: Memory, order: Order) -> int | None:
    value: datetime | int | None = getattr(memory, order.field.value)
    return to_micros(value) if isinstance(value, datetime) else value


def _open(stack: ExitStack, directory: Path) -> Stores:
    """Open SQLite and PostgreSQL, both empty."""
    url = SecretStr(stack.enter_context(emptied(directory.name.rstrip("0123456789"))))
    postgres = SQL.open(SqlSettings(url=url), BackendContext(directory, lambda: NOW))
    return stack.enter_context(sqlite_store(directory)), stack.enter_context(postgres)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """Open both stores."""
    with ExitStack() as stack:
        yield _open(stack, tmp_path_factory.mktemp("filled"))


@pytest.fixture(scope="module")
def filled(stores: Stores) -> Stores:
    """Give both stores the same memories."""
    for seed in range(100):
        memory = some_memory(seed)
        new = Record(replace(memory, key=f"{memory.key}{seed}" if seed % 3 else ""), is_unique=False)
        for store in stores:
            insert(store, new)
    return stores


@settings(max_examples=150, deadline=None)
@given(where=filters, reach=reaches)
def test_rows_agree(filled: Stores, where: Filter, reach: Reach) -> None:
    """The memories match any filter that its plain meaning selects, and those that do not match its negation."""
    sqlite, postgres = filled
    every = sqlite.memories.page(reach=reach, where=None, order=Order(), after=None, limit=999)
    rows = sqlite.memories.rows_where(where, reach=reach)

    assert sorted(rows) == sorted(memory.row for memory in every if memory_test(where)(memory))
    assert postgres.memories.rows_where(where, reach=reach) == rows
    assert not set(postgres.memories.rows_where(Not(where), reach=reach)).intersection(rows)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), where=st.none() | filters, reach=reaches, order=orders, limit=st.integers(0, 120))
def test_pages_agree(
    filled: Stores, data: st.DataObject, where: Filter | None, reach: Reach, order: Order, limit: int
) -> None:
    """Lists are the same from the beginning and from any place."""
    sqlite, postgres = filled
    whole = sqlite.memories.page(reach=reach, where=where, order=order, after=None, limit=limit)
    last = data.draw(st.sampled_from(whole)) if whole else None
    after = PageCursor(data.draw(st.none() | micros | st.integers(0, 5)), data.draw(st.integers(0, 101)))
    if last is not None and data.draw(st.booleans()):
        after = PageCursor(_value(last, order), last.row)

    assert postgres.memories.page(reach=reach, where=where, order=order, after=None, limit=limit) == whole
    assert postgres.memories.page(
        reach=reach, where=where, order=order, after=after, limit=limit
    ) == sqlite.memories.page(reach=reach, where=where, order=order, after=after, limit=limit)


@settings(max_examples=100, deadline=None)
@given(terms=st.lists(words, max_size=4), where=st.none() | filters, reach=reaches, limit=st.integers(0, 60))
def test_keyword_hits_agree(filled: Stores, terms: list[str], where: Filter | None, reach: Reach, limit: int) -> None:
    """The same hits with the same scores in the same order."""
    sqlite, postgres = filled

    assert postgres.memories.keyword_hits(terms, reach=reach, where=where, limit=limit) == sqlite.memories.keyword_hits(
        terms, reach=reach, where=where, limit=limit
    )


class Renumbered:
    """The texts of one store's values, with rows and positions numbered in the order in which they are met.

    PostgreSQL leaves gaps: it takes numbers ahead of the commit, and does not use those of writes that are refused.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {"row": {"0": 0}, "position": {"0": 0}}

    def text(self, value: object) -> str:
        """Return the text of a value."""
        return re.sub(r"\b(previous_)?(row|position)=(\d+)", self._number, str(value))

    def _number(self, found: re.Match[str]) -> str:
        known = self._known[found[2]]
        return f"{found[1] or ''}{found[2]}={known.setdefault(found[3], len(known))}"


_CHUNKS = tuple(Chunk(ordinal, f"{ordinal}", (), 1, 1) for ordinal in range(2))


def _step(store: MetadataStore, number: int, memory: Memory) -> str:
    """Write one thing that depends on the number, and say what came of it."""
    every = store.feed.changes_after(0, limit=10**6)
    reach = Reach(memory.scope.owner, PROJECTS)
    with suppress(UniquenessRaceError), store.transaction() as transaction:
        before = transaction.get(every[number % len(every)].memory_id, reach=reach) if every else None
        if before is None or number % 4 == 0:
            return str(transaction.insert([Record(memory, chunks=_CHUNKS[: number % 3])]))
        if number % 4 == 1:
            transaction.purge(before)
        elif number % 4 == 2:
            transaction.add_accesses({before.id: (number, NOW)})
        else:
            after = replace(memory, id=before.id, row=before.row, scope=before.scope, revision=before.revision + 1)
            record = Record(after, chunks=_CHUNKS[: number % 3], given_vector=b"v" * (number % 2))
            transaction.update(before, record, ChangeAction.UPDATED)
        return f"position={transaction.position}"
    return "race"


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=5, max_size=30))
def test_histories_agree(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]) -> None:
    """After the same writes, refused ones among them, both hold the same memories, revisions, documents and changes."""
    with ExitStack() as stack:
        stores = _open(stack, tmp_path_factory.mktemp("history"))
        said = [(store, Renumbered()) for store in stores]
        for number, seed in steps:
            memory = some_memory(seed)
            outcomes = [numbers.text(_step(store, number, memory)) for store, numbers in said]
            assert outcomes[0] == outcomes[1]
        sqlite, postgres = stores

        _require_equal_feeds(said)
        changes = sqlite.feed.changes_after(0, limit=10**6)
        rows = [[change.row for change in store.feed.changes_after(0, limit=10**6)] for store in stores]
        for reach in (Reach(owner, PROJECTS) for owner in OWNERS):
            assert postgres.memories.counts(reach=reach) == sqlite.memories.counts(reach=reach)
            for change in changes:
                of, at = change.memory_id, change.revision
                found = [numbers.text(s.memories.revision(of, at, reach=reach)) for s, numbers in said]
                assert found[0] == found[1]
                lines = [
                    numbers.text(s.memories.revisions(of, reach=reach, before=None, limit=9)) for s, numbers in said
                ]
                assert lines[0] == lines[1]
            for moment in MOMENTS:
                past = [
                    (
                        [known[row] for row in sorted(known)],
                        store.checkpoints.tombstones(reach=reach, moment=moment, after_row=0, limit=99),
                    )
                    for store, of_store in zip(stores, rows, strict=True)
                    for known in [store.memories.known_at(of_store, moment, reach=reach)]
                ]
                assert said[0][1].text(past[0]) == said[1][1].text(past[1])
            for limit in (1, 2, 99):
                around = window(NOW, 7)
                due = [
                    numbers.text(s.reminders.page(reach=reach, window=around, after=None, limit=limit))
                    for s, numbers in said
                ]
                assert due[0] == due[1]
            one, other = (
                numbers.text(sorted(store.memories.candidates(of_store, reach=reach), key=lambda c: c.row))
                for (store, numbers), of_store in zip(said, rows, strict=True)
            )
            assert one == other


def _require_equal_feeds(said: Sequence[tuple[MetadataStore, Renumbered]]) -> None:
    """Require that both stores hold the same changes, documents and expected entries."""
    reads: tuple[Callable[[Any], object], ...] = (
        lambda feed: feed.changes_after(0, limit=10**6),
        lambda feed: feed.scan(after_row=0, limit=99),
        lambda feed: feed.expected_entries(after_row=0, limit=99),
    )
    for read in reads:
        one, other = (numbers.text(read(store.feed)) for store, numbers in said)
        assert one == other


def _write(transaction: Transaction, number: int, memory: Memory) -> str:
    """Write as one of several writers of a transaction does: look first, then insert what is free; say what was."""
    owner, project = memory.scope.owner, memory.scope.project_id
    name = ContentName(project, memory.kind.value, memory.content_hash, memory.speaker)
    request = (owner, "Create", f"{number % 4}")
    with transaction.savepoint():
        answer = transaction.recall_request(*request) if number % 6 else None
        bearers = transaction.find_keys(owner, [(project, memory.key)]) if memory.key and number % 5 else {}
        holders = transaction.find_contents(owner, [name]) if number % 3 else {}
        last = transaction.last_row(owner, project, memory.scope.session_id)
        found = [*bearers.values(), *holders.values()]
        if not found:
            found = transaction.insert([Record(replace(memory, previous_row=last), is_unique=bool(number % 3))])
        elif number % 2:
            after = replace(found[0], title=f"{number}", revision=found[0].revision + 1)
            transaction.update(found[0], Record(after, is_unique=False), ChangeAction.UPDATED)
        transaction.remember_request(*request, RequestRecord(f"{number}", f"{len(found)}"))
        if number % 7 == 6:
            raise _StopError
    place = f"row={last} position={transaction.position}"
    return str((answer, transaction.recall_request(*request), found, place))


class _StopError(Exception):
    """Takes a part of a transaction back."""


def _group(store: MetadataStore, writers: list[tuple[int, Memory]]) -> list[str]:
    outcomes: list[str] = []
    try:
        with store.transaction() as transaction:
            for number, memory in writers:
                try:
                    outcomes.append(_write(transaction, number, memory))
                except _StopError:
                    outcomes.append("taken back")
                except UniquenessRaceError:
                    outcomes.append("race")
                    if number % 4 == 3:
                        raise
    except UniquenessRaceError:
        outcomes.append("void")
    return outcomes


@settings(max_examples=40, deadline=None)
@given(
    groups=st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=9), min_size=1, max_size=6
    )
)
def test_groups_agree(tmp_path_factory: pytest.TempPathFactory, groups: list[list[tuple[int, int]]]) -> None:
    """Writers that share a transaction see each other and fail alone, whatever of them waits to be written."""
    with ExitStack() as stack:
        said = [(store, Renumbered()) for store in _open(stack, tmp_path_factory.mktemp("groups"))]
        for group in groups:
            writers = [(number, some_memory(seed)) for number, seed in group]
            one, other = (numbers.text(_group(store, writers)) for store, numbers in said)
            assert one == other

        _require_equal_feeds(said)
        for store, _ in said:
            changes = store.feed.changes_after(0, limit=10**6)
            assert not changes or store.feed.head_position() >= changes[-1].position
