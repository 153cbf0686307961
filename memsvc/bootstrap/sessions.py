"""Wiring of capture and sessions."""

from __future__ import annotations

from memsvc.bootstrap.backends import Assembly
from memsvc.bootstrap.memories import WriteParts
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import AutoTrim, OnOpen, SessionName
from memsvc.engine.capture.capture import CaptureService, CaptureWriter
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.flush import ConversationFlusher
from memsvc.engine.capture.known_text import KnownTextFilter
from memsvc.engine.capture.statement_extraction import EventScopes, StatementExtractor
from memsvc.engine.capture.statement_layer import load_statement_reader
from memsvc.engine.services import CaptureServices, SessionService
from memsvc.engine.sessions.append import MessageAppender, MessageRemover
from memsvc.engine.sessions.flush import SessionFlusher
from memsvc.engine.sessions.service import SessionDefaults, SessionLifecycle, SessionReader
from memsvc.engine.sessions.summarizers import ExtractiveSummarizer, LlmSummarizer, Summarizer
from memsvc.engine.sessions.trim import BackgroundTrimmer, SessionTrimmer, TrimHooks, TrimRules


def build_capture_services(assembly: Assembly, parts: WriteParts) -> CaptureServices:
    """Build the use cases that capture memories from conversations, and those of sessions."""
    settings, backends = assembly.settings, assembly.backends
    reader = load_statement_reader(backends.embedder) if settings.capture.statement_layer else None
    extractor = StatementExtractor(
        Redactor(is_on=settings.redaction.capture),
        KnownTextFilter(backends.metadata.memories, backends.lexical),
        CaptureDecider(backends.language_model, backends.now, reader, zone=parts.zone),
        EventScopes(backends.metadata.reminders, backends.now, zone=parts.zone),
        parts.memory_builder.policy,
    )
    writer = CaptureWriter(parts.memory_builder, parts.upserter, parts.requests, parts.accesses)
    flusher = ConversationFlusher(extractor, writer)
    return CaptureServices(
        capture=CaptureService(extractor, writer, backends.metadata.memories),
        conversation_flusher=flusher,
        sessions=_session_service(assembly, parts, flusher),
    )


def _session_service(assembly: Assembly, parts: WriteParts, flush: ConversationFlusher) -> SessionService:
    settings, backends, stack = assembly.settings, assembly.backends, assembly.stack
    chosen = settings.sessions
    store, committer, memory_builder = backends.metadata, parts.committer, parts.memory_builder
    rules = TrimRules(chosen.trim_to, chosen.keep_rounds, chosen.summary_tokens)
    redactor = Redactor(is_on=settings.redaction.capture)
    extractive = ExtractiveSummarizer(backends.tokenizer, redactor)
    summarizer: Summarizer = extractive
    if backends.language_model is not None:
        summarizer = LlmSummarizer(backends.language_model, extractive, backends.tokenizer, redactor)
    flusher = SessionFlusher(committer, store, flush, chosen.flush_tokens)
    leaving = TrimHooks(redactor, flusher.flush_before_trimming, parts.withheld_messages)
    trimmer = SessionTrimmer(committer, store, memory_builder, summarizer, leaving, rules)

    def keep_up(scope: Scope) -> None:
        flusher.flush_when_due(scope)
        session = store.sessions.get(SessionName.from_scope(scope))
        if session is not None and session.auto_trim is AutoTrim.AT_LIMIT:
            trimmer.trim_when_full(scope)

    background_trimmer = BackgroundTrimmer(keep_up)
    stack.callback(background_trimmer.close)
    # Stopped first: a service that stops need not finish a long conversation.
    stack.callback(flusher.stop)
    defaults = SessionDefaults(
        token_limit=chosen.token_limit,
        on_open=OnOpen.ARCHIVE_OTHERS if chosen.archive_others else OnOpen.KEEP_OTHERS,
        auto_trim=AutoTrim.AT_LIMIT if chosen.auto_trim else AutoTrim.NEVER,
        flush_on_end=chosen.flush_on_end,
    )
    return SessionService(
        lifecycle=SessionLifecycle(
            parts.requests, store.sessions, flusher, defaults, backends.now, memory_builder.redactor
        ),
        appender=MessageAppender(
            committer,
            memory_builder,
            backends.tokenizer,
            background_trimmer.request,
            flusher.is_due,
            backends.now,
            keep_rounds=chosen.keep_rounds,
        ),
        remover=MessageRemover(committer, store.sessions, parts.record_builder, backends.now),
        reader=SessionReader(store.sessions),
        trimmer=trimmer,
        flusher=flusher,
    )
