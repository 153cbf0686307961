"""Entries of the indexes from memories: passages, embedding, centring."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, chain, islice, repeat

import numpy as np
from numpy.typing import NDArray

from memsvc.domain.index_entries import (
    ANY_SCRIPT,
    MAX_ORDINAL,
    Change,
    Document,
    LexicalEntry,
    VectorManifest,
    View,
    entry_id,
)
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vector, Vectors
from memsvc.text.analysis import Script, script_of
from memsvc.text.passages import lexical_terms, passage, previous_line, summary_terms
from memsvc.text.sentences import merge_sentences

_FLOAT_BYTES = 4
DEPTH = 2
"""Batches embedded concurrently: while one is stored, or waits for its last text, the model processes another."""
UNIT_CHARS = 400
"""Characters of a passage that count as much as a short one."""
LONG_CHUNKS = 8
"""Chunks of a memory above which it is embedded in the background: more take seconds in the worst case."""
ACTIVE = 4
"""Long memories in memory at a time, each of another user."""
BACKGROUND_TEXTS = 8
"""Passages of a long memory embedded at a time if the embedder names no number."""
POLL_SECONDS = 0.02
"""Interval of checks for more urgent changes while vectors are embedded."""


class EmbeddingGranularity(StrEnum):
    """Vectors for each memory: S one for each chunk; E also one for each run of sentences, and a window."""

    S = "S"
    E = "E"


VIEWS = {
    EmbeddingGranularity.S: (View.CHUNK,),
    EmbeddingGranularity.E: (View.CHUNK, View.SENTENCES, View.WINDOW),
}


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to embed, and the view and ordinal of its entry."""

    view: View
    ordinal: int
    text: str


def passages_of(document: Document, tier: EmbeddingGranularity) -> list[Passage]:
    """Return the texts to embed for one memory, the chunk view first, ordinals ascending within a view."""
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
        found.extend(_extra_passages(document))
    return found


def _extra_passages(document: Document) -> list[Passage]:
    memory = document.memory
    pieces = [piece for chunk in document.chunks for piece in merge_sentences(chunk.text)]
    found = [
        Passage(
            View.SENTENCES,
            ordinal,
            passage(text=piece, speaker=memory.speaker, title=memory.title, heading_path=(), moment=memory.event_time),
        )
        for ordinal, piece in enumerate(pieces[: MAX_ORDINAL + 1])
    ]
    own = previous_line(memory.speaker, document.chunks[0].text)
    before = _visible_previous(document)
    lines = own if before is None else f"{previous_line(before.speaker, before.content)}\n{own}"
    window = passage(text=lines, speaker="", title=memory.title, heading_path=(), moment=memory.event_time)
    return [*found, Passage(View.WINDOW, 0, window)]


def lexical_entries(document: Document) -> list[LexicalEntry]:
    """Return the lexical entries of one memory, one for each chunk.

    The first includes the previous line, and the words of the summary that no chunk has.
    """
    memory, before = document.memory, _visible_previous(document)
    entries = [
        LexicalEntry(
            entry_id(memory.row, View.CHUNK, chunk.ordinal),
            lexical_terms(
                text=chunk.text,
                speaker=memory.speaker,
                title=memory.title,
                heading_path=chunk.heading_path,
                moment=memory.moment,
                previous=previous_line(before.speaker, before.content) if before and not chunk.ordinal else "",
            ),
            document.attributes,
        )
        for chunk in document.chunks[: MAX_ORDINAL + 1]
    ]
    if memory.summary:
        known = set(chain.from_iterable(entry.terms for entry in entries))
        entries[0] = replace(entries[0], terms=[*entries[0].terms, *summary_terms(memory.summary, known)])
    return entries


def _visible_previous(document: Document) -> Memory | None:
    """Return the previous message unless it is hidden: its words would reveal it through the next message.

    Hidden is a message that is private to its session, or quarantined, while the next one is not.
    """
    before, own = document.previous, document.memory
    if before is not None and before.layer is Layer.SESSION and own.layer is not Layer.SESSION:
        return None
    if before is not None and before.status is Status.QUARANTINED and own.status is not Status.QUARANTINED:
        return None
    return before


