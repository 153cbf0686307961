"""Settings of the process: listening, backends, logs, metrics, backups."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from memsvc.domain.api_keys import KeyDemand
from memsvc.domain.field_rules import time_zone
from memsvc.domain.files import fault_of_template
from memsvc.domain.maintenance import UpkeepStep
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.vault.watcher import SWEEP_SECONDS, WatchMode

SHARES_TOLERANCE = 0.001
_NAME = r"^[^<>\x00-\x1f]+$"

# Base of all groups of settings.


class SettingsGroup(BaseModel):
    """A group of settings; a name that it does not know stops the start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# Settings of what is done with memories: ranking, contexts, sessions, trust, reminders, maintenance.


class RankingSettings(SettingsGroup):
    """The constants of the ranking recipe. The defaults are measured: see docs/concepts/ranking.md."""

    tier: EmbeddingGranularity = EmbeddingGranularity.S
    """S: one vector a chunk. E: vectors of runs of sentences and of windows too; finds better, writes slower."""
    depth: int = Field(default=100, ge=10, le=1000)
    """Hits asked of each retriever."""
    neighbour: float = Field(default=0.25, ge=0, le=1)
    """Share of the score of the line before or after in the same session."""
    session: float = Field(default=0.20, ge=0, le=1)
    """Weight of how well the words fit the session as a whole."""
    date: float = Field(default=0.10, ge=0, le=1)
    """Weight of a date named in the query that fits the memory's."""
    speaker: float = Field(default=0.15, ge=0, le=1)
    """Taken off when the query names a speaker and another one speaks."""

    time_weighting: bool = False
    """Whether searches that do not say so weigh age, importance and use."""
    decay_factor: float = Field(default=0.95, gt=0, le=1)
    """What 30 days leave of a score when time is weighed."""


class ContextSettings(SettingsGroup):
    """Defaults of contexts."""

    total_tokens: int = Field(default=128_000, ge=1, le=10_000_000)
    """The budget."""
    core_share: float = Field(default=0.1, ge=0, le=1)
    """The part of core memories in it."""
    session_share: float = Field(default=0.5, ge=0, le=1)
    """The part of the conversation."""
    short_term_share: float = Field(default=0.2, ge=0, le=1)
    """The part of the last days."""
    long_term_share: float = Field(default=0.2, ge=0, le=1)
    """The part of what the query retrieves. The four shares together are 1."""
    locale: str = Field(default="en", pattern="^(en|zh)$")
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

    upkeep_seconds: float = Field(default=5.0, gt=0)
    """How often to look whether an index should be rebuilt."""
    access_flush_seconds: float = Field(default=5.0, gt=0)
    """How often access counts are written down."""
    outbox_days: float = Field(default=7.0, gt=0)
    """How long changes that are applied stay in the outbox."""


class SessionSettings(SettingsGroup):
    """Defaults of sessions."""

    token_limit: int = Field(default=64_000, ge=100, le=10_000_000)
    """At how many tokens a session is full."""
    auto_trim: bool = True
    """Whether a full session is trimmed by itself."""
    trim_to: float = Field(default=0.5, ge=0, lt=1)
    """What share of its limit a trimmed session keeps."""
    keep_rounds: int = Field(default=3, ge=0, le=100)
    """How many of the last rounds trimming leaves alone where there is room; a round begins with a user's message."""
    summary_tokens: int = Field(default=500, ge=20, le=10_000)
    """How long the summary of what was trimmed may be; it is a quarter of that at most."""
    flush_tokens: int = Field(default=8_000, ge=0, le=10_000_000)
    """At how many tokens of live messages since the last flush memories are extracted from them; 0: never."""
    archive_others: bool = True
    """Whether opening a session archives the other active ones of the same user and project."""


class RedactionSettings(SettingsGroup):
    """Places where secrets (keys, tokens, passwords, card numbers) are replaced before anything is stored."""

    capture: bool = True
    """In what is captured and flushed from conversations, also before a language model sees it."""
    writes: bool = False
    """In all that callers write themselves: create, batch, import, update, append, ingest. Content is then no longer
    kept exactly as it was sent."""


