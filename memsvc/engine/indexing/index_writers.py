"""Writers of the derived indexes: one interface for lexical and vector index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Generic, Protocol, TypeVar

import numpy as np

from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.errors import BackendUnavailableError, DimensionMismatchError
from memsvc.domain.index_entries import ANY_SCRIPT, Document, LexicalEntry, LexicalManifest, VectorManifest, View
from memsvc.engine.indexing.vector_entries import (
    VIEWS,
    EmbeddingGranularity,
    EmbeddingSpace,
    EmbeddingSpaces,
    LiveMeans,
    MeanAccumulator,
    Means,
    centred_texts,
    lexical_entries,
)
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.indexes import Generation, LexicalIndex, ListedEntry, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.passages import ANALYSIS_VERSION

E = TypeVar("E")
X = TypeVar("X", bound=LexicalIndex | VectorIndex)
MEAN_MINIMUM = 200
"""With fewer passages of a script the mean of neutral sentences is used."""
UNSEEDED_MINIMUM = 20
"""Passages from which a script without neutral sentences has a mean of its own rather than that of all passages."""
MEAN_SAMPLES = 5_000
"""More samples do not change a mean."""
MEAN_GROWTH = 2
"""Growth of the number of passages after which a mean is recomputed: the first hundreds may be one conversation."""
LOOSE_MINIMUM = 5_000
LOOSE_SHARE = 0.2
"""A new generation is due if more entries than both limits were written since the live one was sealed."""
SAMPLE_BATCH = 256
OUTDATED_PROCESS = (
    "was rebuilt by another process with another model: configure that model here, or restart this process to rebuild "
    "the index with its own model"
)


class GenerationBuilder(Protocol):
    """A generation under construction."""

    number: int

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Replace the entries of *rows* by those of *documents*; rows without a document have none."""
        ...

    def seal(self) -> None:
        """Finish the bulk load."""
        ...

    def switch(self) -> None:
        """Make the generation live."""
        ...

    def discard(self) -> None:
        """Delete the generation unless it is live."""
        ...


class IndexWriter(Protocol):
    """Writer of one derived index."""

    kind: IndexKind

    def generation(self) -> int:
        """Return the number of the live generation, 0 without one."""
        ...

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same index."""
        ...

    def is_current(self) -> bool:
        """Return whether the live generation accepts writes: it exists and, for vectors, its model is available."""
        ...

    def is_reachable(self) -> bool:
        """Return whether the index can be reached."""
        ...

    def is_stale(self) -> bool:
        """Return whether a new generation is due: none is live, or another model or an older analysis built it."""
        ...

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Replace the live entries of *rows* by those of *documents*; rows without a document have none."""
        ...

    def begin_generation(
        self, *, position: int, sample: Callable[[], Iterator[Document]], total: int
    ) -> GenerationBuilder:
        """Start a generation as of *position*; *sample* reads all documents, *total* is their number."""
        ...

    def inventory(self) -> Iterator[ListedEntry]:
        """Yield every live entry."""
        ...


