"""Wiring of search and contexts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.indexing import IndexParts
from memsvc.bootstrap.memories import WriteParts
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import SessionName
from memsvc.domain.use_feedback import FeedbackRules
from memsvc.engine.conflicts.currency import CurrencyJudge
from memsvc.engine.conflicts.extraction_marks import ExtractionMarkReader
from memsvc.engine.conflicts.resolution import ConflictMarkReader
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.reminder_currency import ReminderCurrencyReader
from memsvc.engine.context.service import ContextDependencies, ContextService
from memsvc.engine.context.sources import EvidenceSearch
from memsvc.engine.history.as_of_search import AsOfSearch, AsOfVectorScorer
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import VectorEntries
from memsvc.engine.maintenance.replay_use_step import ReplayUseStep
from memsvc.engine.maintenance.step import MaintenanceStep
from memsvc.engine.memories.reminders import ReminderService
from memsvc.engine.search.late_interaction import LateInteraction
from memsvc.engine.search.question_layer import QuestionLayer, load_question_layer
from memsvc.engine.search.ranking import Ranker, UseSignal
from memsvc.engine.search.rerank import ResultRefiner
from memsvc.engine.search.retrieval import HybridRetriever
from memsvc.engine.search.scoring import RECIPES, BoostConstants, Recipe
from memsvc.engine.search.search import ArchivedHits, FileSearcher, GlobalSearch, SearchReaders, SearchService
from memsvc.engine.search.use_feedback import UseReader, UseReporter
from memsvc.engine.search.use_replay import UseReplayer
from memsvc.engine.services import SearchServices
from memsvc.ports.metadata import MetadataStore
from memsvc.settings import Settings


@dataclass(frozen=True)
class SearchParts(SearchServices):
    """The use cases that search and build contexts, and the maintenance step that replays reports of use."""

    steps: tuple[MaintenanceStep, ...]


def build_search_services(
    assembly: Assembly, index: IndexParts, parts: WriteParts, reminders: ReminderService
) -> SearchParts:
    """Build the use cases that search and build contexts, with their threads."""
    settings, backends, stack = assembly.settings, assembly.backends, assembly.stack
    store, threads = backends.metadata, settings.server.search_threads
    reads = store.memories
    questions = load_question_layer() if settings.ranking.question_layer else None
    retriever, rules = _retriever(assembly, index, questions), _feedback_rules(settings)
    ranker = _ranker(settings, store, UseSignal(store.uses, rules))
    refiner = ResultRefiner(reads, backends.reranker)
    readers = SearchReaders(reads, retriever, ranker, refiner, parts.accesses, index.performance)
    search = _search_service(assembly, index.embedding, questions, readers)
    file_searcher = FileSearcher(store.files, backends.now)
    core = _core_memory_cache(assembly, reminders)
    parts.committer.on_commit(core.note_commit)
    extractions = ExtractionMarkReader(reads, store.sessions, store.statements, backends.now)
    currency = _currency_judge(store, index.embedding, extractions, parts.memory_builder.policy)
    evidence = EvidenceSearch(search.search, store.sessions, parts.withheld_messages)
    dependencies = ContextDependencies(
        reads,
        core,
        search,
        index.indexer,
        backends.tokenizer,
        backends.now,
        os.urandom,
        file_searcher,
        evidence,
        _session_size(store),
        settings.provenance.trust_agent,
        settings.context.min_relevance,
        currency,
        settings.context.short_term_limit,
    )
    contexts = ContextService(dependencies, threads=threads)
    stack.callback(contexts.close)
    priority = assembly.search_priority
    replayer = UseReplayer(store.uses, retriever, ranker, rules, backends.now, priority.yield_to_searches)
    return SearchParts(
        search,
        GlobalSearch(search, file_searcher),
        core,
        contexts,
        currency,
        ReminderCurrencyReader(search.search, evidence, currency, _when_indexed(assembly, index)),
        UseReporter(parts.requests, reads, backends.now, parts.memory_builder.redactor),
        UseReader(store.uses, reads, rules),
        steps=(ReplayUseStep(store.uses, replayer, parts.committer, rules),),
    )


def _core_memory_cache(assembly: Assembly, reminders: ReminderService) -> CoreMemoryCache:
    backends, store = assembly.backends, assembly.backends.metadata
    return CoreMemoryCache(
        store.memories,
        store.feed,
        backends.now,
        reminders,
        least_core_trust=assembly.settings.provenance.trust_agent,
        is_shared=store.is_shared,
    )


def _ranker(settings: Settings, store: MetadataStore, signal: UseSignal) -> Ranker:
    late, least = LateInteraction(store.tokens), settings.ranking.min_relevance
    return Ranker(store.memories, _recipe(settings), late, least, signal, store.statements)


def _retriever(assembly: Assembly, index: IndexParts, questions: QuestionLayer | None) -> HybridRetriever:
    settings, backends = assembly.settings, assembly.backends
    retriever = HybridRetriever(
        backends.metadata.memories,
        (backends.vectors, backends.lexical),
        index.spaces,
        settings.server.search_threads,
        patience=settings.ranking.retriever_seconds,
        faults=backends.faults,
        questions=questions,
    )
    assembly.stack.callback(retriever.close)
    return retriever


def _when_indexed(assembly: Assembly, index: IndexParts) -> Callable[[str], Future[None]]:
    feed = assembly.backends.metadata.feed

    def when_indexed(owner: str) -> Future[None]:
        head = feed.head_position()
        if feed.pending_of(owner, up_to=head, limit=1):
            return index.indexer.when_reached(head, owner)
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing

    return when_indexed


def _currency_judge(
    store: MetadataStore, embedding: CachedEmbedder, extractions: ExtractionMarkReader, trust_policy: TrustPolicy
) -> CurrencyJudge:
    conflicts = ConflictMarkReader(store.statements, store.memories, trust_policy.outranks)
    return CurrencyJudge(embedding.stored_vectors, lambda: embedding.model, conflicts, extractions)


def _feedback_rules(settings: Settings) -> FeedbackRules:
    """Return the conditions on which reports of use join the ranking."""
    ranking = settings.ranking
    return FeedbackRules(
        ranking.use_feedback,
        ranking.use_weight,
        ranking.use_min_reports,
        ranking.use_min_queries,
        ranking.use_min_gain,
    )


def _search_service(
    assembly: Assembly, embedding: CachedEmbedder, questions: QuestionLayer | None, readers: SearchReaders
) -> SearchService:
    backends, ranking = assembly.backends, assembly.settings.ranking
    entries = VectorEntries(embedding, ranking.tier, assembly.search_priority)
    vectors = AsOfVectorScorer(backends.vectors, embedding, entries, ranking.tier, questions)
    as_of = AsOfSearch(backends.metadata.memories, backends.metadata.feed, vectors, assembly.search_priority)
    archive = ArchivedHits(ranking.archived_hits, backends.metadata.statements)
    return SearchService(readers, backends.now, as_of.readers, archive)


def _recipe(settings: Settings) -> Recipe:
    """Return the recipe of the settings, with the weights that they set."""
    ranking = settings.ranking
    names = [field.name for field in dataclasses.fields(BoostConstants)]
    weights = {name: weight for name in names if (weight := getattr(ranking, name, None)) is not None}
    return RECIPES[ranking.recipe].change(weights)


def _session_size(store: MetadataStore) -> Callable[[Scope], tuple[int, int] | None]:
    def size(scope: Scope) -> tuple[int, int] | None:
        session = store.sessions.get(SessionName.from_scope(scope))
        if session is None:
            return None
        return store.sessions.counts([session])[session.row].live_tokens, session.token_limit

    return size