class ProvenanceSettings(SettingsGroup):
    """Trust of memories by the class of their source. A change does not affect stored memories."""

    trust_user: float = Field(default=1.0, ge=0, le=1)
    """The most that is trusted to what the user said."""
    trust_agent: float = Field(default=0.8, ge=0, le=1)
    """The most that is trusted to what an agent concluded."""
    trust_tool: float = Field(default=0.5, ge=0, le=1)
    """The most that is trusted to what a tool or a web page returned."""
    trust_document: float = Field(default=0.6, ge=0, le=1)
    """The most that is trusted to a document."""
    trust_import: float = Field(default=0.7, ge=0, le=1)
    """The most that is trusted to what was imported."""
    quarantine_below: float = Field(default=0.0, ge=0, le=1)
    """Memories of less trust are withheld for a review. 0 withholds only those that ask for it."""


class ReminderSettings(SettingsGroup):
    """Options of reminders."""

    detect: bool = True
    """Whether birthdays, deadlines and the like are found in what is written. Given reminders count in any case."""
    time_zone: str = "UTC"
    """The zone of callers who name none, by its IANA name, such as Asia/Shanghai."""

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

    threshold: float = Field(default=0.5, ge=0, le=1)
    """The least similarity (cosine of centred vectors) of memories that are compared word by word."""
    run_memories: int = Field(default=40_000, ge=1)
    """How many memories one maintenance run compares, at half a millisecond each; the next run goes on. Compared is
    what was changed since the last time, and after a start everything."""
    log_days: float = Field(default=7.0, gt=0, le=36_500)
    """How many days after its day a daily log is summed up and archived."""
    log_tokens: int = Field(default=200, ge=20, le=10_000)
    """How long the summary of a daily log may be."""
    summary_tokens: int = Field(default=500, ge=20, le=10_000)
    """How long the summary of a month or topic may be, unless the call says otherwise."""


class MaintenanceSettings(SettingsGroup):
    """Options of maintenance."""

    interval_minutes: float = Field(default=60.0, ge=0)
    """How long after one maintenance run ended the next one begins, in whichever process. 0: only on call."""
    jitter_minutes: float = Field(default=5.0, ge=0)
    """By up to how much a run is late, so that several processes on one store do not begin at once."""
    steps: tuple[UpkeepStep, ...] = ()
    """Which steps runs by themselves take: EXPIRE, PROMOTE, ARCHIVE, COMPACT, CONSOLIDATE. Empty: all."""
    changes_per_step: int = Field(default=10_000, ge=1)
    """The most that one step changes in a run; what is left is for the next one."""
    promote_accesses: int = Field(default=5, ge=1)
    """How often a SHORT_TERM memory must have been read to become LONG_TERM; at most one read an hour counts."""
    archive_unread_days: float = Field(default=90.0, gt=0, le=36_500)
    """How long a LONG_TERM memory may be neither read nor changed before it is archived."""
    storage_limit_bytes: int = Field(default=0, ge=0)
    """How much the content of one user's LONG_TERM memories in use may take before the least useful ones are archived:
    the least important, of those the least often read, of those the oldest. 0: no limit."""


# Settings of files.


def _check_template(template: str) -> str:
    if fault := fault_of_template(template):
        message = f"{template!r} {fault}"
        raise ValueError(message)
    return template


UrlTemplate = Annotated[str, AfterValidator(_check_template)]
"""Where a file is reached, with places in braces."""


