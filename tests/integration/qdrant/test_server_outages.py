"""The two indexes over a Qdrant server whose connections drop, are refused, and hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.index_entries import Hit, LexicalManifest, VectorManifest, View
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from memsvc.testing.vectors import EAST, unit, vector_entry
from memsvc_backends.qdrant_server.connection import open_connection
from memsvc_backends.qdrant_server.sparse_index import NAME as SPARSE_NAME
from memsvc_backends.qdrant_server.sparse_index import QdrantSparseIndex
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.qdrant_fake import Keeper, served
from tests.support.qdrant_targets import (
    SERVER,
    context,
    local_port,
    sparse_settings,
    vector_settings,
)
from tests.support.tcp_proxy import Proxy, proxy
from tests.support.thread_limit import no_new_threads
from tests.support.until import until

ROW = 1
TIMEOUT_SECONDS = 120.0
QUICK: dict[str, Any] = {"attempts": 3, "backoff_seconds": 0.02, "timeout_seconds": TIMEOUT_SECONDS}
"""Nobody waits in vain for so long: a server that is away is told of at once."""

T = TypeVar("T")


@dataclass
class Place:
    """Both indexes behind a proxy to a server that keeps what it is told."""

    proxy: Proxy
    keeper: Keeper | None
    vectors: QdrantServerIndex
    words: QdrantSparseIndex

    def near(self, deadline: Deadline = NO_HURRY) -> Sequence[Hit]:
        """Search by meaning."""
        return self.vectors.search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=9, deadline=deadline)

    def named(self, deadline: Deadline = NO_HURRY) -> Sequence[Hit]:
        """Search by words."""
        return self.words.search(["tea"], reach=REACH, limit=9, deadline=deadline)

    def fill(self) -> None:
        """Make the first generations, each with one memory."""
        attributes = factories.attributes(ROW)
        vectors = self.vectors.begin(VectorManifest(generation=1, model="m", dimension=4, position=1))
        vectors.replace({ROW: [vector_entry(attributes, unit(*EAST))]})
        vectors.seal()
        self.vectors.switch(vectors)
        words = self.words.begin(LexicalManifest(1, 1, "a"))
        words.replace({ROW: [lexical_entry(attributes, ["tea"])]})
        words.seal()
        self.words.switch(words)


@pytest.fixture(params=["grpc", SERVER])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A filled place: the stand-in, and a real server without TLS on this machine where there is one."""
    with local_port(request.param) as (keeper, port, given), proxy(port) as between:
        address = f"http://127.0.0.1:{between.port}"
        common = {"url": address, **given, **QUICK}
        dense, sparse = vector_settings(**common), sparse_settings(**common)
        vectors = QdrantServerIndex(open_connection(dense, NAME), dense, context())
        words = QdrantSparseIndex(open_connection(sparse, SPARSE_NAME), sparse, context())
        made = Place(between, keeper, vectors, words)
        made.fill()
        yield made
        vectors.close()
        words.close()


def eventually(ask: Callable[[], T]) -> T:
    """Return what is answered once the server is found again: by each of several connections in its own time."""
    answers: list[T] = []

    def is_answered() -> bool:
        with suppress(BackendUnavailableError):
            answers.append(ask())
        return bool(answers)

    until(is_answered)
    return answers[0]


def test_dropped_connections_are_made_anew(place: Place) -> None:
    """A search after a drop succeeds by itself, or within a second."""
    for _ in range(3):
        place.proxy.drop()
        assert [hit.entry_id for hit in eventually(place.near)] == [hit.entry_id for hit in eventually(place.named)]


def test_a_server_that_refuses_is_unavailable_until_it_is_back(place: Place) -> None:
    """Every call says so, changes nothing, and works afterwards on the same objects."""
    place.proxy.refuse()

    for call in (place.near, place.named, place.vectors.ping, place.words.ping, place.vectors.count):
        with pytest.raises(BackendUnavailableError):
            call()
    with pytest.raises(BackendUnavailableError):
        place.vectors.replace({2: [vector_entry(factories.attributes(2), unit(*EAST))]})
    assert place.vectors.manifest is not None

    place.proxy.listen()
    assert len(eventually(place.near)) == 1
    eventually(lambda: place.vectors.replace({2: [vector_entry(factories.attributes(2), unit(*EAST))]}))
    assert len(eventually(place.near)) == 2
    eventually(place.words.ping)


def test_a_deadline_ends_a_search_of_a_server_that_hangs(place: Place) -> None:
    """The caller is told that its time is over, not that the server is away."""
    place.near(), place.named()
    place.proxy.hold()
    try:
        for ask in (place.near, place.named):
            with pytest.raises((DeadlineExceededError, BackendUnavailableError)):
                ask(Deadline.after(0.5))
    finally:
        place.proxy.release()
    assert len(eventually(place.near)) == len(eventually(place.named)) == 1


def test_a_deadline_is_kept_though_word_of_the_live_generation_is_due(place: Place) -> None:
    """A search that also has to ask which generation is live does not wait for the answer of a server that hangs."""
    place.near(), place.named()
    place.vectors._generations._known_until = place.words._generations._known_until = 0.0
    place.proxy.hold()
    try:
        for ask in (place.near, place.named):
            started = time.monotonic()
            with pytest.raises((DeadlineExceededError, BackendUnavailableError)):
                ask(Deadline.after(0.5))
            # The client counts in whole seconds; without the deadline it would wait for its own time limit.
            assert time.monotonic() - started < TIMEOUT_SECONDS / 2
    finally:
        place.proxy.release()
    assert len(eventually(place.near)) == len(eventually(place.named)) == 1


def test_an_index_may_be_opened_before_its_server(place: Place) -> None:
    """Opening asks nobody; whoever asks for the manifest is told that it cannot be known, not that there is none."""
    place.proxy.refuse()
    settings = place.vectors._settings
    early = QdrantServerIndex(open_connection(settings, NAME), settings, context())
    with pytest.raises(BackendUnavailableError):
        _ = early.manifest

    place.proxy.listen()
    assert eventually(lambda: [Hit(early.manifest.generation, 0.0)] if early.manifest else [])[0].entry_id == 1
    early.close()


def test_a_server_that_was_started_anew_is_found(place: Place) -> None:
    """On another port behind the same address, with what it had."""
    if place.keeper is None:
        pytest.skip("A real server is not started anew here.")
    with served(place.keeper) as port:
        place.proxy.target = port
        place.proxy.drop()
        assert len(eventually(place.near)) == len(eventually(place.named)) == 1


def test_which_generation_is_live_is_asked_again_when_a_thread_can_be_started(place: Place) -> None:
    """Until then searches use the last known one."""
    settings = place.vectors._settings
    other = QdrantServerIndex(open_connection(settings, NAME), settings, context())
    made = other.begin(VectorManifest(generation=2, model="m", dimension=4, position=1))
    made.seal()
    with no_new_threads("qdrant-refresh"):
        other.switch(made)
        place.vectors._generations._known_until = 0.0
        assert len(place.near()) == 1

    until(lambda: not place.near())
    other.close()