_GIVEN_VECTOR_PASSAGE = Passage(View.CHUNK, 0, "")


class VectorEntries:
    """Creation of vector entries: raw vectors, from which means are computed, and centred ones."""

    def __init__(self, embedding: CachedEmbedder, tier: EmbeddingGranularity, search_priority: SearchPriority) -> None:
        """Embed by *embedding* the views of *tier*; each document yields to searches."""
        self._embedding = embedding
        self._tier = tier
        self.search_priority = search_priority

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return self._embedding.model

    def raw(self, documents: Sequence[Document]) -> list[tuple[Document, list[Passage], Vectors]]:
        """Return every document with its passages and their raw vectors, embedding unknown ones.

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
        views = [passage.view for _, passages in todo for passage in passages]
        texts = [text for document, passages in todo for text in self._centred_texts(document, passages)]
        moved = means.centre_passages(vectors, views, texts)
        rows = iter(moved)
        return {document.memory.row: _entries(document, passages, rows) for document, passages in todo}

    def embed(self, documents: Sequence[Document]) -> None:
        """Embed everything that `entries` needs for these documents; `entries` then reads the vectors from the store.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        texts: list[str] = []
        for document in documents:
            self.search_priority.yield_to_searches()
            texts += self.texts(document)
        self._embedding.passages(texts)

    def cost(self, document: Document) -> int:
        """Return the cost of embedding unless it is cached, in units of a short text: none with a given vector."""
        if self._has_vector(document):
            return 0
        return sum(1 + len(chunk.text) // UNIT_CHARS for chunk in document.chunks)

    def texts(self, document: Document) -> list[str]:
        """Return the passages of a document that are embedded."""
        has_vector = self._has_vector(document)
        return [passage.text for passage in self._passages(document, has_vector=has_vector)[has_vector:]]

    def embed_texts(self, texts: Sequence[str]) -> None:
        """Embed passages into the store.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        self.search_priority.yield_to_searches()
        self._embedding.passages(texts)

    @property
    def lanes(self) -> int:
        """Return the number of texts that the embedder takes at once; 0: any number."""
        return self._embedding.query_lanes

    def _all(self, documents: Sequence[Document]) -> tuple[list[tuple[Document, list[Passage]]], Vectors]:
        """Return the passages of all documents, and their vectors as one matrix."""
        todo: list[tuple[Document, list[Passage]]] = []
        texts: list[str] = []
        given: list[bytes] = []
        is_given: list[bool] = []
        model, dimension = self._embedding.model, self._embedding.dimension
        for document in documents:
            self.search_priority.yield_to_searches()
            has_vector = has_given_vector(document, model, dimension)
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
        """Return the passages of a document; text is not built if its only vector is given."""
        return (
            [_GIVEN_VECTOR_PASSAGE]
            if has_vector and self._tier is EmbeddingGranularity.S
            else passages_of(document, self._tier)
        )

    def _centred_texts(self, document: Document, passages: Sequence[Passage]) -> list[str]:
        """Return the text of each passage; none for a given vector, which must meet an equal vector without text."""
        texts = centred_texts(document, passages)
        return ["", *texts[1:]] if self._has_vector(document) else texts

    def _has_vector(self, document: Document) -> bool:
        return has_given_vector(document, self._embedding.model, self._embedding.dimension)


def centred_texts(document: Document, passages: Sequence[Passage]) -> list[str]:
    """Return the text of each passage whose script decides the mean: content, without dates and names of speakers."""
    chunks = document.chunks
    return [
        chunks[one.ordinal].text if one.view is View.CHUNK and one.ordinal < len(chunks) else document.memory.content
        for one in passages
    ]


def has_given_vector(document: Document, model: str, dimension: int) -> bool:
    """Return whether the first chunk is represented by a vector that was given in the space of *model*."""
    return document.given_model == model and len(document.given_vector) == _FLOAT_BYTES * dimension


def _entries(document: Document, passages: Sequence[Passage], vectors: Iterator[Vector]) -> list[VectorEntry]:
    row, attributes = document.memory.row, document.attributes
    return [
        VectorEntry(entry_id(row, passage.view, passage.ordinal), passage.view, next(vectors), attributes)
        for passage in passages
    ]


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """A model and its entry creation. Given vectors belong to the space of the current model (*is_current*)."""

    embedding: CachedEmbedder
    entries: VectorEntries
    is_current: bool = True


class EmbeddingSpaces:
    """The available models: the current one, and the previous one, whose index answers until the rebuild is done."""

    def __init__(self, current: EmbeddingSpace, previous: EmbeddingSpace | None = None) -> None:
        self.current = current
        self._previous = previous

    def of(self, manifest: VectorManifest | None) -> EmbeddingSpace | None:
        """Return the space of the vectors of a generation, or None if its model is not available."""
        if manifest is None:
            return None
        made_by = (manifest.model, manifest.dimension)
        for space in (self.current, self._previous):
            if space is not None and (space.embedding.model, space.embedding.dimension) == made_by:
                return space
        return None

    def clear_text_caches(self) -> None:
        """Clear the caches of texts of all available models."""
        for space in (self.current, self._previous):
            if space is not None:
                space.embedding.clear_text_caches()


# Centring subtracts the mean of the language before the cosine. An embedder crowds the vectors of each language into a
# narrow cone of its own: without that mean, a passage is nearer to any passage of its language than to its translation.


_SCRIPTS = tuple(Script)
_NUMBERS = {script: number for number, script in enumerate(_SCRIPTS)}


class Means:
    """The means of a generation, for each view and script."""

    def __init__(self, means: Mapping[View, Mapping[str, Vector]]) -> None:
        """Take for each view the means by script; `ANY_SCRIPT` holds that of scripts without one of their own.

        A view without means is not centred.
        """
        self._means = {
            view: np.stack([of_view.get(script, of_view[ANY_SCRIPT]) for script in (*_SCRIPTS, ANY_SCRIPT)])
            for view, of_view in means.items()
            if of_view
        }
        self._directions = {view: _scale_to_unit(of_view) for view, of_view in self._means.items()}

    @classmethod
    def from_manifest(cls, manifest: VectorManifest) -> Means:
        """Return the means that a generation was built with."""
        return cls(
            {
                view: {script: np.array(mean, dtype=np.float32) for script, mean in of_view.items()}
                for view, of_view in manifest.means.items()
            }
        )

    def centre_query(self, vector: Vector, text: str, view: View) -> Vector:
        """Return the vector of a query, centred by the mean of the script of *text*; shape [dimension], unit length.

        A vector that was given has no text and is centred by the nearest mean: an embedder separates languages. A zero
        vector stays zero if there is no mean.
        """
        moved = np.asarray(vector, dtype=np.float32)
        if (means := self._means.get(view)) is not None:
            number = _NUMBERS[script_of(text)] if text else int(np.argmax(self._directions[view] @ moved))
            moved = moved - means[number]
        length = math.sqrt(float(moved @ moved))
        centred: Vector = moved / np.float32(length) if length else moved
        return centred

    def centre_passages(self, vectors: Vectors, views: Sequence[View], texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages, shape [n, dimension], each centred by the mean of its view and script.

        Those without a text are centred by the nearest mean of their view.
        """
        # All vectors of a view at once: one by one takes ten times as long.
        of_views: NDArray[np.int8] = np.array(views, dtype=np.int8)
        numbers = np.array([_NUMBERS[script_of(text)] if text else -1 for text in texts], dtype=np.intp)
        moved = np.array(vectors, dtype=np.float32)
        for view, means in self._means.items():
            if (given := (numbers < 0) & (of_views == view)).any():
                numbers[given] = np.argmax(moved[given] @ self._directions[view].T, axis=1)
            chosen = of_views == view
            moved[chosen] -= means[numbers[chosen]]
        return _scale_to_unit(moved)


def _scale_to_unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)