class FileSettings(SettingsGroup):
    """Limits and transfer of files."""

    max_bytes: int = Field(default=1024 * 1024 * 1024, ge=1)
    """How large a file may be."""
    media_types: tuple[str, ...] = ()
    """Which media types may be uploaded, such as ["image/*", "application/pdf"]. Empty: all."""
    extensions: tuple[str, ...] = ()
    """Which endings a file's name may have, without the dot and in lower case, such as ["png", "pdf"]. Empty: all."""
    temp_hours: float = Field(default=24.0, ge=0)
    """How long files of the category temp live that say nothing else. 0: for good."""
    cache_hours: float = Field(default=24.0 * 7, ge=0)
    """Likewise those of the category cache."""
    sweep_minutes: float = Field(default=60.0, ge=0)
    """How often expired files, and bytes that no file uses any more, are removed. 0: by CheckIntegrity alone."""
    max_streams: int = Field(default=64, ge=1)
    """Uploads and downloads at a time; further ones are answered RESOURCE_EXHAUSTED."""
    threads: int = Field(default=4, ge=1)
    """Threads that read and write their bytes."""
    download_url: UrlTemplate = ""
    """Where you serve files, such as "https://files.example.com/{category}/{id}/download", for ResolveFileRefs to tell.
    Places: category, id, name, sha256, user_id, project_id, tenant_id. Empty: no URLs."""
    preview_url: UrlTemplate = ""
    """Likewise where you serve previews."""


# Settings of how the vault is watched and committed to Git.


class GitSettings(SettingsGroup):
    """Git commits of changed vault files, in the repository that contains the vault, or in a new one."""

    enabled: bool = False
    """Whether to commit. Only the vault's own files are; what people have staged is left alone."""
    author_name: str = Field(default="memsvc", pattern=_NAME, max_length=128)
    """Who commits."""
    author_email: str = Field(default="memsvc@localhost", pattern=_NAME, max_length=128)
    """The address of who commits."""
    message: str = Field(default="memory: {summary}", min_length=1, max_length=256, pattern=r"^[^\n\r]+$")
    """The first line of a commit's message; {summary} becomes a summary such as "2 added, 1 changed"."""
    batch_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """How often what happened since the last commit is committed, if anything did."""


class VaultWatchingSettings(SettingsGroup):
    """Detection of edits of the vault's files, and their Git commits."""

    watch: WatchMode = WatchMode.EVENTS
    """How files that people edit are noticed. events: the system tells; where it does not, the vault is looked over
    again and again. polling: it is from the start. off: only SyncVault, and the next start, take edits."""
    debounce_seconds: float = Field(default=1.0, ge=0.05, le=60)
    """How long a file must be left alone before it is taken: an editor may take that long to save it."""
    poll_seconds: float = Field(default=2.0, ge=0.1, le=3_600)
    """How often the vault is looked over without events; less often when a look takes long."""
    sweep_seconds: float = Field(default=SWEEP_SECONDS, ge=1, le=86_400)
    """How often the vault is looked over with events, for what they did not tell."""
    git: GitSettings = GitSettings()
    """Commits."""


# Settings of who may do what, and of what is noted of it.


class TlsSettings(SettingsGroup):
    """Encryption. The files are read again when they change; connections that are open stay as they are."""

    certificate: Path | None = None
    """The certificate that the service shows, in PEM, with those of the authorities between. With it, TLS is spoken at
    every TCP address; Unix sockets stay without."""
    key: Path | None = None
    """The key of the certificate, in PEM, without a password."""
    client_ca: Path | None = None
    """The authorities, in PEM, of which clients must show a certificate (mTLS). Without: clients show none."""

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
    """API keys, how much they may do, and the audit log. Keys are made by `memsvc keys create`."""

    keys: KeyDemand = KeyDemand.AUTO
    """Whether callers are asked for a key: auto (as soon as one was ever made), required or off."""
    refresh_seconds: float = Field(default=2.0, gt=0, le=3600)
    """How long a key that another process revoked may still be taken, at most. This process knows at once."""
    calls_per_second: float = Field(default=0.0, ge=0)
    """How many calls a key may begin in a second that says nothing itself; further ones are answered
    RESOURCE_EXHAUSTED. 0: no limit."""
    concurrent_calls: int = Field(default=0, ge=0)
    """How many calls of a key may be under way that says nothing itself; a stream counts while it is open. 0: no
    limit."""
    audit_file: str = ""
    """Where each call that changes something, and each that is refused for its key, is noted as a line of JSON: who,
    what, with what outcome; never any content. A file, which is reopened when it is moved away; "-" for stderr;
    empty for nowhere."""


