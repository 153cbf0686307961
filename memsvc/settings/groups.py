"""Settings of the process: listening, backends, logs, metrics, backups."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from memsvc.domain.api_keys import KeyDemand
from memsvc.domain.context import Locale
from memsvc.domain.field_rules import time_zone
from memsvc.domain.files import fault_of_template
from memsvc.domain.limits import TOPIC
from memsvc.domain.maintenance import ROUTINE_STEPS, UpkeepStep
from memsvc.domain.search import TimeWeighting
from memsvc.domain.vault import NoteFormat
from memsvc.domain.webhooks import fault_of_webhook_url, is_private_literal, is_webhook_secret
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.search.scoring import RecipeVersion
from memsvc.engine.vault.watcher import SWEEP_SECONDS, WatchMode

SHARES_TOLERANCE = 0.001
_NAME = r"^[^<>\x00-\x1f]+$"
_NAME_FORM: dict[str, Any] = {"form": "must have text, without '<', '>' and control characters"}

# Base of all groups of settings.


class SettingsGroup(BaseModel):
    """A group of settings. An unknown name is an error at start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# Settings of what is done with memories: ranking, contexts, sessions, trust, reminders, maintenance.


Weight: TypeAlias = Annotated[float | None, Field(ge=0, le=10)]


class RankingSettings(SettingsGroup):
    """The constants of the ranking recipe. The defaults are measured: see docs/concepts/ranking.md."""

    recipe: RecipeVersion = RecipeVersion.V2026_11
    """The version of the default ranking. 2026-10 is the one without late interaction and cues of the text."""
    tier: EmbeddingGranularity = EmbeddingGranularity.S
    """S: one vector per chunk. E: also vectors of sentence groups and windows; better recall, slower writes."""
    depth: int = Field(default=100, ge=10, le=1000)
    """Number of hits requested from each retriever."""
    retriever_seconds: float = Field(default=1.0, gt=0, le=60)
    """Time that a retriever may take beyond its usual duration, embedding of the query included. A search then answers
    with the other retrievers and reports the missing one; a search with a single retriever waits until its deadline."""
    question_layer: bool = True
    """Move the vector of a question, as "Where do I live?", to those of statements that answer it, as "I moved to
    Porto". It is made for the bundled embedder; the vectors of another one are not moved."""
    min_relevance: float = Field(default=0.1, ge=0, le=1)
    """If no memory that was found reaches this relevance, searches and contexts report it, and the MCP tool recall says
    that nothing relevant was found. 0: never."""
    archived_hits: int = Field(default=3, ge=0, le=20)
    """Number of archived memories that a search returns beside its hits if it finds nothing relevant. 0: none."""

    dense: Weight = None
    """Weight of the vector in the fused score. This one and those below: unset, that of the recipe."""
    lexical: Weight = None
    """Weight of the words in the fused score."""
    late: Weight = None
    """Weight of late interaction, relative to the fused score; 0 omits the stage."""
    neighbour: Weight = None
    """Share of the score of the previous or next message of the session."""
    session: Weight = None
    """Weight of the match of the query with the whole session by words."""
    late_session: Weight = None
    """Weight of the match of the query with the whole session by late interaction."""
    date: Weight = None
    """Weight of a date in the query that matches the memory."""
    speaker: Weight = None
    """Deduction if the query names another speaker."""
    length: Weight = None
    """Weight of a long text."""
    questions: Weight = None
    """Deduction for a text of questions only."""
    when: Weight = None
    """Weight of a time in the text, if the query asks for one."""
    where: Weight = None
    """Weight of a place in the text, if the query asks for one."""
    who: Weight = None
    """Weight of a person in the text, if the query asks for one."""
    first_person: Weight = None
    """Weight of a text in which a speaker that the query names tells of themselves."""
    previous_question: Weight = None
    """Weight of a text that follows a question like the query."""
    statement: Weight = None
    """Weight of a statement of what a question about the user asks for, such as their home."""
    answer: Weight = None
    """Weight of the dense score of a question that `ranking.question_layer` moved, times how far it moved it."""

    time_weighting: bool = False
    """Default of time weighting: by age, importance and use."""
    decay_factor: float = Field(default=TimeWeighting().decay_factor, gt=0, le=1)
    """Factor of time weighting for an age of 30 days."""

    use_feedback: bool = False
    """Default of searches and contexts: whether reports of use are part of the ranking, once a replay shows a gain."""
    use_weight: float = Field(default=0.5, ge=0, le=1)
    """The most that reports of use add to a score, or take from it, relative to the fused score."""
    use_min_reports: int = Field(default=100, ge=1)
    """Reports of a user below which they are no part of the ranking."""
    use_min_queries: int = Field(default=20, ge=1, le=100)
    """Queries that the replay of a user must test."""
    use_min_gain: float = Field(default=0.01, ge=0, le=1)
    """Gain of the mean reciprocal rank that the replay of a user must show; it must also exceed its standard error."""

    @model_validator(mode="after")
    def _has_a_retriever(self) -> Self:
        if self.dense == 0 and self.lexical == 0:
            message = "dense and lexical must not both be 0"
            raise ValueError(message)
        return self