class LiveMeans:
    """The means of the live generation, converted once for each manifest."""

    def __init__(self) -> None:
        self._known: tuple[VectorManifest | None, Means] = (None, Means({}))

    def of(self, manifest: VectorManifest) -> Means:
        """Return the means of *manifest*, which is not changed."""
        known, means = self._known
        if known is not manifest:
            means = Means.from_manifest(manifest)
            self._known = (manifest, means)
        return means


class MeanAccumulator:
    """Sums of raw vectors by view and script, from which the means of a generation are computed."""

    def __init__(self, views: Sequence[View], dimension: int) -> None:
        self._sums = {view: np.zeros((len(_SCRIPTS), dimension), dtype=np.float64) for view in views}
        self._counts = {view: np.zeros(len(_SCRIPTS), dtype=np.int64) for view in views}

    def add(self, view: View, text: str, vector: Vector) -> None:
        """Add the raw vector of a passage of *text*."""
        number = _NUMBERS[script_of(text)]
        self._sums[view][number] += vector
        self._counts[view][number] += 1

    def means(
        self, seeds: Mapping[str, Vector], *, minimum: int, unseeded_minimum: int
    ) -> dict[View, dict[str, Vector]]:
        """Return the means of each view: of the scripts with enough passages, of the seeds, and of all passages.

        Args:
            seeds: Means of scripts that hold until a script has *minimum* passages; `ANY_SCRIPT` if there are none.
            minimum: Passages that replace the seed of a script by their own mean.
            unseeded_minimum: Passages from which a script without a seed has a mean of its own.
        """
        found: dict[View, dict[str, Vector]] = {}
        for view, sums in self._sums.items():
            counts, own = self._counts[view], dict(seeds)
            if total := counts.sum():
                own[ANY_SCRIPT] = (sums.sum(axis=0) / total).astype(np.float32)
            for script, summed, count in zip(_SCRIPTS, sums, counts, strict=True):
                if count >= (minimum if script in seeds else unseeded_minimum):
                    own[script] = (summed / count).astype(np.float32)
            found[view] = own
        return found


