"""Two processes' indexes over one Qdrant server: they agree on the live generation, and lose no write to a switch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest, VectorManifest, View
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from memsvc.testing.vectors import EAST, unit, vector_entry
from memsvc_backends.qdrant_server.bm25_terms import entry_vector
from memsvc_backends.qdrant_server.connection import ServerConnection
from memsvc_backends.qdrant_server.generations import (
    FORMAT,
    ForeignManifestError,
    NewerManifestError,
    lexical_manifest,
    lexical_text,
)
from memsvc_backends.qdrant_server.settings import QdrantServerSettings
from memsvc_backends.qdrant_server.sparse_index import QdrantSparseIndex
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.qdrant_targets import (
    SERVER,
    Locked,
    context,
    local_connection,
    place,
    real_client,
    real_connection,
    sparse_settings,
    vector_settings,
)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock of all processes."""
    return Clock()


@dataclass
class Qdrant:
    """A server, with a prefix of its own for each test."""

    client: QdrantClient
    connect: Callable[[QdrantServerSettings, str], ServerConnection]
    prefix: str

    def collections(self) -> int:
        """Count the collections of the test."""
        found = self.client.get_collections().collections
        return sum(one.name.startswith(self.prefix) for one in found)


@pytest.fixture(params=["local", SERVER])
def qdrant(request: pytest.FixtureRequest) -> Iterator[Qdrant]:
    """The client's local mode, and a real server where there is one."""
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    if request.param == "local":
        with closing(QdrantClient(":memory:")) as client:
            shared = Locked(client)
            yield Qdrant(client, partial(local_connection, shared), prefix)
        return
    with real_client([prefix]) as client:
        yield Qdrant(client, real_connection, prefix)


@pytest.fixture
def pair(qdrant: Qdrant, clock: Clock) -> Iterator[tuple[QdrantServerIndex, QdrantServerIndex]]:
    """The indexes of two processes, of which the second notices a switch at its next look."""
    settings = vector_settings(prefix=qdrant.prefix, refresh_seconds=3600)
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            surroundings = BackendContext(directory=Path("/nonexistent"), now=clock)
            index = QdrantServerIndex(qdrant.connect(settings, NAME), settings, surroundings)
            stack.callback(index.close)
            made.append(index)
        yield made[0], made[1]


def renew(index: QdrantServerIndex, generation: int, *rows: int) -> None:
    """Make a generation with these memories live."""
    made = index.begin(VectorManifest(generation=generation, model="m", dimension=4, position=generation))
    made.replace({row: [vector_entry(factories.attributes(row), unit(*EAST))] for row in rows})
    made.seal()
    index.switch(made)


def rows(index: QdrantServerIndex) -> list[int]:
    """Return what a search finds."""
    hits = index.search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=99, deadline=NO_HURRY)
    return [hit.entry_id >> 16 for hit in hits]


def change(row: int) -> dict[int, Any]:
    """Return the change that gives a memory an entry."""
    return {row: [vector_entry(factories.attributes(row), unit(*EAST))]}


def test_what_one_writes_the_other_finds(pair: tuple[QdrantServerIndex, QdrantServerIndex]) -> None:
    """Both write to, and search, the generation that one of them made."""
    one, other = pair
    renew(one, 1, 1)
    other.replace(change(2))
    one.replace(change(3))

    assert rows(one) == rows(other) == [1, 2, 3]
    assert one.is_shared


def test_the_first_generation_is_known_to_all_at_once(
    pair: tuple[QdrantServerIndex, QdrantServerIndex],
) -> None:
    """Who knew of none asks again before it leaves a change out: nobody else would write that."""
    one, other = pair
    assert other.manifest is None

    renew(one, 1, 1)

    assert other.manifest is not None
    other.replace(change(2))
    assert rows(one) == [1, 2]


def test_a_write_beside_a_switch_is_refused_and_then_goes_to_the_next_generation(
    pair: tuple[QdrantServerIndex, QdrantServerIndex],
) -> None:
    """Entries that were made for one generation never come into another: they may be of another model."""
    one, other = pair
    renew(one, 1, 1)
    assert other.manifest is not None
    renew(one, 2, 1, 2)

    with pytest.raises(BackendUnavailableError):
        other.replace(change(3))
    assert rows(one) == [1, 2]

    assert other.manifest is not None
    assert other.manifest.generation == 2
    other.replace(change(3))
    assert rows(one) == rows(other) == [1, 2, 3]


def test_a_search_of_a_removed_generation_goes_to_the_next(
    pair: tuple[QdrantServerIndex, QdrantServerIndex], qdrant: Qdrant, clock: Clock
) -> None:
    """Who has not noticed a switch finds the generation before for a while, and after that the next."""
    one, other = pair
    renew(one, 1, 1)
    assert rows(other) == [1]
    renew(one, 2, 2)
    assert rows(other) == [1]

    clock.now += timedelta(seconds=11)
    one._generations._looked = -1.0
    one.ping()

    assert qdrant.collections() == 1
    assert rows(other) == rows(one) == [2]


