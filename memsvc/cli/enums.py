"""Choices of the command line. The names of the members are those of the API."""

from __future__ import annotations

from enum import StrEnum, auto


class _Hyphenated(StrEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:  # noqa: ARG004
        return name.lower().replace("_", "-")


class Layer(_Hyphenated):
    """Intended lifetime of a memory."""

    CORE = auto()
    SESSION = auto()
    SHORT_TERM = auto()
    LONG_TERM = auto()


class WordMatch(_Hyphenated):
    """Match of a word of a search with keywords of memories."""

    WHOLE = auto()
    PREFIX = auto()
    SUBSTRING = auto()


class Kind(_Hyphenated):
    """Sort of statement that a memory is."""

    FACT = auto()
    PREFERENCE = auto()
    EXPERIENCE = auto()
    OPINION = auto()
    KNOWLEDGE = auto()
    DECISION = auto()
    TASK = auto()
    NOTE = auto()
    SUMMARY = auto()
    DOCUMENT = auto()
    SKILL = auto()
    MESSAGE = auto()


class Mode(_Hyphenated):
    """Retrievers that a search uses."""

    HYBRID = auto()
    SEMANTIC = auto()
    KEYWORD = auto()


class ContextSection(_Hyphenated):
    """A part of a context."""

    GLOBAL_CORE = auto()
    PROJECT_CORE = auto()
    SESSION = auto()
    LONG_TERM = auto()
    SHORT_TERM = auto()
    GLOBAL = auto()
    EVIDENCE = auto()
    FILES = auto()


class Recurrence(_Hyphenated):
    """Recurrence of a reminder."""

    YEAR = auto()
    MONTH = auto()
    WEEK = auto()


class OtherSystem(_Hyphenated):
    """System whose export is imported."""

    CHATGPT = auto()
    CLAUDE = auto()
    MEM0 = auto()
    ZEP = auto()
    LETTA = auto()
    LANGGRAPH = auto()
    BASIC_MEMORY = auto()
    OKF = auto()


class CodingAgent(_Hyphenated):
    """Agent that `memsvc setup` configures."""

    CLAUDE_CODE = auto()
    CURSOR = auto()
    CODEX = auto()
    OPENCLAW = auto()
    HERMES = auto()


class HookAgent(_Hyphenated):
    """Agent whose events `memsvc hook` reads."""

    CLAUDE_CODE = auto()
    OPENCLAW = auto()
    HERMES = auto()


class OnDuplicate(_Hyphenated):
    """Action when equal content is stored."""

    RETURN_EXISTING = auto()
    REJECT = auto()
    KEEP_BOTH = auto()


class Slot(_Hyphenated):
    """Parts of a day in which what is due is given once."""

    MORNING = auto()
    AFTERNOON = auto()


class ConflictPolicy(_Hyphenated):
    """Action on an older memory that the new one contradicts."""

    MARK = auto()
    SUPERSEDE = auto()
    KEEP_BOTH = auto()


class ConflictState(_Hyphenated):
    """State of a conflict."""

    OPEN = auto()
    CONFIRMED = auto()
    REJECTED = auto()
    KEPT_BOTH = auto()
    CLOSED = auto()


class Resolution(_Hyphenated):
    """A decision about a conflict."""

    CONFIRM = auto()
    REJECT = auto()
    KEEP_BOTH = auto()


class Role(_Hyphenated):
    """Speaker in a conversation with an agent."""

    SYSTEM = auto()
    USER = auto()
    ASSISTANT = auto()
    TOOL = auto()


class DocumentKind(_Hyphenated):
    """Format of a document."""

    DOCUMENT = auto()
    SKILL = auto()


class Verdict(_Hyphenated):
    """Decision of a review."""

    APPROVE = auto()
    REJECT = auto()


class Origin(_Hyphenated):
    """Class of the source of a memory."""

    USER = auto()
    AGENT = auto()
    TOOL = auto()
    DOCUMENT = auto()
    IMPORT = auto()


class Index(_Hyphenated):
    """A derived index."""

    VECTORS = auto()
    LEXICAL = auto()


class MaintenanceStep(_Hyphenated):
    """A sort of upkeep."""

    EXPIRE = auto()
    PROMOTE = auto()
    ARCHIVE = auto()
    COMPACT = auto()
    CONSOLIDATE = auto()
    DETECT_CONFLICTS = auto()
    SUMMARIZE = auto()
    CHECK_REFERENCES = auto()
    COMPARE_INDEXES = auto()
    REPLAY_USE = auto()
    PURGE = auto()


class UseOutcome(_Hyphenated):
    """Outcome of a memory that was shown."""

    USED = auto()
    IGNORED = auto()
    WRONG = auto()


class ImportFormat(_Hyphenated):
    """Format of an import."""

    AUTO = auto()
    JSONL = auto()
    MD = auto()


class SessionState(_Hyphenated):
    """State of a session."""

    ACTIVE = auto()
    CLOSED = auto()
    ARCHIVED = auto()


class KeyRole(_Hyphenated):
    """Role of an API key."""

    READ_ONLY = auto()
    READ_WRITE = auto()
    ADMIN = auto()
