"""Wiring of search and contexts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.bootstrap.memories import MemoryServices
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import SessionName
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.service import ContextDependencies, ContextService
from memsvc.engine.history.as_of_search import AsOfSearch, AsOfVectorScorer
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.search.ranking import Ranker
from memsvc.engine.search.rerank import ResultRefiner
from memsvc.engine.search.retrieval import HybridRetriever
from memsvc.engine.search.scoring import BoostConstants
from memsvc.engine.search.search import SearchReaders, SearchService
from memsvc.ports.metadata import MetadataStore
from memsvc.settings import Settings


@dataclass(frozen=True, slots=True)
class SearchServices:
    """The use cases that search, and build contexts."""

    search: SearchService
    core_memories: CoreMemoryCache
    contexts: ContextService


def reading(
    settings: Settings,
    backends: Backends,
    index: Indexing,
    writes: MemoryServices,
    stack: ExitStack,
) -> SearchServices:
    """Make what searches; *stack* stops its threads."""
    store, performance = backends.metadata, index.performance
    reads, threads = store.memories, settings.server.search_threads
    retrieval = HybridRetriever(reads, backends.vectors, backends.lexical, index.spaces, threads)
    stack.callback(retrieval.close)
    ranker, refining = Ranker(reads, _constants(settings)), ResultRefiner(reads, backends.reranker)
    readers = SearchReaders(reads, retrieval, ranker, refining, writes.accesses, performance)
    recall = SearchService(readers, backends.now, _looking_back(settings, backends, index.embedding).readers)
    core = CoreMemoryCache(reads, store.feed, backends.now, writes.reminders, is_shared=store.is_shared)
    writes.committer.on_commit(core.note_commit)
    sources = ContextDependencies(
        reads,
        core,
        recall,
        index.indexer,
        backends.tokenizer,
        backends.now,
        os.urandom,
        _session_size(store),
        settings.provenance.trust_agent,
    )
    contexts = ContextService(sources, threads=threads)
    stack.callback(contexts.close)
    return SearchServices(recall, core, contexts)


def _looking_back(settings: Settings, backends: Backends, embedding: CachedEmbedder) -> AsOfSearch:
    vectors = AsOfVectorScorer(backends.vectors, embedding, settings.ranking.tier)
    return AsOfSearch(backends.metadata.memories, backends.metadata.feed, vectors)


def _constants(settings: Settings) -> BoostConstants:
    ranking = settings.ranking
    return BoostConstants(
        depth=ranking.depth,
        neighbour=ranking.neighbour,
        session=ranking.session,
        date=ranking.date,
        speaker=ranking.speaker,
    )


def _session_size(store: MetadataStore) -> Callable[[Scope], tuple[int, int] | None]:
    def size(scope: Scope) -> tuple[int, int] | None:
        session = store.sessions.get(SessionName.from_scope(scope))
        if session is None:
            return None
        return store.sessions.counts([session])[session.row].live_tokens, session.token_limit

    return size