class EntryGenerationBuilder(Generic[E]):
    """A generation under construction, with the function that creates its entries."""

    def __init__(
        self,
        number: int,
        generation: Generation[E],
        make: Callable[[Sequence[Document]], dict[int, list[E]]],
        switch: Callable[[Generation[E]], None],
    ) -> None:
        self.number = number
        self._generation = generation
        self._make = make
        self._switch = switch

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Replace the entries of *rows* by those of *documents*; rows without a document have none."""
        self._generation.replace(changes_of(rows, self._make(documents)))

    def seal(self) -> None:
        """Finish the bulk load."""
        self._generation.seal()

    def switch(self) -> None:
        """Make the generation live."""
        self._switch(self._generation)

    def discard(self) -> None:
        """Delete the generation unless it is live."""
        self._generation.discard()


def changes_of(rows: Sequence[int], made: dict[int, list[E]]) -> dict[int, list[E]]:
    """Return the entries of each of *rows*, an empty list for rows without entries."""
    return {row: made.get(row, []) for row in rows}


class BaseIndexWriter(Generic[X]):
    """Common parts of both writers."""

    def __init__(self, index: X) -> None:
        self._index = index

    @property
    def is_shared(self) -> bool:
        """Return whether other processes search and write the same index."""
        return self._index.is_shared

    def generation(self) -> int:
        """Return the number of the live generation, 0 without one."""
        manifest = self._index.manifest
        return manifest.generation if manifest else 0

    def is_reachable(self) -> bool:
        """Return whether the index can be reached."""
        try:
            self._index.ping()
        except BackendUnavailableError:
            return False
        return True

    def inventory(self) -> Iterator[ListedEntry]:
        """Yield every live entry."""
        return self._index.inventory()


def is_newer_analysis(manifest: LexicalManifest, index: LexicalIndex, analysis: str = ANALYSIS_VERSION) -> bool:
    """Return whether a process with a newer analysis than *analysis* made the live generation of a shared index."""
    made, own = manifest.analysis, analysis
    return index.is_shared and made.isdecimal() and own.isdecimal() and int(made) > int(own)


class LexicalIndexWriter(BaseIndexWriter[LexicalIndex]):
    """Writer of the lexical index."""

    kind = IndexKind.LEXICAL

    def __init__(self, index: LexicalIndex, search_priority: SearchPriority, analysis: str = ANALYSIS_VERSION) -> None:
        """Write to *index* by the *analysis* of this process."""
        super().__init__(index)
        self._search_priority = search_priority
        self._analysis = analysis

    def is_current(self) -> bool:
        """Return whether there is a live generation."""
        return self._index.manifest is not None

    def is_stale(self) -> bool:
        """Return whether no generation is live, or another analysis built it; for a shared index, an older one.

        Of two versions on a shared index only the newer one rebuilds it: each would rebuild that of the other without
        end. No other process reads an index that is not shared.
        """
        manifest = self._index.manifest
        if manifest is None:
            return True
        return manifest.analysis != self._analysis and not is_newer_analysis(manifest, self._index, self._analysis)

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Replace the live entries of *rows* by those of *documents*; rows without a document have none."""
        self._index.replace(changes_of(rows, self._make(documents)))

    def begin_generation(
        self, *, position: int, sample: Callable[[], Iterator[Document]], total: int
    ) -> EntryGenerationBuilder[LexicalEntry]:
        """Start a generation as of *position*."""
        del sample, total
        manifest = LexicalManifest(self.generation() + 1, position, self._analysis)
        return EntryGenerationBuilder(manifest.generation, self._index.begin(manifest), self._make, self._index.switch)

    def _make(self, documents: Sequence[Document]) -> dict[int, list[LexicalEntry]]:
        made: dict[int, list[LexicalEntry]] = {}
        for document in documents:
            self._search_priority.yield_to_searches()
            made[document.memory.row] = lexical_entries(document)
        return made


