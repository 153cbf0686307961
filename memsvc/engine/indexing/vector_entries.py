"""From memories to the entries of a vector index: embed what is not known, centre, and number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice, repeat
from typing import TypeAlias

import numpy as np

from memsvc.domain.index_entries import MAX_ORDINAL, Change, Document, LexicalEntry, VectorManifest, View, entry_id
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vector, Vectors
from memsvc.text.passages import lexical_terms, passage, previous_line
from memsvc.text.sentences import merged_sentences

# What of a memory is embedded and what is indexed by its words.


class EmbeddingGranularity(StrEnum):
    """How many vectors a memory gets: S one for each chunk; E also one for each run of sentences, and a window."""

    S = "S"
    E = "E"


VIEWS = {
    EmbeddingGranularity.S: (View.CHUNK,),
    EmbeddingGranularity.E: (View.CHUNK, View.SENTENCES, View.WINDOW),
}


@dataclass(frozen=True, slots=True)
class Passage:
    """One text to embed, and the entry that its vector becomes."""

    view: View
    ordinal: int
    text: str


def passages_of(document: Document, tier: EmbeddingGranularity) -> list[Passage]:
    """Return the texts to embed for one memory, the chunk view first, ordinals ascending within a view."""
    SEARCH_PRIORITY.yield_to_searches()
    memory = document.memory
    found = [
        Passage(
            View.CHUNK,
            chunk.ordinal,
            passage(
                text=chunk.text,
                speaker=memory.speaker,
                title=memory.title,
                heading_path=chunk.heading_path,
                moment=memory.event_time,
            ),
        )
        for chunk in document.chunks[: MAX_ORDINAL + 1]
    ]
    if tier is EmbeddingGranularity.E:
        found.extend(_richer(document))
    return found


def _richer(document: Document) -> list[Passage]:
    memory = document.memory
    pieces = [piece for chunk in document.chunks for piece in merged_sentences(chunk.text)]
    found = [
        Passage(
            View.SENTENCES,
            ordinal,
            passage(text=piece, speaker=memory.speaker, title=memory.title, heading_path=(), moment=memory.event_time),
        )
        for ordinal, piece in enumerate(pieces[: MAX_ORDINAL + 1])
    ]
    own = previous_line(memory.speaker, document.chunks[0].text)
    before = _line_before(document)
    lines = own if before is None else f"{previous_line(before.speaker, before.content)}\n{own}"
    window = passage(text=lines, speaker="", title=memory.title, heading_path=(), moment=memory.event_time)
    return [*found, Passage(View.WINDOW, 0, window)]


def lexical_entries(document: Document) -> list[LexicalEntry]:
    """Return the lexical entries of one memory: one for each chunk; the previous line counts for the first."""
    SEARCH_PRIORITY.yield_to_searches()
    memory, before = document.memory, _line_before(document)
    return [
        LexicalEntry(
            entry_id(memory.row, View.CHUNK, chunk.ordinal),
            lexical_terms(
                text=chunk.text,
                speaker=memory.speaker,
                title=memory.title,
                heading_path=chunk.heading_path,
                moment=memory.event_time or memory.create_time,
                previous=previous_line(before.speaker, before.content) if before and not chunk.ordinal else "",
            ),
            document.attributes,
        )
        for chunk in document.chunks[: MAX_ORDINAL + 1]
    ]


def _line_before(document: Document) -> Memory | None:
    """Return the line before, unless it is hidden: by its words others would find what follows it.

    Hidden is what is private to its session, or waits for a review, while what follows is not.
    """
    before, own = document.previous, document.memory
    if before is not None and before.layer is Layer.SESSION and own.layer is not Layer.SESSION:
        return None
    if before is not None and before.status is Status.QUARANTINED and own.status is not Status.QUARANTINED:
        return None
    return before


_FLOAT_BYTES = 4
_SOLE = Passage(View.CHUNK, 0, "")


class VectorEntries:
    """Makes vector entries: raw vectors first, which means are taken from, then the centred ones."""

    def __init__(self, embedding: CachedEmbedder, tier: EmbeddingGranularity) -> None:
        self._embedding = embedding
        self._tier = tier

    def raw(self, documents: Sequence[Document]) -> list[tuple[Document, list[Passage], Vectors]]:
        """Return every document with its passages and their raw vectors, embedding those not known.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        todo, vectors = self._all(documents)
        ends = list(accumulate(len(passages) for _, passages in todo))
        starts = [0, *ends]
        return [
            (document, passages, vectors[start:end])
            for (document, passages), start, end in zip(todo, starts, ends, strict=False)
        ]

    def entries(self, documents: Sequence[Document], means: Means) -> dict[int, list[VectorEntry]]:
        """Return the entries of each document by row, centred by *means*.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        todo, vectors = self._all(documents)
        # All vectors of a view at once: one by one they took ten times as long as the rest.
        views = np.array([passage.view for _, passages in todo for passage in passages], dtype=np.int8)
        moved = np.empty(vectors.shape, dtype=np.float32)
        for view in View:
            moved[views == view] = centred(vectors[views == view], means.get(view))
        rows = iter(moved)
        return {document.memory.row: _entries(document, passages, rows) for document, passages in todo}

    def embed(self, documents: Sequence[Document]) -> None:
        """Have everything embedded that `entries` needs for these documents; it then finds the vectors in the store.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        texts: list[str] = []
        for document in documents:
            has_vector = self._has_vector(document)
            texts += [passage.text for passage in self._passages(document, has_vector=has_vector)[has_vector:]]
        self._embedding.passages(texts)

    def cost(self, document: Document) -> int:
        """Return how many chunks have to be embedded, unless they were before: none when a vector was given."""
        return 0 if self._has_vector(document) else len(document.chunks)

    def _all(self, documents: Sequence[Document]) -> tuple[list[tuple[Document, list[Passage]]], Vectors]:
        """Return the passages of all documents, and their vectors one below the other."""
        todo: list[tuple[Document, list[Passage]]] = []
        texts: list[str] = []
        given: list[bytes] = []
        is_given: list[bool] = []
        model, dimension = self._embedding.model, self._embedding.dimension
        for document in documents:
            SEARCH_PRIORITY.yield_to_searches()
            has_vector = _has_vector(document, model, dimension)
            passages = self._passages(document, has_vector=has_vector)
            if has_vector:
                given.append(document.given_vector)
            texts += [passage.text for passage in passages[has_vector:]]
            is_given += [has_vector, *repeat(False, len(passages) - 1)]  # noqa: FBT003 - the value repeated
            todo.append((document, passages))
        known = np.array(is_given, dtype=bool)
        vectors = np.empty((len(is_given), dimension), dtype=np.float32)
        vectors[known] = np.frombuffer(b"".join(given), dtype="<f4").reshape(len(given), dimension)
        vectors[~known] = self._embedding.passages(texts)
        return todo, vectors

    def _passages(self, document: Document, *, has_vector: bool) -> list[Passage]:
        """Return the passages of a document; the text of one that has its vector, and is alone, is not written out."""
        return [_SOLE] if has_vector and self._tier is EmbeddingGranularity.S else passages_of(document, self._tier)

    def _has_vector(self, document: Document) -> bool:
        return _has_vector(document, self._embedding.model, self._embedding.dimension)