class ContextSettings(SettingsGroup):
    """Defaults of contexts."""

    total_tokens: int = Field(default=128_000, ge=1, le=10_000_000)
    """The token budget."""
    core_share: float = Field(default=0.1, ge=0, le=1)
    """Share of core memories."""
    session_share: float = Field(default=0.5, ge=0, le=1)
    """Share of the conversation."""
    short_term_share: float = Field(default=0.1, ge=0, le=1)
    """Share of recent memories."""
    long_term_share: float = Field(default=0.3, ge=0, le=1)
    """Share of what the query finds, memories and messages of earlier sessions. The four shares add up to 1."""
    min_relevance: float = Field(default=0.0, ge=0, le=1)
    """Minimum relevance of memories that the query retrieves; others are left out. 0: no minimum."""
    evidence: bool = True
    """Whether contexts that name no sections include messages of earlier sessions of the same project."""
    files: bool = True
    """Whether contexts that name no sections include passages of files."""
    short_term_limit: int = Field(default=1_000, ge=0)
    """Number of ACTIVE memories of layer SHORT_TERM of a project above which contexts and GetStats warn. 0: none."""
    locale: Locale = Locale.EN
    """The language of headings, ages and notes: en or zh."""

    @model_validator(mode="after")
    def _shares_sum(self) -> Self:
        total = self.core_share + self.session_share + self.short_term_share + self.long_term_share
        if abs(total - 1.0) > SHARES_TOLERANCE:
            message = f"core_share, session_share, short_term_share and long_term_share must sum to 1, not {total:g}"
            raise ValueError(message)
        return self


class IndexingSettings(SettingsGroup):
    """Options of indexing."""

    upkeep_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """Interval of checks whether an index needs a rebuild."""
    access_flush_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """Interval of writes of access counts."""
    outbox_days: float = Field(default=7.0, gt=0, le=36_500)
    """Retention of applied changes in the outbox."""


class SessionSettings(SettingsGroup):
    """Defaults of sessions."""

    token_limit: int = Field(default=64_000, ge=100, le=10_000_000)
    """Default token limit of a session."""
    auto_trim: bool = True
    """Whether a full session is trimmed automatically."""
    trim_to: float = Field(default=0.5, ge=0, lt=1)
    """Share of the limit that a session keeps when it is trimmed."""
    keep_rounds: int = Field(default=3, ge=0, le=100)
    """Number of last rounds that trimming always keeps, whatever their size; a round begins with a user message."""
    summary_tokens: int = Field(default=500, ge=20, le=10_000)
    """Maximum length of the summary of trimmed messages; at most a quarter of these."""
    flush_tokens: int = Field(default=8_000, ge=0, le=10_000_000)
    """Tokens of live messages since the last flush at which memories are extracted; 0: never."""
    flush_on_end: bool = True
    """Whether memories are extracted from the remaining messages of a session that is closed or archived."""
    archive_others: bool = False
    """Whether opening a session archives the other active ones of the same user and project."""


