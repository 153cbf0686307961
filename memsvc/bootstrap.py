"""The composition root: settings in, a running engine out. The only place that wires."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from pydantic import ValidationError

from memsvc.data_directory import DataDirectory, owned
from memsvc.domain.memory import Origin
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.report import IndexKind
from memsvc.domain.scoring import Constants
from memsvc.domain.secrets import Redactor
from memsvc.domain.session import AutoTrim, OnOpen
from memsvc.engine.application import Application
from memsvc.engine.capture.capture import Capture
from memsvc.engine.capture.deciding import Deciding
from memsvc.engine.capture.flush import Flush
from memsvc.engine.capture.listening import Listening
from memsvc.engine.capture.recognising import Recognising
from memsvc.engine.capture.storing import Storing
from memsvc.engine.conflicts.resolve import Resolve
from memsvc.engine.conflicts.supersede import Supersede
from memsvc.engine.history.checkpoints import Checkpoints
from memsvc.engine.history.dense import PastVectors
from memsvc.engine.history.retrospect import Retrospect
from memsvc.engine.history.rollback import CheckpointRollback
from memsvc.engine.history.search import LookingBack
from memsvc.engine.index.applying import Applying
from memsvc.engine.index.embedding import Embedding
from memsvc.engine.index.indexer import Indexer
from memsvc.engine.index.rebuild import Rebuild
from memsvc.engine.index.reindex import Reindex, Upkeep
from memsvc.engine.index.repair import Repair
from memsvc.engine.index.sides import LexicalSide, VectorSide
from memsvc.engine.index.vector_entries import VectorEntries
from memsvc.engine.lifecycle.diagnose import Diagnose, Pinged
from memsvc.engine.lifecycle.statistics import Statistics
from memsvc.engine.performance import Performance
from memsvc.engine.read.access_counts import AccessCounts
from memsvc.engine.read.ranking import Ranker
from memsvc.engine.read.recall import Readers, Recall
from memsvc.engine.read.recollect import Recollect
from memsvc.engine.read.retrieval import Retrieval
from memsvc.engine.repeating import Repeating
from memsvc.engine.sessions.appending import Appending
from memsvc.engine.sessions.desk import Sessions
from memsvc.engine.sessions.opening import Opening, SessionDefaults
from memsvc.engine.sessions.reading import ReadingSessions
from memsvc.engine.sessions.summarizing import ExtractiveSummarizer
from memsvc.engine.sessions.trimming import Trimmer, Trimming, TrimRules
from memsvc.engine.watch.bell import Bell
from memsvc.engine.watch.watching import Watching
from memsvc.engine.write.append import Append
from memsvc.engine.write.committer import Committer
from memsvc.engine.write.drafting import Drafting
from memsvc.engine.write.importing import Importing
from memsvc.engine.write.ingest import Ingest
from memsvc.engine.write.placing import Placing
from memsvc.engine.write.recording import Recording
from memsvc.engine.write.remember import Remember
from memsvc.engine.write.requests import Requests, forget_old_requests
from memsvc.engine.write.review import Reviewing
from memsvc.engine.write.revise import Revise
from memsvc.plugins import load_backend
from memsvc.ports.backend import BackendContext, BackendSettings
from memsvc.ports.embedder import Embedder
from memsvc.ports.language_model import LanguageModel
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.tokenizer import Tokenizer
from memsvc.ports.vectors import VectorIndex
from memsvc.settings import BackendChoice, Settings

TIDY_SECONDS = 600.0
"""How often old requests and applied changes are thrown away."""
PORTS = ("metadata", "vectors", "lexical", "embedder", "tokenizer")
OPTIONAL_PORTS = ("language_model",)
NO_BACKEND = "none"
"""The choice of doing without an optional port."""


class StartError(Exception):
    """The service cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Backends:
    """The chosen backends, open."""

    metadata: MetadataStore
    vectors: VectorIndex
    lexical: LexicalIndex
    embedder: Embedder
    tokenizer: Tokenizer
    names: tuple[tuple[str, str], ...]
    language_model: LanguageModel | None = None

    def pinged(self) -> tuple[Pinged, ...]:
        """Return how to ask each backend whether it is there."""
        return tuple(Pinged(port, name, getattr(self, port).ping) for port, name in self.names)


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


@contextmanager
def opened(settings: Settings, directory: Path) -> Iterator[Backends]:
    """Open the backends that the settings choose, and close them again, the last one first.

    Raises:
        PluginError: A backend cannot be chosen.
        StartError: An option of a backend is wrong; nothing was opened.
    """
    choices: dict[str, BackendChoice] = {port: getattr(settings, port) for port in PORTS}
    optional: dict[str, BackendChoice] = {port: getattr(settings, port) for port in OPTIONAL_PORTS}
    choices |= {port: choice for port, choice in optional.items() if choice.backend != NO_BACKEND}
    specs = {port: load_backend(port, choice.backend) for port, choice in choices.items()}
    options = {port: _options(port, choice, specs[port].settings) for port, choice in choices.items()}
    with ExitStack() as stack:
        backends = {
            port: stack.enter_context(
                specs[port].open(options[port], BackendContext(directory=directory / port, now=utc_now))
            )
            for port in choices
        }
        yield Backends(**backends, names=tuple((port, choice.backend) for port, choice in choices.items()))