# Prefetching embeds the next batches while earlier ones are written: embedding takes most of the time.


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """Changes that become visible together, and the current state of the changed memories.

    Attributes:
        costly: The number of passages to embed.
    """

    changes: Sequence[Change]
    documents: Sequence[Document]
    costly: int

    @property
    def rows(self) -> list[int]:
        """Return the rows of the changed memories."""
        return list(dict.fromkeys(change.row for change in self.changes))


class EmbeddingPrefetcher:
    """Embedding of the next batches into the store, in threads of its own."""

    def __init__(self, entries: VectorEntries) -> None:
        self._entries = entries
        self._pool = ThreadPoolExecutor(DEPTH, thread_name_prefix="embedding-ahead")

    def close(self) -> None:
        """Shut down the threads after the work under way."""
        self._pool.shutdown(cancel_futures=True)

    def iterate(
        self, parts: Sequence[EmbeddingBatch], should_stop: Callable[[], bool]
    ) -> Generator[EmbeddingBatch, None, None]:
        """Yield the batches in order, each once its vectors are stored, and embed the next ones in parallel.

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
                if embedded is not None and not _wait_until_embedded(embedded, should_stop):
                    embedded.cancel()
                    return
                waiting.extend((following, self._begin(following)) for following in islice(coming, 1))
                yield part
        finally:
            for _, embedded in waiting:
                if embedded is not None:
                    embedded.cancel()

    def _begin(self, part: EmbeddingBatch) -> Future[None] | None:
        # A single passage is embedded when it is written: there is nothing to overlap it with.
        return self._pool.submit(self._entries.embed, part.documents) if part.costly > 1 else None


def _wait_until_embedded(embedded: Future[None], should_stop: Callable[[], bool]) -> bool:
    """Wait until the future is done or *should_stop* returns True; return whether it is done, or raise its error.

    The future is awaited once before *should_stop* is asked, so that vectors that exist already are not deferred by a
    series of urgent changes.
    """
    while not wait([embedded], POLL_SECONDS).done:
        if should_stop():
            return False
    embedded.result()
    return True


class LongMemoryEmbedder:
    """Embedding of long memories in the background, a few passages of each user in turn.

    Embedding a memory of a million characters takes minutes. In the thread of the indexer nothing else would be indexed
    until then, and its writer would make all others wait.
    """

    def __init__(self, entries: VectorEntries, feed: IndexFeed) -> None:
        """Embed memories of *feed* by *entries*."""
        self._entries = entries
        self._feed = feed
        self._on_done: Callable[[], None] = lambda: None
        self._is_contended: Callable[[], bool] = lambda: False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="embedding-long")
        self._lock = threading.Lock()
        self._jobs: dict[int, _LongMemory] = {}
        self._waiting: dict[str, deque[_LongMemory]] = {}
        self._turns: deque[str] = deque()
        self._is_running = False

    def connect(self, on_done: Callable[[], None], is_contended: Callable[[], bool]) -> None:
        """Call *on_done* after each memory, and leave the embedder a lane while *is_contended* returns True."""
        self._on_done, self._is_contended = on_done, is_contended

    @property
    def positions(self) -> frozenset[int]:
        """Return the positions of the changes that wait for their memory to be embedded."""
        with self._lock:
            return frozenset(chain.from_iterable(job.positions for job in self._jobs.values() if not job.is_done))

    def is_ready(self, row: int, owner: str, change: Change) -> bool:
        """Return whether a memory is embedded as of *change*; if not, it will be, and the change waits for that.

        Raises:
            BackendUnavailableError: The embedder could not be reached.
            Exception: It failed in another way.
        """
        with self._lock:
            job = self._jobs.get(row)
            if job is not None and job.error is not None:
                del self._jobs[row]
                raise job.error
            if job is not None and job.is_done and job.revision >= change.revision:
                return True
            if job is None or job.revision < change.revision:
                job = self._jobs[row] = _LongMemory(row, change.revision, set() if job is None else job.positions)
                if owner not in self._waiting:
                    self._turns.append(owner)
                self._waiting.setdefault(owner, deque()).append(job)
            job.positions.add(change.position)
            if not self._is_running:
                self._is_running = True
                self._pool.submit(self._run)
        return False

    def drop(self, rows: Iterable[int]) -> None:
        """Forget memories that are written or gone; their changes no longer wait."""
        with self._lock:
            for row in rows:
                self._jobs.pop(row, None)

    def close(self) -> None:
        """Stop after the passages under way."""
        with self._lock:
            self._jobs.clear()
        self._pool.shutdown()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._advance(job)
            except Exception as error:  # noqa: BLE001 - the indexer raises it, and goes on later
                self._end(job, error)

    def _next(self) -> _LongMemory | None:
        """Return the job of the user whose turn it is, None if there is none."""
        with self._lock:
            while self._turns:
                owner = self._turns.popleft()
                jobs = self._waiting[owner]
                ended = False
                while jobs and (jobs[0].is_done or self._jobs.get(jobs[0].row) is not jobs[0]):
                    jobs.popleft()
                    ended = True
                if not jobs:
                    del self._waiting[owner]
                    continue
                # The next memory of this user comes after the first ones of the others.
                self._turns.insert(len(self._turns) if ended else ACTIVE - 1, owner)
                if not ended:
                    return jobs[0]
            self._is_running = False
            return None

    def _advance(self, job: _LongMemory) -> None:
        if job.texts is None:
            documents = self._feed.documents([job.row])
            job.texts = deque(text for document in documents for text in self._entries.texts(document))
        elif not self._feed.long_memories([job.row], chunks=LONG_CHUNKS):
            # Deleted or erased: no vector of it may be stored any more.
            job.texts.clear()
        lanes = self._entries.lanes
        count = max(1, lanes - self._is_contended()) if lanes else BACKGROUND_TEXTS
        if job.texts:
            self._entries.embed_texts([job.texts.popleft() for _ in range(min(count, len(job.texts)))])
        if not job.texts:
            self._end(job, None)

    def _end(self, job: _LongMemory, error: Exception | None) -> None:
        with self._lock:
            job.texts, job.error, job.is_done = None, error, True
        self._on_done()


@dataclass(slots=True, eq=False)
class _LongMemory:
    """A long memory to embed.

    Attributes:
        revision: The revision that is embedded, or a later one.
        positions: The changes that wait for it.
        texts: The passages left, None until the turn of the memory.
    """

    row: int
    revision: int
    positions: set[int]
    texts: deque[str] | None = None
    is_done: bool = False
    error: Exception | None = None
