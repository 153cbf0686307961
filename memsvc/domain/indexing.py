"""What the indexer works on: changes, documents, and the manifests of index generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memsvc.domain.index_entries import Attributes, View, attributes_of
from memsvc.domain.memory import Memory


class ChangeAction(StrEnum):
    """What happened to a memory."""

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
class Expected:
    """What the indexes should hold of one memory."""

    row: int
    fingerprint: int
    chunk_count: int


@dataclass(frozen=True, slots=True)
class VectorManifest:
    """What a generation of a vector index is made of.

    Attributes:
        generation: 1 for the first, one more with each.
        position: The outbox position that the generation was built from.
        views: The views that its entries are of, and no others.
        means: The vector that is subtracted from every vector of a view before it is scaled to unit length, from
            queries as from passages; empty: nothing is subtracted.
        mean_samples: How many passages the means are made of; 0 when they come from the shipped sentences.
        hnsw: Whether the generation was built with a graph. Without, searches are exact scans of what the
            filter leaves.
    """

    generation: int
    model: str
    dimension: int
    position: int
    views: tuple[View, ...] = (View.CHUNK,)
    means: Mapping[View, tuple[float, ...]] = field(default_factory=dict)
    mean_samples: int = 0
    hnsw: bool = False


@dataclass(frozen=True, slots=True)
class LexicalManifest:
    """What a generation of a lexical index is made of. *analysis* names the version of the text analysis."""

    generation: int
    position: int
    analysis: str