def test_of_two_who_build_at_once_the_second_is_refused(pair: tuple[QdrantServerIndex, QdrantServerIndex]) -> None:
    """What it made is not taken, and what is live stays."""
    one, other = pair
    renew(one, 1, 1)
    late = other.begin(VectorManifest(generation=2, model="m", dimension=4, position=2))
    late.seal()
    renew(one, 2, 2)

    with pytest.raises(BackendUnavailableError):
        other.switch(late)
    late.discard()
    assert rows(one) == [2]


def test_what_another_is_making_is_left_alone_and_what_the_dead_left_is_removed(
    pair: tuple[QdrantServerIndex, QdrantServerIndex], qdrant: Qdrant, clock: Clock
) -> None:
    """A generation counts as left when it was not written to for ten minutes."""
    one, other = pair
    renew(one, 1, 1)
    making = other.begin(VectorManifest(generation=2, model="m", dimension=4, position=2))

    def look(after: timedelta) -> int:
        clock.now += after
        one._generations._looked = -1.0
        one.ping()
        return qdrant.collections()

    assert look(timedelta(minutes=9)) == 2
    making.seal()
    assert look(timedelta(minutes=9)) == 2
    assert look(timedelta(minutes=2)) == 1


def test_the_generation_before_goes_away_by_use_alone(
    pair: tuple[QdrantServerIndex, QdrantServerIndex], qdrant: Qdrant, clock: Clock
) -> None:
    """Nobody need ask how the index is: what is erased later would stay in it for ever."""
    one, _ = pair
    renew(one, 1, 1)
    renew(one, 2, 2)
    assert qdrant.collections() == 2

    clock.now += timedelta(minutes=1)
    one._generations._known_until = one._generations._looked = -1.0
    assert rows(one) == [2]

    # The search has begun the clearing beside itself, and does not wait long for its end.
    with one._generations._refreshing:
        assert qdrant.collections() == 1


def test_installations_with_like_names_keep_apart(qdrant: Qdrant, clock: Clock) -> None:
    """No one's collections are another's, though its prefix begins like it."""
    made = []
    for prefix in (qdrant.prefix, f"{qdrant.prefix}-vectors"):
        settings = vector_settings(prefix=prefix)
        surroundings = BackendContext(directory=Path("/nonexistent"), now=clock)
        made.append(QdrantServerIndex(qdrant.connect(settings, NAME), settings, surroundings))
        renew(made[-1], 1, len(made))
    clock.now += timedelta(days=1)
    for index in made:
        index._generations._looked = -1.0
        index.ping()

    assert [rows(index) for index in made] == [[1], [2]]


def test_a_manifest_of_a_later_format_is_told_from_a_foreign_one() -> None:
    """What a newer version made is not rebuilt by an older one; what no version made is."""
    manifest = LexicalManifest(1, 0, "3")
    text = lexical_text(manifest)
    assert lexical_manifest(text) == manifest
    later, earlier = (text.replace(f'"format": {FORMAT}', f'"format": {number}') for number in (FORMAT + 1, FORMAT - 1))
    with pytest.raises(NewerManifestError):
        lexical_manifest(later)
    for foreign in (earlier, "", '{"format": "9"}'):
        with pytest.raises(ForeignManifestError) as caught:
            lexical_manifest(foreign)
        assert not isinstance(caught.value, NewerManifestError)


@pytest.mark.parametrize("kind", ["local", SERVER])
def test_later_generations_know_how_long_entries_are(kind: str) -> None:
    """The average length is the setting in the first generation, and that of its entries in the next."""
    settings = sparse_settings(average_terms=7.0)
    with place(kind) as connect:
        index = QdrantSparseIndex(connect(settings, "words"), settings, context())
        for generation, terms in ((1, ["tea"] * 4), (2, ["tea"] * 4)):
            made = index.begin(LexicalManifest(generation, 1, "a"))
            made.replace({1: [lexical_entry(factories.attributes(1), terms)]})
            made.seal()
            assert made.made.metadata["memsvc_average_terms"] == {1: 7.0, 2: 4.0}[generation]  # type: ignore[attr-defined]
            index.switch(made)
        index.close()


def test_terms_are_weighed_by_frequency_and_length() -> None:
    """The formula is that of BM25 without the rarity: f (k1 + 1) / (f + k1 (1 - b + b length / average))."""
    vector = entry_vector(["tea", "tea", "milk", "cup"], average=8.0)

    thinning = 1.2 * (1 - 0.75 + 0.75 * 4 / 8)
    assert sorted(vector.values) == pytest.approx(sorted([2 * 2.2 / (2 + thinning)] + [2.2 / (1 + thinning)] * 2))