class CaptureSettings(SettingsGroup):
    """Recognition of what to remember in conversations."""

    statement_layer: bool = True
    """Have a small network, which reads the embedding, the tokens and the words of what a user says, correct the rules
    where they recognise nothing, as in "Chuy's been my foreman since '03", or too much, as in 这题我算出来是 42. It is
    made for the bundled embedder, and reads no tokens on its C engine; with another one the rules decide alone. A
    language model does not use it."""


class RedactionSettings(SettingsGroup):
    """Places where secrets (keys, tokens, passwords, card numbers) are replaced before anything is stored."""

    capture: bool = True
    """In text captured from conversations, also before it is sent to a language model."""
    writes: bool = False
    """In everything that callers write: all texts of memories but keys, messages and the arguments of their tool calls,
    titles of sessions, notes of checkpoints, queries of reports of use, names of files, and metadata. What is stored
    may then differ from the request."""


class ProvenanceSettings(SettingsGroup):
    """Trust of memories by the class of their source. A change does not affect stored memories."""

    trust_user: float = Field(default=1.0, ge=0, le=1)
    """Maximum trust of statements of the user."""
    trust_agent: float = Field(default=0.8, ge=0, le=1)
    """Maximum trust of conclusions of an agent."""
    trust_tool: float = Field(default=0.5, ge=0, le=1)
    """Maximum trust of results of tools and web pages."""
    trust_document: float = Field(default=0.6, ge=0, le=1)
    """Maximum trust of documents."""
    trust_import: float = Field(default=0.7, ge=0, le=1)
    """Maximum trust of imported memories."""
    quarantine_below: float = Field(default=0.0, ge=0, le=1)
    """Memories of less trust are quarantined for a review. 0: only those whose writer requests it."""


