"""Entries of indexes, their numbers, and the attributes that filters test.

An index holds entries, several for a memory: one for each chunk, and more when the setting asks for richer
views. An entry's number is made of the memory's row, the view and the ordinal, so it is known without asking
anybody, the same on every replay, and leads back to the memory by a shift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import key_terms, metadata_terms, number_terms
from memsvc.domain.memory import Memory, fingerprint

ORDINAL_BITS = 14
VIEW_BITS = 2
MAX_ORDINAL = (1 << ORDINAL_BITS) - 1


class View(IntEnum):
    """Text of a memory that a vector represents."""

    CHUNK = 0
    """A whole chunk with its date, speaker and headings: the one that is always there."""
    SENTENCES = 1
    """A run of sentences within a chunk (tier E)."""
    WINDOW = 2
    """The previous line of the session and the own (tier E)."""


def entry_id(row: int, view: View, ordinal: int) -> int:
    """Return the number of an entry: positive, below 2**63, ascending by row, view and ordinal."""
    return (row << VIEW_BITS | view) << ORDINAL_BITS | ordinal


def row_of(entry: int) -> int:
    """Return the row of the memory that an entry belongs to."""
    return entry >> (VIEW_BITS + ORDINAL_BITS)


def ordinal_of(entry: int) -> int:
    """Return an entry's ordinal within its memory and view."""
    return entry & MAX_ORDINAL


class Attributes(NamedTuple):
    """The filterable fields of a memory, stored with each index entry.

    A tuple, which is made in a fraction of the time. Times are microseconds since the epoch; None where the memory
    has none. *metadata* holds one canonical string for each scalar of the memory's metadata (see
    `memsvc.domain.filters.metadata_term`), and those by which ranges find its numbers and prefixes its key.
    *expire_time* is `Memory.expiry`: work in progress has none.
    """

    row: int
    owner: str
    project_id: str
    agent_id: str
    session_id: str
    layer: str
    kind: str
    category: str
    tier: str
    status: str
    speaker: str
    tags: tuple[str, ...]
    metadata: tuple[str, ...]
    importance: int
    confidence: float
    create_time: int
    update_time: int
    event_time: int | None
    expire_time: int | None
    valid_from: int | None
    valid_to: int | None
    fingerprint: int


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """The analysed terms of one chunk, in order; repeating a term raises its weight."""

    entry_id: int
    terms: Sequence[str]
    attributes: Attributes


class Hit(NamedTuple):
    """An entry that a retriever found; a larger score is a better hit."""

    entry_id: int
    score: float


def attributes_of(memory: Memory) -> Attributes:
    """Return the filterable fields of *memory*."""
    scope = memory.scope
    return Attributes(
        row=memory.row,
        owner=scope.owner,
        project_id=scope.project_id,
        agent_id=scope.agent_id,
        session_id=scope.session_id,
        # str() of these enums is their value, and takes a quarter of the time of asking for it.
        layer=str(memory.layer),
        kind=str(memory.kind),
        category=memory.category,
        tier=str(memory.tier),
        status=str(memory.status),
        speaker=memory.speaker,
        tags=memory.tags,
        metadata=metadata_of(memory),
        importance=memory.importance,
        confidence=memory.confidence,
        create_time=to_micros(memory.create_time),
        update_time=to_micros(memory.update_time),
        event_time=None if memory.event_time is None else to_micros(memory.event_time),
        expire_time=None if (expiry := memory.expiry) is None else to_micros(expiry),
        valid_from=None if memory.valid_from is None else to_micros(memory.valid_from),
        valid_to=None if memory.valid_to is None else to_micros(memory.valid_to),
        fingerprint=fingerprint(memory),
    )


def metadata_of(memory: Memory) -> tuple[str, ...]:
    """Return the terms of the metadata of *memory*, those of numbers and of the folders of its key among them."""
    if not memory.metadata and "/" not in memory.key:
        return ()
    return (*metadata_terms(memory.metadata), *number_terms(memory.metadata), *key_terms(memory.key))


# Work items of the indexer: changes, documents, and manifests of index generations.


