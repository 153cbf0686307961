"""A search, as asked and as answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID, uuid5

from memsvc.domain.clock import to_micros
from memsvc.domain.file_text import FilePassage
from memsvc.domain.files import File, FileCategory
from memsvc.domain.filters import Filter
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope, SessionVisibility, Visibility


class Mode(StrEnum):
    """Retrievers that a search uses."""

    HYBRID = "HYBRID"
    SEMANTIC = "SEMANTIC"
    KEYWORD = "KEYWORD"


class Retriever(StrEnum):
    """One way of finding memories."""

    DENSE = "DENSE"
    BM25 = "BM25"
    KEYWORD_TABLE = "KEYWORD_TABLE"


class FusionMethod(StrEnum):
    """Method that fuses the lists of several retrievers."""

    DEFAULT = "DEFAULT"
    RECIPROCAL_RANK = "RECIPROCAL_RANK"
    WEIGHTED = "WEIGHTED"


class Normalization(StrEnum):
    """Normalisation of a retriever's scores before they are weighted and summed."""

    MIN_MAX = "MIN_MAX"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion options. Retrievers missing from *weights* have the method's default weight.

    *single_retriever_factor* (0..1) multiplies the score of a memory that only one retriever found: the fused score in
    RECIPROCAL_RANK, that of the retriever in WEIGHTED. None: the fused score counts.
    """

    method: FusionMethod = FusionMethod.DEFAULT
    weights: Mapping[Retriever, float] | None = None
    rank_constant: int = 60
    normalization: Normalization = Normalization.MIN_MAX
    single_retriever_factor: float | None = None


class WordMatch(StrEnum):
    """Match of a word of a search with keywords: those that equal it, that begin with it, or that contain it."""

    WHOLE = "WHOLE"
    PREFIX = "PREFIX"
    SUBSTRING = "SUBSTRING"

    def chosen(self, keywords: Iterable[str], parts: Collection[str], limit: int) -> list[str]:
        """Return at most *limit* of the keywords that match one of *parts* and are none of them, each once.

        The shortest first, equal ones in their order by code point.
        """
        tests: Mapping[WordMatch, Callable[[str, str], bool]] = {
            WordMatch.PREFIX: str.startswith,
            WordMatch.SUBSTRING: str.__contains__,
        }
        if (test := tests.get(self)) is None:
            return []
        found = {keyword for keyword in keywords if any(test(keyword, part) for part in parts)} - {*parts}
        return sorted(found, key=lambda keyword: (len(keyword), keyword))[:limit]


@dataclass(frozen=True, slots=True)
class TimeWeighting:
    """Time weighting and layer boosts; factors of 1 change nothing."""

    decay_factor: float = 0.95
    long_term_boost: float = 1.0
    core_boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Memories that a read selects, apart from its scope.

    Attributes:
        where: What the caller's filter says, with the default conditions.
        archived: The same of archived memories, where a search looks if it finds nothing relevant; None: nowhere.
    """

    where: Filter | None = None
    visibility: Visibility = Visibility.PROJECT_AND_GLOBAL
    sessions: SessionVisibility = SessionVisibility.CURRENT
    archived: Filter | None = None


@dataclass(frozen=True, slots=True)
class Refinement:
    """Refinements of the best hits after ranking; None or 0 turns one off.

    Attributes:
        rerank_depth: How many of them a reranker reads.
        collapse_threshold: The share of pairs of neighbouring words in which long near-duplicates agree.
        mmr_lambda: The weight of relevance against novelty.
    """

    rerank_depth: int = 0
    collapse_threshold: float | None = None
    mmr_lambda: float | None = None

    @property
    def is_any(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.rerank_depth) or self.collapse_threshold is not None or self.mmr_lambda is not None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search, checked and with its defaults filled in.

    Attributes:
        selection: What the caller's filter says, including the default status and expiry conditions.
        offset: How many hits to leave out at the top (paging).
        position: The outbox position that the indexes must have reached; 0 asks for nothing.
        weighting: None means that time and layer play no part.
        known_time: Search what was known then; None: what is known now.
        valid_time: Memories are judged as of then; None: as of now.
        min_relevance: The minimum relevance of a hit, if it is known.
        use_feedback: Whether reports of use are part of the ranking, if they are for the user.
        counts_access: Whether the hits are recorded as accessed.
    """

    scope: Scope
    text: str = ""
    vector: Sequence[float] | None = None
    keywords: tuple[str, ...] = ()
    mode: Mode = Mode.HYBRID
    word_match: WordMatch = WordMatch.WHOLE
    fusion: Fusion = Fusion()
    selection: Selection = Selection()
    min_score: float = 0.0
    min_relevance: float = 0.0
    limit: int = 10
    offset: int = 0
    weighting: TimeWeighting | None = None
    explain: bool = False
    position: int = 0
    snippet_chars: int = 240
    known_time: datetime | None = None
    valid_time: datetime | None = None
    refinement: Refinement = Refinement()
    use_feedback: bool = False
    counts_access: bool = True


@dataclass(frozen=True, slots=True)
class RetrieverScore:
    """Contribution of one retriever: rank from 1, raw score, and share in the fused score."""

    retriever: Retriever
    rank: int
    raw_score: float
    normalized_score: float
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Breakdown of a score: the fused score, then every boost that was added or multiplied, in order."""

    retrievers: tuple[RetrieverScore, ...]
    fused_score: float
    boosts: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One memory found, with its best chunk. Spans are code point offsets into the snippet, sorted, disjoint.

    Attributes:
        relevance: The probability that the memory is what the query asks for; None if it is not known.
    """

    memory: Memory
    score: float
    snippet: str
    spans: tuple[tuple[int, int], ...]
    start_line: int
    end_line: int
    chunk_ordinal: int
    heading_path: tuple[str, ...]
    explanation: Explanation | None = None
    collapsed_ids: tuple[str, ...] = ()
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class FailedRetriever:
    """A retriever that did not answer; the others' hits are there all the same. *reason* names a reason of errors."""

    retriever: Retriever
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SkippedStage:
    """A stage that was asked for and left out, and why."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The hits, best first, equal scores by memory id.

    Attributes:
        nothing_relevant: Whether no memory that was found reaches the minimum relevance.
        embedded_chars: The number of characters at the beginning of a query that were embedded, if it is longer than
            the embedder takes, otherwise 0.
        archived: Archived memories that fit, best first, if nothing relevant was found; they are not hits.
    """

    hits: tuple[SearchHit, ...]
    degraded: tuple[FailedRetriever, ...] = ()
    timings: tuple[tuple[str, float], ...] = ()
    total_candidates: int = 0
    has_more: bool = False
    skipped: tuple[SkippedStage, ...] = ()
    nothing_relevant: bool = False
    embedded_chars: int = 0
    archived: tuple[SearchHit, ...] = ()