class VectorIndexWriter(BaseIndexWriter[VectorIndex]):
    """Writer of the vector index."""

    kind = IndexKind.VECTORS

    def __init__(self, index: VectorIndex, spaces: EmbeddingSpaces, tier: EmbeddingGranularity) -> None:
        super().__init__(index)
        self._spaces = spaces
        self._entries = spaces.current.entries
        self._embedding = spaces.current.embedding
        self._views = VIEWS[tier]
        self._was_current = False
        self._live_means = LiveMeans()

    def is_current(self) -> bool:
        """Return whether the model of the live generation is available.

        Raises:
            BackendUnavailableError: It was, but another process switched to a model that is not. That process applies
                the changes: if they were marked as applied here, no process would write them.
        """
        manifest = self._index.manifest
        if self._is_outdated(manifest):
            raise BackendUnavailableError("vectors", problem=OUTDATED_PROCESS)
        is_current = self._spaces.of(manifest) is not None
        self._was_current = self._was_current or is_current
        return is_current

    def is_stale(self) -> bool:
        """Return whether a new generation is due: another model, or other views.

        False if another process has switched to another model since: two processes would rebuild against each other
        endlessly.
        """
        manifest = self._index.manifest
        if self._is_outdated(manifest):
            return False
        space = self._spaces.of(manifest)
        return manifest is None or space is None or not space.is_current or manifest.views != self._views

    def write(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Replace the live entries of *rows* by those of *documents*; rows without a document have none."""
        manifest = self._index.manifest
        while (space := self._spaces.of(manifest)) is not None and manifest is not None:
            written = self._write_entries(manifest, space, rows, documents)
            live = self._index.manifest
            if written and live is not None and live.generation == manifest.generation:
                return
            # Another process switched the generation: entries centred by the means of one generation do not fit
            # another.
            manifest = live
        if self._is_outdated(manifest):
            raise BackendUnavailableError("vectors", problem=OUTDATED_PROCESS)

    def _is_outdated(self, manifest: VectorManifest | None) -> bool:
        is_foreign = manifest is not None and self._spaces.of(manifest) is None
        return is_foreign and self._was_current and self.is_shared

    def _write_entries(
        self, manifest: VectorManifest, space: EmbeddingSpace, rows: Sequence[int], documents: Sequence[Document]
    ) -> bool:
        """Write by a manifest; return False if its generation is no longer live."""
        entries = space.entries.entries(documents, self._live_means.of(manifest))
        if manifest.views != self._views:
            # The granularity changed: until the next generation is live, write the views that this one is searched by.
            entries = {row: [one for one in made if one.view in manifest.views] for row, made in entries.items()}
        try:
            self._index.replace(changes_of(rows, entries))
        except (BackendUnavailableError, DimensionMismatchError):
            live = self._index.manifest
            if live is None or live.generation == manifest.generation:
                raise
            return False
        return True

    def begin_generation(
        self, *, position: int, sample: Callable[[], Iterator[Document]], total: int
    ) -> EntryGenerationBuilder[VectorEntry]:
        """Start a generation as of *position*, with means from the sample, and a graph if one pays off."""
        means, samples = self._means(sample, total)
        manifest = VectorManifest(
            generation=self.generation() + 1,
            model=self._embedding.model,
            dimension=self._embedding.dimension,
            position=position,
            views=self._views,
            means={
                view: {script: tuple(mean.tolist()) for script, mean in of_view.items()}
                for view, of_view in means.items()
            },
            mean_samples=samples,
            hnsw=self._wants_graph(),
        )
        return EntryGenerationBuilder(
            manifest.generation,
            self._index.begin(manifest),
            partial(self._entries.entries, means=Means(means)),
            self._index.switch,
        )

    def needs_refresh(self, total: int) -> bool:
        """Return whether the means have too few samples, too many entries are unsealed, or a graph would pay off."""
        manifest = self._index.manifest
        if manifest is None:
            return True
        if self._is_outdated(manifest):
            return False
        enough = min(max(MEAN_MINIMUM, manifest.mean_samples * MEAN_GROWTH), MEAN_SAMPLES)
        outgrown = manifest.mean_samples < enough <= total or not manifest.is_centred_by_script
        crowded = self._index.unsealed_count() > max(LOOSE_MINIMUM, total * LOOSE_SHARE)
        return outgrown or crowded or (not manifest.hnsw and self._index.wants_graph())

    def _wants_graph(self) -> bool:
        try:
            return self._index.wants_graph()
        except BackendUnavailableError:
            # The live generation may be lost, which is why a new one is built; the graph is considered at the next
            # refresh.
            return False

    def _means(self, sample: Callable[[], Iterator[Document]], total: int) -> tuple[dict[View, dict[str, Vector]], int]:
        accumulator, memories = MeanAccumulator(self._views, self._embedding.dimension), 0
        sampled = sample() if total >= MEAN_MINIMUM else iter(())
        for batch in _batches(islice(sampled, MEAN_SAMPLES), SAMPLE_BATCH):
            memories += len(batch)
            for document, passages, vectors in self._entries.raw(batch):
                texts = centred_texts(document, passages)
                for passage, text, vector in zip(passages, texts, vectors, strict=True):
                    accumulator.add(passage.view, text, vector)
        means = accumulator.means(self._seed_means(), minimum=MEAN_MINIMUM, unseeded_minimum=UNSEEDED_MINIMUM)
        return means, memories

    def _seed_means(self) -> dict[str, Vector]:
        sentences = [(script, text) for script, texts in NEUTRAL_SENTENCES.items() for text in texts]
        vectors = self._embedding.passages([text for _, text in sentences])
        scripts = np.array([script for script, _ in sentences])
        seeds: dict[str, Vector] = {script: vectors[scripts == script].mean(axis=0) for script in NEUTRAL_SENTENCES}
        return seeds | {ANY_SCRIPT: vectors.mean(axis=0)}


def _batches(documents: Iterator[Document], size: int) -> Iterator[list[Document]]:
    while batch := list(islice(documents, size)):
        yield batch