class EventLoop(StrEnum):
    """Implementations of asyncio's event loop."""

    UVLOOP = "uvloop"
    """In C; a call takes three quarters of the time."""
    ASYNCIO = "asyncio"
    """Python's own."""


class ServerSettings(SettingsGroup):
    """Addresses, limits and concurrency of the server."""

    address: str = "127.0.0.1:50051"
    """Where to listen: HOST:PORT, [IPV6]:PORT or unix:PATH, several separated by commas. Port 0 takes a free one."""
    insecure: bool = False
    """Whether to listen beyond loopback without API keys and client certificates."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""
    health_address: str = ""
    """A second address, HOST:PORT or unix:PATH, where health checks alone are answered, without TLS and without keys:
    for probes that speak no TLS, such as Kubernetes'. It may be beyond loopback. Empty: health is served at *address*
    alone."""
    reflection: bool = True
    """Whether grpcurl and the like may ask for the API's descriptors."""
    grace_seconds: float = Field(default=20.0, ge=0)
    """How long calls under way may go on after SIGTERM."""
    default_deadline_seconds: float = Field(default=30.0, gt=0)
    """The deadline of a unary call whose client sent none."""
    max_message_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    """The largest request or reply."""
    search_threads: int = Field(default=8, ge=1)
    """Searches worked on at a time."""
    write_threads: int = Field(default=32, ge=1)
    """Writes worked on at a time; they share commits."""
    meta_threads: int = Field(default=8, ge=1)
    """Reads by id, lists and reports worked on at a time."""
    language_threads: int = Field(default=4, ge=1)
    """Calls that wait for a language model at a time."""
    queue_factor: int = Field(default=4, ge=1)
    """Calls that may wait for each thread before RESOURCE_EXHAUSTED is answered."""
    event_loop: EventLoop = EventLoop.UVLOOP
    """Which implementation of the event loop carries the calls."""


class BackendChoice(SettingsGroup):
    """Backend of a port, and its options."""

    backend: str
    """The name of the backend, as `memsvc backends` lists it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The backend's own settings; a name it does not know stops the start."""


class WatchSettings(SettingsGroup):
    """Options of watches."""

    max_streams: int = Field(default=1000, ge=1)
    """Watches at a time; further ones are answered RESOURCE_EXHAUSTED."""
    max_lag: int = Field(default=100_000, ge=1)
    """How many changes a watcher may fall behind while it reads, before its stream ends with an error."""
    threads: int = Field(default=2, ge=1)
    """Threads that read changes for watchers, apart from those of the other calls."""
    poll_seconds: float = Field(default=0.0, ge=0)
    """How often to look for changes made by other processes on the same store. 0: as the store needs it, never where
    no other process can write to it, and five times a second where others can."""


class MetricsSettings(SettingsGroup):
    """The second port, for Prometheus and for probes. It reports numbers, never names or content."""

    address: str = ""
    """Where /metrics, /healthz and /readyz are served over HTTP: HOST:PORT, such as 127.0.0.1:9464. Empty: nowhere."""


class BackupSettings(SettingsGroup):
    """Location of backups."""

    directory: Path | None = None
    """The folder that CreateBackup makes backups in; by default the folder `backups` of the data directory."""


class VaultSettings(VaultWatchingSettings):
    """Memories as files that people read and edit."""

    directory: Path | None = None
    """The folder of the vault, which is made when it is not there. One service at a time keeps it. Without one there is
    no vault."""


class LogFormat(StrEnum):
    """Format of log lines."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogSettings(SettingsGroup):
    """Logging to stderr. Content, vectors and queries are never logged."""

    level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    """DEBUG, INFO, WARNING or ERROR."""
    format: LogFormat = LogFormat.AUTO
    """json, console, or auto: console on a terminal."""