class ChangeAction(StrEnum):
    """Effect of a change on a memory."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    DELETED = "DELETED"
    RESTORED = "RESTORED"
    PURGED = "PURGED"


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the outbox. Positions grow in commit order; *time* is microseconds."""

    position: int
    row: int
    memory_id: str
    action: ChangeAction
    revision: int
    time: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a memory's content; lines count from 1 and include both ends."""

    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Document:
    """All that indexing one memory needs.

    Attributes:
        chunks: At least one, by ordinal. A memory of one chunk has its whole content there.
        previous: The memory written before it in the same session, when it is still there.
        given_vector: Little-endian float32 bytes of an embedding that the caller gave; empty when none.
        given_model: The model whose space the given vector is in.
        attributes: What filters test; made here, once for all entries of all indexes.
    """

    memory: Memory
    chunks: tuple[Chunk, ...]
    previous: Memory | None = None
    given_vector: bytes = b""
    given_model: str = ""
    attributes: Attributes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in what follows from the memory."""
        object.__setattr__(self, "attributes", attributes_of(self.memory))


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    """A memory of any status as it would be indexed, and its earlier revisions."""

    document: Document
    earlier: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedEntries:
    """Expected entries of one memory in the indexes."""

    row: int
    fingerprint: int
    chunk_count: int


ANY_SCRIPT = ""
"""The script in a manifest's means for texts whose script has no mean of its own."""


@dataclass(frozen=True, slots=True)
class VectorManifest:
    """Manifest of a generation of a vector index.

    Attributes:
        generation: 1 for the first, one more with each.
        position: The outbox position that the generation was built from.
        views: The views that its entries are of, and no others.
        means: The vectors that are subtracted from the vectors of a view before they are scaled to unit length, from
            queries as from passages, by the script of the text (`memsvc.text.analysis.Script`); `ANY_SCRIPT` for
            scripts without a mean of their own. Empty: nothing is subtracted.
        mean_samples: How many passages the means are made of; 0 when they come from the shipped sentences.
        hnsw: Whether the generation was built with a graph. Without, searches are exact scans of what the
            filter leaves.
    """

    generation: int
    model: str
    dimension: int
    position: int
    views: tuple[View, ...] = (View.CHUNK,)
    means: Mapping[View, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    mean_samples: int = 0
    hnsw: bool = False

    @property
    def is_centred_by_script(self) -> bool:
        """True if scripts have means of their own; False only for generations of earlier versions."""
        return all(of_view.keys() != {ANY_SCRIPT} for of_view in self.means.values())


@dataclass(frozen=True, slots=True)
class LexicalManifest:
    """Manifest of a generation of a lexical index. *analysis* names the version of the text analysis."""

    generation: int
    position: int
    analysis: str


# A manifest of vectors as the content of a JSON object, wherever a backend keeps it.
#
# What changes here changes the format of every place where it is kept.


def content_of(manifest: VectorManifest) -> dict[str, Any]:
    """Return all that the manifest says, as JSON can have it."""
    return {
        "generation": manifest.generation,
        "model": manifest.model,
        "dimension": manifest.dimension,
        "position": manifest.position,
        "views": [view.name for view in manifest.views],
        "means": {
            view.name: {script: list(mean) for script, mean in of_view.items()}
            for view, of_view in manifest.means.items()
        },
        "mean_samples": manifest.mean_samples,
        "hnsw": manifest.hnsw,
    }


def manifest_of(content: dict[str, Any]) -> VectorManifest:
    """Return the manifest of what `content_of` makes.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is not that.
    """
    return VectorManifest(
        generation=int(content["generation"]),
        model=str(content["model"]),
        dimension=int(content["dimension"]),
        position=int(content["position"]),
        views=tuple(View[name] for name in content["views"]),
        means={
            View[name]: {script: tuple(mean) for script, mean in _by_script(of_view).items()}
            for name, of_view in content["means"].items()
        },
        mean_samples=int(content["mean_samples"]),
        hnsw=bool(content["hnsw"]),
    )


def _by_script(of_view: Mapping[str, list[float]] | list[float]) -> Mapping[str, list[float]]:
    """Return the means of a view; generations of earlier versions have a single one."""
    return of_view if isinstance(of_view, Mapping) else {ANY_SCRIPT: of_view} if of_view else {}