class OrderField(StrEnum):
    """Order of a list."""

    CREATE_TIME = "create_time"
    UPDATE_TIME = "update_time"
    ACCESS_TIME = "access_time"
    EVENT_TIME = "event_time"
    IMPORTANCE = "importance"
    ACCESS_COUNT = "access_count"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a list; equal values, and absent ones (which come last), by row."""

    field: OrderField = OrderField.CREATE_TIME
    descending: bool = True


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The last memory of the page before: its value of the order's field (None: absent), and its row."""

    value: int | None
    row: int


class Candidate(NamedTuple):
    """Columns that ranking needs of a memory. Times are microseconds. A tuple: a search makes hundreds.

    *cues* are those of the content, as `memsvc.text.ranking_cues.pack_cues` packs them; 0: unknown.
    """

    row: int
    memory_id: str
    previous_row: int | None
    session_id: str
    speaker: str
    layer: str
    status: str
    importance: int
    access_count: int
    create_time: int
    event_time: int | None
    cues: int = 0


def candidate_of(memory: Memory, cues: int) -> Candidate:
    """Return what ranking needs to know of *memory*, whose content has these packed cues."""
    return Candidate(
        row=memory.row,
        memory_id=memory.id,
        previous_row=memory.previous_row,
        session_id=memory.scope.session_id,
        speaker=memory.speaker,
        layer=memory.layer.value,
        status=memory.status.value,
        importance=memory.importance,
        access_count=memory.access_count,
        create_time=to_micros(memory.create_time),
        event_time=None if memory.event_time is None else to_micros(memory.event_time),
        cues=cues,
    )


# A search over memories and files at once: what is asked, and the groups of the answer.


class ResultGroup(StrEnum):
    """A part of the answer."""

    MEMORY = "MEMORY"
    FILES = "FILES"
    REPORTS = "REPORTS"
    CHARTS = "CHARTS"


CATEGORIES: Mapping[ResultGroup, AbstractSet[FileCategory]] = {
    ResultGroup.FILES: frozenset(FileCategory) - {FileCategory.REPORT, FileCategory.CHART},
    ResultGroup.REPORTS: frozenset({FileCategory.REPORT}),
    ResultGroup.CHARTS: frozenset({FileCategory.CHART}),
}
"""Which files are in which group: every category in one."""


_PASSAGES = UUID("5d0a5a0e-5f2b-4d0c-9d5f-0f3b7f1c9e11")
"""The namespace of the ids of passages."""


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage of a file that a search found.

    Attributes:
        score: The share of the query that its words cover, rare words more: over 0, at most 1.
        snippet: The part of it that shows why, with the matched ranges in *spans* and its first and last line; empty
            until it is made.
    """

    file: File
    passage: FilePassage
    score: float
    snippet: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    start_line: int = 0
    end_line: int = 0

    @property
    def passage_id(self) -> str:
        """Return the id of the passage, which depends on the file and the ordinal."""
        return str(uuid5(_PASSAGES, f"{self.file.id}#{self.passage.ordinal}"))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a search found.

    Attributes:
        score: Over 0 and at most 1: that of its metadata, or of its best passage if that is higher.
        passages: Its best passages, best first.
    """

    file: File
    score: float
    passages: tuple[FoundPassage, ...] = ()


@dataclass(frozen=True, slots=True)
class GlobalQuery:
    """A search over several groups.

    Attributes:
        memories: How memories are looked for; None: not at all.
        groups: The groups of files that are wanted.
        limit: How many of each group to return at most.
    """

    scope: Scope
    text: str
    visibility: Visibility
    groups: AbstractSet[ResultGroup]
    limit: int
    memories: SearchQuery | None = None
    snippet_chars: int = 240


@dataclass(frozen=True, slots=True)
class GlobalReply:
    """Hits by group; *memories* is None when they were not searched."""

    memories: SearchReply | None
    files: Mapping[ResultGroup, tuple[FoundFile, ...]] = field(default_factory=dict)