def _options(port: str, choice: BackendChoice, model: type[BackendSettings]) -> BackendSettings:
    try:
        return model.model_validate(choice.options)
    except ValidationError as error:
        wrong = "; ".join(
            f"{port}.options.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            for problem in error.errors()
        )
        message = f"The options of the {port} backend {choice.backend!r} are wrong: {wrong}."
        raise StartError(message) from error


@contextmanager
def running(settings: Settings) -> Iterator[Application]:
    """Own the data directory, open everything, run the engine's threads; on leaving, stop and close in order.

    Raises:
        DataDirectoryLockedError: Another process owns the data directory.
        PluginError: A backend cannot be chosen.
        StartError: A backend's options are wrong.
        BackendUnavailableError: A backend cannot be opened.
    """
    with (
        owned(settings.data_dir) as directory,
        opened(settings, directory.path) as backends,
        ExitStack() as stack,
    ):
        yield _wired(settings, directory, backends, stack)


def _wired(settings: Settings, directory: DataDirectory, backends: Backends, stack: ExitStack) -> Application:
    """Make every use case and start the threads; *stack* stops them, the last one first."""
    performance = Performance(utc_now)
    embedding = Embedding(backends.embedder, backends.metadata.embeddings)
    index = _indexing(settings, directory, backends, embedding, performance, stack)
    writes = _writing(settings, backends, embedding, index.indexer, stack)
    retrieval = Retrieval(
        backends.metadata.memories, backends.vectors, backends.lexical, embedding, settings.server.search_threads
    )
    stack.callback(retrieval.close)
    reads = backends.metadata.memories
    listening = Listening(
        Redactor(is_on=settings.redaction.capture),
        Recognising(reads, backends.lexical),
        Deciding(backends.language_model),
    )
    return Application(
        remember=writes.remember,
        append=writes.append,
        ingest=Ingest(writes.remember),
        capture=Capture(listening, writes.storing, reads),
        flush=Flush(listening, writes.storing),
        revise=writes.revise,
        importing=writes.importing,
        supersede=writes.supersede,
        resolve=writes.resolve,
        recollect=Recollect(backends.metadata.memories, writes.accesses),
        recall=Recall(
            Readers(reads, retrieval, Ranker(reads, _constants(settings)), writes.accesses, performance),
            utc_now,
            _looking_back(settings, backends, embedding).readers,
        ),
        sessions=_sessions(settings, backends, writes, stack),
        retrospect=Retrospect(reads),
        checkpoints=writes.checkpoints,
        checkpoint_rollback=writes.checkpoint_rollback,
        indexer=index.indexer,
        reindex=index.reindex,
        statistics=Statistics(backends.metadata, backends.vectors, backends.lexical, index.indexer),
        diagnose=Diagnose(
            backends.pinged(),
            backends.metadata.feed,
            (backends.vectors, backends.lexical),
            (index.indexer, index.reindex),
            performance,
        ),
        performance=performance,
        embedding=embedding,
        watching=writes.watching,
        reviewing=writes.reviewing,
    )


def _policy(settings: Settings) -> TrustPolicy:
    provenance = settings.provenance
    trust = {origin: float(getattr(provenance, f"trust_{origin.value.lower()}")) for origin in Origin}
    return TrustPolicy(trust, provenance.quarantine_below)


def _watching(settings: Settings, store: MetadataStore, committer: Committer, stack: ExitStack) -> Watching:
    bell = Bell()
    committer.on_commit_of(bell.ring)
    if settings.watch.poll_seconds:
        stack.callback(Repeating("watch-poll", settings.watch.poll_seconds, bell.ring_all).stop)
    kept = timedelta(days=settings.indexing.outbox_days)
    return Watching(store.changes, bell, max_lag=settings.watch.max_lag, kept=kept)


def _looking_back(settings: Settings, backends: Backends, embedding: Embedding) -> LookingBack:
    vectors = PastVectors(backends.vectors, embedding, settings.ranking.tier)
    return LookingBack(backends.metadata.memories, backends.metadata.feed, vectors)


def _constants(settings: Settings) -> Constants:
    ranking = settings.ranking
    return Constants(
        depth=ranking.depth,
        neighbour=ranking.neighbour,
        session=ranking.session,
        date=ranking.date,
        speaker=ranking.speaker,
    )


@dataclass(frozen=True, slots=True)
class _Indexing:
    indexer: Indexer
    reindex: Reindex


