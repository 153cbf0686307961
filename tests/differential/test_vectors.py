"""Every vector index and the reference find the same entries, whatever the filter and whatever was written before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from memsvc.domain.filters import (
    NUMBERS,
    STORE_ONLY,
    And,
    AnyOf,
    Field,
    Filter,
    Not,
    Or,
    Range,
    number_terms,
    number_test,
)
from memsvc.domain.index_entries import Attributes, VectorManifest, View, entry_id
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import VectorEntry, VectorIndex
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY
from memsvc_backends.in_memory.indexes import VECTORS
from memsvc_backends.postgres_index import PGVECTOR
from memsvc_backends.postgres_index.settings import PgvectorSettings
from memsvc_backends.qdrant_edge import EDGE
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.postgres_server import without_tables
from tests.support.qdrant_targets import place, vector_settings

DIMENSION = 8
OWNERS = ("\x1fada", "\x1fbob")
PROJECTS = ("", "web", "we b")
STRINGS = ("", "a", "A", "a b", "a%20;b", "ü\u3000x", "=", "tags=a")
NUMBERS_HELD = (
    0, 1, 2, 3, 1_770_370_200_000_001, 1_770_370_200_000_002,
    -62_135_596_800_000_000, 10_413_792_000_000_001, 253_402_300_799_999_998, 253_402_300_799_999_999,
)  # fmt: skip
"""The last ones are times so far from ours that a double cannot hold each."""
STATES = {"layer": ("SESSION", "b", "c"), "tier": ("ARCHIVED", "b", "c"), "status": ("ACTIVE", "ACTIVE", "b")}
ENDS = ("expire_time", "valid_from", "valid_to")
"""Many memories are active, and nothing else: an index may have a short way to them."""
NAMES = (*STRINGS, "b", "c", "ACTIVE", "ARCHIVED", "SESSION")
FIELDS = [field for field in Field if field not in STORE_ONLY]
BULK, LATER = 400, 60
METADATA_NUMBERS = (-2.5, -1, 0, 0.1, 1, 3, 250, 1e300)


def attributes(row: int, random: Random) -> Attributes:
    """Return attributes drawn from small pools, so that filters hit often."""
    drawn: dict[str, Any] = {name: random.choice(STRINGS) for name in ("agent_id", "session_id", "category", "speaker")}
    drawn |= {"kind": random.choice("ab")}
    drawn |= {name: random.choice(NUMBERS_HELD) for name in ("importance", "create_time", "update_time")}
    drawn |= {"event_time": random.choice((None, *NUMBERS_HELD))}
    drawn |= {name: random.choice(values) for name, values in STATES.items()}
    drawn |= {name: random.choice((*[None] * 9, *NUMBERS_HELD)) for name in ENDS}
    return factories.attributes(row)._replace(
        owner=random.choice(OWNERS),
        project_id=random.choice(PROJECTS),
        confidence=random.choice((0.0, 0.25, 0.5, 1.0)),
        fingerprint=random.getrandbits(63),
        metadata=tuple(number_terms({"n": random.sample(METADATA_NUMBERS, random.randrange(3))})),
        **drawn,
    )


def entries(row: int, random: Random) -> list[VectorEntry]:
    """Return the entries of a memory: one to three, of one or two views."""
    held = attributes(row, random)
    named = [(View.CHUNK, 0), *random.sample([(View.CHUNK, 1), (View.SENTENCES, 0)], random.randrange(3))]
    drawn = np.random.default_rng(random.getrandbits(32)).normal(size=(len(named), DIMENSION)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return [
        VectorEntry(entry_id(row, view, ordinal), view, vector, held)
        for (view, ordinal), vector in zip(named, drawn, strict=True)
    ]


@pytest.fixture(scope="module", params=["qdrant-edge", "pgvector", "qdrant"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[VectorIndex, VectorIndex]]:
    """Open the reference and the index with the same entries: most packed by the builder, some written later."""

    def context(name: str) -> BackendContext:
        return BackendContext(directory=Path(tmp_path_factory.mktemp(name)), now=lambda: datetime.now(UTC))

    with ExitStack() as stack:
        reference = stack.enter_context(VECTORS.open(BackendSettings(), context("reference")))
        opened: AbstractContextManager[VectorIndex]
        if request.param == "qdrant":
            connect, chosen = stack.enter_context(place("local")), vector_settings(batch_points=7)
            opened = closing(QdrantServerIndex(connect(chosen, NAME), chosen, context("qdrant")))
        elif request.param == "qdrant-edge":
            opened = EDGE.open(QdrantEdgeSettings(slice_points=7), context("edge"))
        else:
            url = SecretStr(without_tables("vectors_congruence"))
            opened = PGVECTOR.open(PgvectorSettings(url=url), context("postgres"))
        index = stack.enter_context(opened)
        for each in (reference, index):
            random = Random(5)
            made = each.begin(
                VectorManifest(generation=1, model="m", dimension=DIMENSION, position=1, views=tuple(View))
            )
            made.replace({row: entries(row, random) for row in range(BULK)})
            made.seal()
            each.switch(made)
            each.replace({row: entries(row, random) for row in range(BULK - LATER, BULK + LATER)})
            each.replace(dict.fromkeys(range(0, BULK, 9), ()))
        yield reference, index


_METADATA_BOUND = st.none() | st.sampled_from((*METADATA_NUMBERS, 2, -0.0, float("inf")))


def leaves() -> st.SearchStrategy[Filter]:
    """Draw tests of one field, with values of its sort."""
    bound = st.none() | st.sampled_from(NUMBERS_HELD) | st.sampled_from((-1, 0.5, 1.5, 1e18, float("inf")))
    number, string = st.sampled_from(sorted(NUMBERS - STORE_ONLY)), st.sampled_from(sorted({*FIELDS} - NUMBERS))
    return st.one_of(
        st.builds(AnyOf, number, st.lists(st.sampled_from(NUMBERS_HELD) | st.integers(0, BULK), max_size=3).map(tuple)),
        st.builds(AnyOf, string, st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)),
        st.builds(Range, number, bound, bound, bound, bound),
        st.builds(Range, st.just(Field.METADATA), *[_METADATA_BOUND] * 4, st.just("n")).map(number_test),
    )


def filters() -> st.SearchStrategy[Filter]:
    """Draw trees of tests."""
    return st.recursive(
        leaves(),
        lambda child: st.one_of(
            st.lists(child, max_size=3).map(lambda children: And(tuple(children))),
            st.lists(child, max_size=3).map(lambda children: Or(tuple(children))),
            child.map(Not),
        ),
        max_leaves=6,
    )


REACHES = st.builds(Reach, st.sampled_from(OWNERS), st.lists(st.sampled_from(PROJECTS), unique=True).map(tuple))
FEW = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FEW
@given(reach=REACHES, where=st.none() | filters(), view=st.sampled_from(View), limit=st.sampled_from((1, 7, 1000)))
def test_searches_agree(
    pair: tuple[VectorIndex, VectorIndex], reach: Reach, where: Filter | None, view: View, limit: int
) -> None:
    """The same entries in the same order, with the same scores."""
    query = np.random.default_rng(limit).normal(size=DIMENSION).astype(np.float32)
    expected, actual = (
        index.search(query, view=view, reach=reach, where=where, limit=limit, deadline=NO_HURRY) for index in pair
    )

    assert [hit.entry_id for hit in actual] == [hit.entry_id for hit in expected]
    assert [hit.score for hit in actual] == pytest.approx([hit.score for hit in expected], abs=1e-5)


@settings(FEW, max_examples=25)
@given(rows=st.lists(st.integers(0, BULK + 2 * LATER), max_size=20), seed=st.integers(0, 2**32), gone=st.integers(2, 5))
def test_changes_agree(pair: tuple[VectorIndex, VectorIndex], rows: list[int], seed: int, gone: int) -> None:
    """After any change both hold the same entries, and count the same in every reach."""
    for index in pair:
        random = Random(seed)
        index.replace({row: () if row % gone == 0 else entries(row, random) for row in rows})
    expected, actual = (sorted(index.inventory(), key=lambda listed: listed.entry_id) for index in pair)

    assert actual == expected
    for owner in OWNERS:
        for reach in (Reach(owner, PROJECTS), Reach(owner, ("web",)), Reach(owner, ())):
            reference, index = pair
            assert index.count(reach=reach) == reference.count(reach=reach)