class ReminderSettings(SettingsGroup):
    """Options of reminders."""

    detect: bool = True
    """Whether birthdays, deadlines and similar dates are detected in content. Explicit reminders always count."""
    time_zone: str = "UTC"
    """Default time zone of calls, an IANA name such as Asia/Shanghai."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        zone = time_zone(name) if name else None
        if zone is None:
            message = f"{name!r} is not a time zone that this machine knows; use an IANA name such as 'Asia/Shanghai'"
            raise ValueError(message)
        return zone.key


class ConsolidationSettings(SettingsGroup):
    """Options of consolidation, and of summaries of daily logs, months and topics."""

    threshold: float = Field(default=0.4, ge=0, le=1)
    """The least similarity (cosine of centred vectors) of memories that are compared word by word."""
    run_memories: int = Field(default=40_000, ge=1)
    """Maximum number of memories compared per maintenance run, at half a millisecond each; the next run continues.
    Changed memories are compared, and all of them after a start."""
    log_days: float = Field(default=7.0, gt=0, le=36_500)
    """Age in days at which a daily log is summarised and archived."""
    log_tokens: int = Field(default=200, ge=20, le=10_000)
    """Maximum length of the summary of a daily log."""
    summary_tokens: int = Field(default=500, ge=20, le=10_000)
    """Default maximum length of the summary of a month or topic."""
    month_memories: int = Field(default=10, ge=1, le=1_000)
    """Least number of memories of a month that the maintenance step SUMMARIZE summarises."""
    month_topics: tuple[Annotated[str, Field(min_length=1, max_length=TOPIC)], ...] = Field(default=(), max_length=20)
    """Topics of which the maintenance step SUMMARIZE also writes a summary each month."""


class MaintenanceSettings(SettingsGroup):
    """Options of maintenance."""

    interval_minutes: float = Field(default=60.0, ge=0, le=525_600)
    """Pause between two maintenance runs of all processes. 0: only on request."""
    jitter_minutes: float = Field(default=5.0, ge=0, le=525_600)
    """Maximum random delay of a run, so that processes on one store do not start at the same time."""
    steps: tuple[UpkeepStep, ...] = ROUTINE_STEPS
    """Steps of scheduled runs, and of requests that name none. DETECT_CONFLICTS, SUMMARIZE, CHECK_REFERENCES
    and COMPARE_INDEXES are not among them by default. Empty: all."""
    changes_per_step: int = Field(default=10_000, ge=1)
    """Maximum number of changes of a step in a run; the next run continues."""
    promote_accesses: int = Field(default=5, ge=1)
    """Reads that promote a SHORT_TERM memory to LONG_TERM; at most one read per hour counts."""
    archive_unread_days: float = Field(default=90.0, gt=0, le=36_500)
    """Time without reads and changes after which a LONG_TERM memory of at most `archive_max_importance` is archived."""
    archive_max_importance: int = Field(default=3, ge=1, le=5)
    """Highest importance of the memories that are archived because they were not read. More important ones are archived
    only beyond `storage_limit_bytes`."""
    purge_deleted_days: float = Field(default=0.0, ge=0, le=36_500)
    """Days after which a deleted memory is purged with its revisions: it cannot be restored then. 0: never."""
    storage_limit_bytes: int = Field(default=0, ge=0)
    """Maximum size of the content of a user's active LONG_TERM memories; beyond it the least useful are archived: by
    importance, then reads, then age. 0: no limit."""


# Settings of files.


def _check_template(template: str) -> str:
    if fault := fault_of_template(template):
        message = f"{template!r} {fault}"
        raise ValueError(message)
    return template


UrlTemplate = Annotated[str, AfterValidator(_check_template)]
"""Template of the URL of a file, with placeholders in braces."""


class FileTextSettings(SettingsGroup):
    """Extraction of the text of files, in the background, in a child process for each file."""

    enabled: bool = True
    """Whether the text of files is extracted. After a start with true, those that were left out before follow."""
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    """Maximum size of a file whose text is extracted."""
    max_chars: int = Field(default=2_000_000, ge=1_000, le=50_000_000)
    """Characters of text of a file that are indexed; the rest is left out."""
    max_expanded_bytes: int = Field(default=256 * 1024 * 1024, ge=1_000_000)
    """Maximum size to which the parts of an Office file, which is a zip archive, may expand."""
    memory_bytes: int = Field(default=1024 * 1024 * 1024, ge=256 * 1024 * 1024)
    """Maximum address space of the process, that of the interpreter and its libraries included (Linux)."""
    cpu_seconds: int = Field(default=30, ge=1, le=3_600)
    """Maximum processor time of the process."""
    seconds: float = Field(default=60.0, ge=1, le=3_600)
    """Maximum duration of an extraction."""
    processes: int = Field(default=1, ge=1, le=64)
    """Number of files whose text is extracted at a time."""


class FileSettings(SettingsGroup):
    """Limits and transfer of files."""

    max_bytes: int = Field(default=1024 * 1024 * 1024, ge=1)
    """Maximum size of a file."""
    media_types: tuple[str, ...] = ()
    """Accepted media types, such as ["image/*", "application/pdf"]. Empty: all."""
    extensions: tuple[str, ...] = ()
    """Accepted file extensions in lower case without the dot, such as ["png", "pdf"]. Empty: all."""
    temp_hours: float = Field(default=24.0, ge=0, le=876_000)
    """Default lifetime of files of the category temp. 0: unlimited."""
    cache_hours: float = Field(default=24.0 * 7, ge=0, le=876_000)
    """Default lifetime of files of the category cache. 0: unlimited."""
    sweep_minutes: float = Field(default=60.0, ge=0, le=525_600)
    """Interval of the removal of expired files and unused blobs. 0: only by CheckIntegrity."""
    max_streams: int = Field(default=64, ge=1)
    """Maximum number of concurrent uploads and downloads; further ones fail with RESOURCE_EXHAUSTED."""
    threads: int = Field(default=4, ge=1)
    """Number of threads that read and write blobs."""
    download_url: UrlTemplate = ""
    """Template of download URLs in ResolveFileRefs, such as "https://files.example.com/{category}/{id}/download".
    Placeholders: category, id, name, sha256, user_id, project_id, tenant_id. Empty: no URLs."""
    preview_url: UrlTemplate = ""
    """Template of preview URLs, likewise."""
    text: FileTextSettings = FileTextSettings()
    """Extraction of text."""


# Settings of the detection of vault edits and of Git commits.


class GitSettings(SettingsGroup):
    """Git commits of changed vault files, in the repository that contains the vault, or in a new one."""

    enabled: bool = False
    """Whether to commit. Only files of the vault are committed; other staged changes stay staged."""
    author_name: str = Field(default="memsvc", pattern=_NAME, max_length=128, json_schema_extra=_NAME_FORM)
    """The name of the committer."""
    author_email: str = Field(default="memsvc@localhost", pattern=_NAME, max_length=128, json_schema_extra=_NAME_FORM)
    """The email address of the committer."""
    message: str = Field(
        default="memory: {summary}",
        min_length=1,
        max_length=256,
        pattern=r"^[^\n\r]+$",
        json_schema_extra={"form": "must be one line"},
    )
    """The first line of a commit's message; {summary} becomes a summary such as "2 added, 1 changed"."""
    batch_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """Interval of commits of changed files."""