def _indexing(
    settings: Settings,
    directory: DataDirectory,
    backends: Backends,
    embedding: Embedding,
    performance: Performance,
    stack: ExitStack,
) -> _Indexing:
    feed = backends.metadata.feed
    tier = settings.ranking.tier
    entries = VectorEntries(embedding, tier)
    sides: dict[IndexKind, VectorSide | LexicalSide] = {
        IndexKind.VECTORS: VectorSide(backends.vectors, entries, embedding, tier),
        IndexKind.LEXICAL: LexicalSide(backends.lexical),
    }
    applying = Applying(feed, sides[IndexKind.VECTORS], sides[IndexKind.LEXICAL], entries)
    stack.callback(applying.close)
    reindex = Reindex(feed, sides, Rebuild(feed, applying), Repair(feed, applying))
    reindex.prepare()
    indexer = Indexer(feed, applying, performance)
    upkeep = Upkeep(
        reindex,
        interval_seconds=settings.indexing.upkeep_seconds,
        repair_first=not directory.was_closed_cleanly,
    )
    indexer.start()
    stack.callback(indexer.stop)
    upkeep.start()
    stack.callback(upkeep.stop)
    return _Indexing(indexer, reindex)


@dataclass(frozen=True, slots=True)
class _Writing:
    remember: Remember
    revise: Revise
    importing: Importing
    supersede: Supersede
    resolve: Resolve
    append: Append
    storing: Storing
    accesses: AccessCounts
    committer: Committer
    drafting: Drafting
    watching: Watching
    reviewing: Reviewing
    checkpoints: Checkpoints
    checkpoint_rollback: CheckpointRollback


def _writing(
    settings: Settings, backends: Backends, embedding: Embedding, indexer: Indexer, stack: ExitStack
) -> _Writing:
    store = backends.metadata
    committer = Committer(store)
    stack.callback(committer.close)
    committer.on_commit(indexer.nudge)
    accesses = AccessCounts(committer, utc_now)
    stack.callback(Repeating("access-counts", settings.indexing.access_flush_seconds, accesses.flush).stop)
    outbox = timedelta(days=settings.indexing.outbox_days)

    def tidy() -> None:
        forget_old_requests(committer, utc_now())
        store.feed.trim(before=utc_now() - outbox)

    stack.callback(Repeating("tidying", TIDY_SECONDS, tidy).stop)
    # Reading the system's randomness for every id lets the interpreter lock go, and an import waits to get it back.
    random = Random(os.urandom(32)).randbytes  # noqa: S311 - ids must be unique, not secret
    drafting = Drafting(
        model=embedding.model,
        dimension=embedding.dimension,
        now=utc_now,
        random=random,
        redactor=Redactor(is_on=settings.redaction.writes),
        policy=_policy(settings),
    )
    recording = Recording(drafting, store.feed)
    placing = Placing(drafting, recording)
    requests = Requests(committer, store.memories, store.conflicts)
    return _Writing(
        remember=Remember(drafting, placing, requests, accesses),
        revise=Revise(drafting, recording, requests, utc_now),
        importing=Importing(committer, drafting, placing, accesses),
        supersede=Supersede(drafting, recording, requests, store.memories),
        resolve=Resolve(drafting, recording, requests, store),
        append=Append(drafting, recording, requests, store.memories, utc_now),
        storing=Storing(drafting, placing, requests, accesses),
        accesses=accesses,
        committer=committer,
        drafting=drafting,
        watching=_watching(settings, store, committer, stack),
        reviewing=Reviewing(drafting, recording, requests),
        checkpoints=Checkpoints(store, committer, utc_now),
        checkpoint_rollback=CheckpointRollback(store, committer, recording, utc_now),
    )


def _sessions(settings: Settings, backends: Backends, writes: _Writing, stack: ExitStack) -> Sessions:
    chosen = settings.sessions
    store, committer, drafting = backends.metadata, writes.committer, writes.drafting
    rules = TrimRules(chosen.trim_to, chosen.keep_rounds, chosen.summary_tokens)
    trimming = Trimming(committer, store, drafting, ExtractiveSummarizer(backends.tokenizer), rules)
    trimmer = Trimmer(trimming.trim_when_full)
    stack.callback(trimmer.close)
    defaults = SessionDefaults(
        token_limit=chosen.token_limit,
        on_open=OnOpen.ARCHIVE_OTHERS if chosen.archive_others else OnOpen.KEEP_OTHERS,
        auto_trim=AutoTrim.AT_LIMIT if chosen.auto_trim else AutoTrim.NEVER,
    )
    return Sessions(
        opening=Opening(committer, defaults, utc_now),
        appending=Appending(committer, drafting, backends.tokenizer, trimmer.request, utc_now),
        reading=ReadingSessions(store.sessions),
        trimming=trimming,
    )