def _has_vector(document: Document, model: str, dimension: int) -> bool:
    return document.given_model == model and len(document.given_vector) == _FLOAT_BYTES * dimension


def _entries(document: Document, passages: Sequence[Passage], vectors: Iterator[Vector]) -> list[VectorEntry]:
    row, attributes = document.memory.row, document.attributes
    return [
        VectorEntry(entry_id(row, passage.view, passage.ordinal), passage.view, next(vectors), attributes)
        for passage in passages
    ]


# The models at hand: the one in use, and perhaps the one before, whose index answers until the new one is whole.


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """A model, and what makes entries by it. In the space of the one in use, *is_current*, are given vectors too."""

    embedding: CachedEmbedder
    entries: VectorEntries
    is_current: bool = True


class EmbeddingSpaces:
    """Tells which model a generation was made by."""

    def __init__(self, current: EmbeddingSpace, previous: EmbeddingSpace | None = None) -> None:
        self.current = current
        self._previous = previous

    def of(self, manifest: VectorManifest | None) -> EmbeddingSpace | None:
        """Return the space that the vectors of a generation are in, or None when its model is not at hand."""
        if manifest is None:
            return None
        made_by = (manifest.model, manifest.dimension)
        for space in (self.current, self._previous):
            if space is not None and (space.embedding.model, space.embedding.dimension) == made_by:
                return space
        return None