class VaultWatchingSettings(SettingsGroup):
    """Detection of edits of the vault's files, and their Git commits."""

    watch: WatchMode = WatchMode.EVENTS
    """Detection of edited files. events: by events of the file system, or by polling where they are not delivered.
    polling: by polling only. off: only SyncVault and the next start import edits."""
    debounce_seconds: float = Field(default=1.0, ge=0.05, le=60)
    """Time without changes after which a file is imported: an editor may take that long to save it."""
    poll_seconds: float = Field(default=2.0, ge=0.1, le=3_600)
    """Polling interval without events; longer if a scan takes long."""
    sweep_seconds: float = Field(default=SWEEP_SECONDS, ge=1, le=86_400)
    """Interval of full scans with events, for missed ones."""
    git: GitSettings = GitSettings()
    """Git commits of the vault."""


# Settings of authorisation and of the audit log.


class TlsSettings(SettingsGroup):
    """Encryption. Changed files are reloaded; open connections are not affected."""

    certificate: Path | None = None
    """The server certificate in PEM with its intermediate certificates. It enables TLS at every TCP address, but not at
    Unix sockets."""
    key: Path | None = None
    """The private key of the certificate in PEM, unencrypted."""
    client_ca: Path | None = None
    """Certificate authorities of client certificates in PEM (mTLS). Empty: no client certificates."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            message = "server.tls.certificate and server.tls.key belong together: set both"
            raise ValueError(message)
        if self.client_ca is not None and self.certificate is None:
            message = "server.tls.client_ca needs server.tls.certificate and server.tls.key"
            raise ValueError(message)
        return self


class AccessSettings(SettingsGroup):
    """API keys, their limits, and the audit log. `memsvc keys create` creates keys."""

    keys: KeyDemand = KeyDemand.AUTO
    """Whether an API key is required: auto (once a key was created), required or off."""
    refresh_seconds: float = Field(default=2.0, gt=0, le=3600)
    """Maximum time until a key revoked by another process is refused. In the same process it is refused at once."""
    calls_per_second: float = Field(default=0.0, ge=0, le=1_000_000)
    """Default rate limit of a key in calls per second; further calls fail with RESOURCE_EXHAUSTED. Servers of one store
    count together. 0: no limit."""
    concurrent_calls: int = Field(default=0, ge=0)
    """Default limit of concurrent calls of a key to one server; a stream counts while it is open. 0: no limit."""
    audit_file: str = ""
    """Audit log: a line of JSON for each call that changes data or is refused for its key, with caller, method and
    outcome, without content. A file, which is reopened after rotation; "-" for stderr; empty: none."""


class EventLoop(StrEnum):
    """Implementations of asyncio's event loop."""

    UVLOOP = "uvloop"
    """An implementation in C: a call takes three quarters of the time."""
    ASYNCIO = "asyncio"
    """The implementation of the standard library."""


