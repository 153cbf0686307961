"""Settings of what is done with memories: ranking, contexts, sessions, trust, reminders, maintenance."""

from __future__ import annotations

from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from memsvc.domain.maintenance import UpkeepStep
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.settings.part import SettingsGroup

SHARES_TOLERANCE = 0.001


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


class IndexingSettings(SettingsGroup):
    """How the indexes follow the store."""

    upkeep_seconds: float = Field(default=5.0, gt=0)
    """How often to look whether an index should be rebuilt."""
    access_flush_seconds: float = Field(default=5.0, gt=0)
    """How often access counts are written down."""
    outbox_days: float = Field(default=7.0, gt=0)
    """How long changes that are applied stay in the outbox."""


class SessionSettings(SettingsGroup):
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


class RedactionSettings(SettingsGroup):
    """Where secrets (keys, tokens, passwords, card numbers) are replaced before anything is stored."""

    capture: bool = True
    """In what is captured and flushed from conversations, also before a language model sees it."""
    writes: bool = False
    """In all that callers write themselves: create, batch, import, update, append, ingest. Content is then no longer
    kept exactly as it was sent."""


class ProvenanceSettings(SettingsGroup):
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


class ReminderSettings(SettingsGroup):
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


class ConsolidationSettings(SettingsGroup):
    """Merging memories that say the same, and summing up daily logs, months and topics."""

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
    archive_unread_days: float = Field(default=90.0, gt=0, le=36_500)
    """How long a LONG_TERM memory may be neither read nor changed before it is archived."""
    storage_limit_bytes: int = Field(default=0, ge=0)
    """How much the content of one user's LONG_TERM memories in use may take before the least useful ones are archived:
    the least important, of those the least often read, of those the oldest. 0: no limit."""
