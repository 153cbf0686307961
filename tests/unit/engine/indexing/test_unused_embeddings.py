"""Embeddings of purged memories: removed soon after, but for those that a stored text needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError, MaintenanceRunningError
from memsvc.domain.scope import Scope
from memsvc.engine.indexing.cached_embedder import CachedEmbedder, text_digest
from memsvc.engine.indexing.unused_embeddings import EmbeddingSweeper, UnusedEmbeddings
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.runtime.periodic_task import PeriodicTask
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc_backends.in_memory.models import EMBEDDER, InMemoryEmbedderSettings
from tests.support.until import until
from tests.unit.engine.memories.write_path import ADA, Desk, open_desk

BEN = Scope("ben")
TEXTS = ["Ada has had the quagga virus since 2019.", "阿达自2019年起患有斑驴病。"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as opened:
        yield opened


@pytest.fixture
def embedding(desk: Desk, tmp_path: Path) -> Iterator[CachedEmbedder]:
    with EMBEDDER.open(InMemoryEmbedderSettings(), BackendContext(tmp_path, lambda: NOW)) as embedder:
        yield CachedEmbedder(embedder, desk.store.embeddings)


@pytest.fixture
def unused(desk: Desk, embedding: CachedEmbedder) -> UnusedEmbeddings:
    store = desk.store
    return UnusedEmbeddings(embedding, store.embeddings, store.feed, EmbeddingGranularity.S, SearchPriority())


@pytest.fixture
def election(desk: Desk) -> LeaderElection:
    work = ("embedding-sweep", MaintenanceRunningError)
    return LeaderElection(desk.store.leases, desk.clock, lambda: uuid.uuid4().hex, work)


@pytest.fixture
def sweeper(desk: Desk, unused: UnusedEmbeddings, election: LeaderElection) -> EmbeddingSweeper:
    return EmbeddingSweeper(unused, desk.store.feed, election, pause_ratio=0.0)


def stored(embedding: CachedEmbedder, *texts: str) -> list[bool]:
    return embedding.are_stored(texts)


def purge(desk: Desk, memory_id: str, scope: Scope = ADA) -> None:
    with desk.store.transaction() as transaction:
        memory = desk.stored(memory_id, scope)
        assert memory is not None
        transaction.purge(memory)


def embedded(desk: Desk, embedding: CachedEmbedder, text: str, scope: Scope = ADA) -> str:
    """Create a memory and embed it as the indexer does; return its id."""
    memory = desk.create(text, scope).memory
    embedding.passages([text])
    return memory.id


@pytest.mark.parametrize("text", TEXTS)
def test_a_purge_is_followed_by_the_removal_of_its_embedding(
    desk: Desk, embedding: CachedEmbedder, sweeper: EmbeddingSweeper, text: str
) -> None:
    """Not that of another user's equal text."""
    mine, shared = embedded(desk, embedding, text), embedded(desk, embedding, "The okapi sleeps.")
    embedded(desk, embedding, "The okapi sleeps.", BEN)
    assert sweeper.run_if_due() == 0
    assert sweeper.run_if_due() is None
    for gone in (mine, shared):
        purge(desk, gone)

    assert sweeper.run_if_due() == 1
    assert stored(embedding, text, "The okapi sleeps.") == [False, True]
    assert sweeper.run_if_due() is None


def test_every_model_is_swept(desk: Desk, embedding: CachedEmbedder, unused: UnusedEmbeddings) -> None:
    """An earlier one too, whose embeddings of stored texts stay."""
    text = desk.create("The okapi sleeps.").memory.content
    embedding.passages([text, "gone"])
    [kept, gone] = [text_digest(one) for one in (text, "gone")]
    desk.store.embeddings.put("earlier", {kept: b"v", gone: b"w"})

    assert unused.remove(lambda: None) == 2
    assert desk.store.embeddings.get("earlier", [kept, gone]) == {kept: b"v"}


def test_what_is_requested_in_the_course_of_a_run_stays(
    desk: Desk, embedding: CachedEmbedder, unused: UnusedEmbeddings
) -> None:
    """Its memory may be stored after the part of the memories that was read; a new text stays as well."""
    desk.create("The okapi sleeps.")
    embedding.passages(["soon stored again", "never again"])

    def others_write() -> None:
        embedding.passages(["soon stored again", "new"])

    assert unused.remove(others_write) == 1
    assert stored(embedding, "soon stored again", "new", "never again") == [True, True, False]


def test_a_run_that_broke_off_is_due_again(
    desk: Desk, embedding: CachedEmbedder, unused: UnusedEmbeddings, election: LeaderElection
) -> None:
    """After a restart too; without a purge a restart reads nothing."""
    first = EmbeddingSweeper(unused, desk.store.feed, election, pause_ratio=0.0)
    assert first.run_if_due() == 0
    desk.clock.advance(days=2)
    assert EmbeddingSweeper(unused, desk.store.feed, election).run_if_due() is None
    purge(desk, embedded(desk, embedding, "secret"))
    desk.create("The okapi sleeps.")

    first.stop()
    with pytest.raises(BackendClosedError):
        first.run_if_due()
    assert stored(embedding, "secret") == [True]

    assert EmbeddingSweeper(unused, desk.store.feed, election).run_if_due() == 1
    assert stored(embedding, "secret") == [False]


def test_one_process_sweeps_at_a_time(
    desk: Desk, embedding: CachedEmbedder, sweeper: EmbeddingSweeper, election: LeaderElection
) -> None:
    """The other one tries again later."""
    purge(desk, embedded(desk, embedding, "secret"))
    with election.lead(), pytest.raises(MaintenanceRunningError):
        sweeper.run_if_due()
    assert sweeper.run_if_due() == 1


def test_runs_are_rare_in_a_large_store(
    desk: Desk, embedding: CachedEmbedder, unused: UnusedEmbeddings, election: LeaderElection
) -> None:
    """Each reads all memories: a purge just after a run waits for a multiple of its duration."""
    sweeper = EmbeddingSweeper(unused, desk.store.feed, election, pause_ratio=1e9)
    assert sweeper.run_if_due() == 0
    purge(desk, embedded(desk, embedding, "secret"))
    assert sweeper.run_if_due() is None
    assert stored(embedding, "secret") == [True]


def test_a_periodic_task_removes_them(
    desk: Desk, embedding: CachedEmbedder, unused: UnusedEmbeddings, election: LeaderElection
) -> None:
    """Without a call, until it is stopped; stopping reads no memories."""
    sweeper = EmbeddingSweeper(unused, desk.store.feed, election, pause_ratio=0.0)
    task = PeriodicTask("sweep", 0.01, sweeper.run)
    purge(desk, embedded(desk, embedding, "secret"))
    until(lambda: stored(embedding, "secret") == [False])
    sweeper.stop()
    purge(desk, embedded(desk, embedding, "later"))
    task.stop()
    assert stored(embedding, "later") == [True]