class WaitSettings(SettingsGroup):
    """Longest waits of calls for a thread by class, in seconds.

    A call fails with RESOURCE_EXHAUSTED when it arrives if
    those before it, at the measured rate, make it wait for longer, or for longer than its deadline; else once it has
    waited for so long.
    """

    search_seconds: float = Field(default=3.0, gt=0, le=86_400)
    """Searches and contexts."""
    read_seconds: float = Field(default=3.0, gt=0, le=86_400)
    """Reads by id and lists."""
    write_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """Writes of single memories, messages and files."""
    language_seconds: float = Field(default=20.0, gt=0, le=86_400)
    """Calls that ask a language model."""
    bulk_seconds: float = Field(default=20.0, gt=0, le=86_400)
    """Batches, documents, the beginning of imports, erasures and rollbacks. They have half of the threads at most, and
    yield to other calls that wait."""
    admin_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Statistics, diagnosis, API keys and quotas."""


class ServerSettings(SettingsGroup):
    """Addresses, limits and concurrency of the server."""

    address: str = "127.0.0.1:50051"
    """Addresses to listen at: HOST:PORT, [IPV6]:PORT or unix:PATH, separated by commas. Port 0: a free one."""
    insecure: bool = False
    """Whether to listen beyond loopback without API keys and client certificates."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""
    health_address: str = ""
    """A second address, HOST:PORT or unix:PATH, for health checks only, without TLS and API keys: for probes without
    TLS support, such as those of Kubernetes. It may be beyond loopback. Empty: only at *address*."""
    reflection: bool = True
    """Whether server reflection is enabled, for tools such as grpcurl."""
    grace_seconds: float = Field(default=20.0, ge=0, le=86_400)
    """Maximum time for running calls after SIGTERM."""
    default_deadline_seconds: float = Field(default=30.0, gt=0, le=86_400)
    """Default deadline of unary calls."""
    max_message_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    """Maximum size of a request or reply."""
    search_threads: int = Field(default=8, ge=1)
    """Number of concurrent searches."""
    write_threads: int = Field(default=32, ge=1)
    """Number of concurrent writes; they share commits."""
    meta_threads: int = Field(default=8, ge=1)
    """Number of concurrent reads by id, lists and reports."""
    active_threads: int = Field(default=0, ge=0)
    """Number of searches, of writes and of reads by id that compute at once, while others wait for a disk or a process.

    A call that computes for longer than 20 ms does not count. 0: with the profile `embedded` one for each four
    processors, at least one; with others no limit.
    """
    language_threads: int = Field(default=4, ge=1)
    """Number of concurrent calls that use a language model."""
    queue_factor: int = Field(default=4, ge=1)
    """Maximum queue length per thread; further calls fail with RESOURCE_EXHAUSTED."""
    tenant_share: float = Field(default=0.75, gt=0, le=1)
    """Share of each pool of threads, and of the slots of watches, of uploads and downloads, of exports and of imports,
    that the keys of one tenant may hold at a time, at least one of each. Without API keys one user may hold as large a
    share of the slots, rounded up. 1: all."""
    key_share: float = Field(default=0.5, gt=0, le=1)
    """The same for one key. Of calls that find no thread, as many of one key wait as this share of the queue. They take
    turns by key, and those of one key, or without keys, by user."""
    wait: WaitSettings = WaitSettings()
    """Longest waits for a thread."""
    first_message_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Maximum wait for the first message of a stream of requests, such as an upload; then it fails with
    DEADLINE_EXCEEDED. It holds a slot from its header on."""
    next_message_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Maximum wait for each further message of such a stream."""
    reader_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Maximum time that a client may take to read a message of a stream of responses, such as an export, before the
    stream fails with DEADLINE_EXCEEDED."""
    event_loop: EventLoop = EventLoop.UVLOOP
    """The implementation of the event loop."""


class OAuthSettings(SettingsGroup):
    """An OAuth 2.1 authorization server whose access tokens (JWT, RFC 9068) MCP over HTTP accepts, beside API keys."""

    issuer: str = ""
    """URL of the authorization server, as its tokens name it. Empty: API keys alone."""
    resource: str = ""
    """URL of the MCP endpoint as clients know it (RFC 9728), such as https://memory.example/mcp. *issuer* needs it."""
    audience: str = ""
    """Audience of the tokens. Empty: *resource*."""
    jwks_url: str = ""
    """URL of the public keys (JWKS), cached for 5 minutes. Empty: that of the metadata of *issuer*."""
    scopes: tuple[str, ...] = ()
    """Scopes that every token needs."""
    write_scope: str = ""
    """Scope that a token needs to change memories. Empty: every token may."""
    user_claim: str = "sub"
    """The claim that is the user id."""
    project_claim: str = ""
    """The claim that is the project id. Empty: the URL or a header of the client's configuration says it."""
    tenant_id: str = ""
    """The tenant of all users of this issuer. Empty: the one without a name."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.issuer and not self.resource:
            message = "http.oauth.issuer needs http.oauth.resource, the URL of the MCP endpoint"
            raise ValueError(message)
        for name in ("issuer", "resource", "jwks_url"):
            url = getattr(self, name)
            if url and not _is_encrypted_or_local(url):
                message = f"http.oauth.{name} must begin with https:// unless it is on this machine"
                raise ValueError(message)
        return self


def _is_encrypted_or_local(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        return bool(host) and (
            parts.scheme == "https"
            or (parts.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback))
        )
    except ValueError:
        return False


class HttpSettings(SettingsGroup):
    """The same API over HTTP: Connect, gRPC-Web and plain JSON, for curl, browsers and clients without gRPC."""

    address: str = "127.0.0.1:50080"
    """HTTP address: HOST:PORT or unix:PATH, by HTTP/1.1 and HTTP/2. Encryption and API keys are those of the server;
    the same rules apply beyond loopback. Empty: gRPC alone."""
    max_json_bytes: int = Field(default=4 * 1024 * 1024, ge=64 * 1024)
    """Maximum size of a request in JSON."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the API and MCP from a browser, such as "https://agents.example". "*": all."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names beyond those of this machine, such as that of a proxy on it, that the service answers to while it
    needs no API keys. A web page could have any name resolve to this machine. "*": all."""
    max_connections: int = Field(default=1_000, ge=1)
    """Maximum number of open connections; requests of further ones fail with status 503."""
    console: bool = True
    """Whether the console, a web page, is served at /."""
    mcp: bool = True
    """Whether MCP is served at /mcp (Streamable HTTP), if `memsvc[mcp]` is installed."""
    oauth: OAuthSettings = OAuthSettings()
    """The authorization server of MCP."""

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, _, host = origin.partition("://")
            if origin not in {"*", "null"} and (not host or not scheme or origin != origin.lower() or "/" in host):
                message = f"{origin!r} is no origin: write SCHEME://HOST or SCHEME://HOST:PORT in small letters"
                raise ValueError(message)
        return origins


class BackendChoice(SettingsGroup):
    """Backend of a port, and its options."""

    backend: str
    """The name of the backend, as `memsvc backends` lists it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The options of the backend. An unknown name is an error at start."""


class WatchSettings(SettingsGroup):
    """Options of watches."""

    max_streams: int = Field(default=1000, ge=1)
    """Watches at a time; further ones are answered RESOURCE_EXHAUSTED."""
    max_lag: int = Field(default=100_000, ge=1)
    """Maximum lag of a watcher in changes; beyond it its stream ends with an error."""
    threads: int = Field(default=2, ge=1)
    """Threads that read changes for watchers, apart from those of the other calls."""
    poll_seconds: float = Field(default=0.0, ge=0, le=86_400)
    """Polling interval for changes of other processes on the same store. 0: as the store needs it, never where
    no other process can write to it, and five times a second where others can."""


class WebhookEvent(StrEnum):
    """Kinds of changes that a webhook sends."""

    CREATED = "memory.created"
    UPDATED = "memory.updated"
    DELETED = "memory.deleted"
    RESTORED = "memory.restored"
    PURGED = "memory.purged"


class WebhookEndpointSettings(SettingsGroup):
    """An endpoint that changes of memories are sent to."""

    url: str
    """The URL, https://HOST/PATH; with `webhooks.allow_private` also http://. It holds no user name and no password."""
    secret: SecretStr
    """The key of the signatures (Standard Webhooks): "whsec_" and 24 to 64 random bytes in Base64."""
    tenant_id: str = ""
    """The tenant whose changes are sent. Empty: the one without a name."""
    user_ids: tuple[str, ...] = ()
    """The users whose changes are sent. Empty: all users of the tenant."""
    events: tuple[WebhookEvent, ...] = tuple(WebhookEvent)
    """The kinds of changes that are sent: memory.created, memory.updated, memory.deleted, memory.restored,
    memory.purged. Empty: all."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if fault := fault_of_webhook_url(url):
            raise ValueError(fault)
        return url

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        if not is_webhook_secret(secret.get_secret_value()):
            message = 'must be "whsec_" and 24 to 64 bytes in Base64'
            raise ValueError(message)
        return secret


class WebhookSettings(SettingsGroup):
    """Webhooks: every committed change of memories, sent to endpoints by signed HTTP requests, at least once."""

    endpoints: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")], WebhookEndpointSettings] = Field(
        default_factory=dict
    )
    """The endpoints by name: lower-case letters, digits and hyphens. A table `[webhooks.endpoints.NAME]` each; the
    secret may also come from the variable or the file of secrets MEMSVC_WEBHOOKS__ENDPOINTS__NAME__SECRET. A new
    endpoint gets the changes that are made from then on."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that endpoints may have, compared exactly. Empty: all."""
    allow_private: bool = False
    """Whether requests to private, loopback and link-local addresses, such as the metadata services of clouds, and
    unencrypted requests are allowed. All addresses of a host are checked at each request; no redirects are followed."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=120)
    """Maximum duration of a request."""
    concurrency: int = Field(default=16, ge=1, le=1_000)
    """Maximum number of requests under way for each endpoint. Those of one user follow one another."""
    retry_seconds: float = Field(default=1.0, gt=0, le=3_600)
    """Pause after the first failed attempt. It doubles with each further one; a random part of up to a half is taken
    off."""
    max_retry_seconds: float = Field(default=3_600.0, gt=0, le=86_400)
    """Longest pause between two attempts, and the longest Retry-After that is heeded."""
    max_attempts: int = Field(default=20, ge=1, le=1_000)
    """Attempts after which a delivery becomes a dead letter."""
    max_hours: float = Field(default=24.0, gt=0, le=8_760)
    """Time since the first attempt after which it does."""

    @model_validator(mode="after")
    def _check_endpoints(self) -> Self:
        for name, endpoint in self.endpoints.items():
            where = f"webhooks.endpoints.{name}.url"
            host = (urlsplit(endpoint.url).hostname or "").lower()
            if self.allowed_hosts and host not in {one.lower() for one in self.allowed_hosts}:
                message = f"{where}: the host {host!r} is not one of webhooks.allowed_hosts"
                raise ValueError(message)
            if not self.allow_private and not endpoint.url.startswith("https://"):
                message = f"{where} must begin with https:// unless webhooks.allow_private is true"
                raise ValueError(message)
            if not self.allow_private and is_private_literal(host):
                message = f"{where}: {host} is not a public address; webhooks.allow_private allows it"
                raise ValueError(message)
        return self


class MetricsSettings(SettingsGroup):
    """The second port, for Prometheus and for probes. It reports numbers, never names of users or content."""

    address: str = ""
    """HTTP address of /metrics, /healthz and /readyz: HOST:PORT, such as 127.0.0.1:9464. Empty: none."""
    tenants: bool = False
    """Whether metrics name tenants: the limit and the use of each quota of a tenant, at most 1 000."""


class BackupSettings(SettingsGroup):
    """Location of backups."""

    directory: Path | None = None
    """The folder that CreateBackup makes backups in; by default the folder `backups` of the data directory."""


class VaultSettings(VaultWatchingSettings):
    """Memories as files that people read and edit."""

    directory: Path | None = None
    """The folder of the vault, which is made when it is not there. One service at a time keeps it. Without one there is
    no vault."""
    format: NoteFormat = NoteFormat.MEMSVC
    """Names of the front matter. memsvc: those of the API. okf: those of the Open Knowledge Format 0.2, so that each
    file is a concept of a bundle. After a change run `memsvc vault sync --rewrite-all`."""


class LogFormat(StrEnum):
    """Format of log lines."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """Severity of log messages, least first."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogSettings(SettingsGroup):
    """Logging to stderr. Content, vectors and queries are never logged."""

    level: LogLevel = LogLevel.INFO
    """The least severe messages that are logged."""
    format: LogFormat = LogFormat.AUTO
    """json, console, or auto: console on a terminal."""