# Centring: cosine after the mean of the space is taken away, which spreads out what an embedder crowds together.


Means: TypeAlias = Mapping[View, Vector]


def means_of(manifest: VectorManifest) -> Means:
    """Return the means of a manifest as arrays; views without one are left out."""
    return {view: np.array(mean, dtype=np.float32) for view, mean in manifest.means.items() if mean}


def centred(vectors: Vectors, mean: Vector | None) -> Vectors:
    """Return normalise(v - mean) for each row, or normalise(v) without a mean; a zero row stays zero."""
    moved = vectors if mean is None else vectors - mean
    lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.ascontiguousarray(moved / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)


# Embedding what is written next while what comes before it is being written: the model is what takes the time.


DEPTH = 2
"""Parts embedded at the same time: while one of them is stored, or waits for its last text, the model has the other."""
LOOK_SECONDS = 0.02
"""How often to look, while vectors are being made, whether there is something more urgent."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes that become visible together, and the present state of what they changed.

    Attributes:
        costly: How many passages have to be embedded.
    """

    changes: Sequence[Change]
    documents: Sequence[Document]
    costly: int

    @property
    def rows(self) -> list[int]:
        """Return the rows of the memories that were changed."""
        return list(dict.fromkeys(change.row for change in self.changes))


class EmbeddingPrefetcher:
    """Has the vectors of the next parts made, and kept in the store, by threads of its own."""

    def __init__(self, entries: VectorEntries) -> None:
        self._entries = entries
        self._pool = ThreadPoolExecutor(DEPTH, thread_name_prefix="embedding-ahead")

    def close(self) -> None:
        """Give the threads back once what they are at is done."""
        self._pool.shutdown(cancel_futures=True)

    def iterate(
        self, parts: Sequence[ChangeBatch], should_stop: Callable[[], bool]
    ) -> Generator[ChangeBatch, None, None]:
        """Yield the batches in order, each once its vectors are stored, and embed the next ones meanwhile.

        If *should_stop* returns True while a batch is being embedded, iteration ends; embeddings under way are finished
        and stored.

        Raises:
            BackendUnavailableError: The embedder cannot be reached; earlier batches were yielded.
        """
        coming = iter(parts)
        waiting = deque((part, self._begin(part)) for part in islice(coming, DEPTH))
        try:
            while waiting:
                part, embedded = waiting.popleft()
                if embedded is not None and not _has_come(embedded, should_stop):
                    embedded.cancel()
                    return
                waiting.extend((following, self._begin(following)) for following in islice(coming, 1))
                yield part
        finally:
            for _, embedded in waiting:
                if embedded is not None:
                    embedded.cancel()

    def _begin(self, part: ChangeBatch) -> Future[None] | None:
        # A passage on its own is embedded where it is written: there is nothing to be done beside it.
        return self._pool.submit(self._entries.embed, part.documents) if part.costly > 1 else None


def _has_come(embedded: Future[None], should_stop: Callable[[], bool]) -> bool:
    """Wait until it is done, or until *should_stop*; return whether it is done, or raise what went wrong.

    What is done in a moment is waited for first, so that vectors which were made before do not wait for ever behind
    one urgent matter after another.
    """
    while not wait([embedded], LOOK_SECONDS).done:
        if should_stop():
            return False
    embedded.result()
    return True
