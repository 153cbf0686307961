"""The contract of `memsvc.ports.indexes.VectorIndex`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError, DimensionMismatchError
from memsvc.domain.filters import AnyOf, Field, Filter
from memsvc.domain.index_entries import ANY_SCRIPT, Attributes, Hit, VectorManifest, View, entry_id
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import Generation, PendingSearch, VectorEntry, VectorIndex
from memsvc.ports.models import Vector
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH, FullIndex, chunk
from memsvc.testing.filter_contract import FarTimesContract, FilteringContract
from memsvc.testing.index_entries import EntriesContract
from memsvc.testing.index_generations import GenerationsContract

DIMENSION = 4
EAST = (1.0, 0.0, 0.0, 0.0)


def unit(*numbers: float) -> Vector:
    """Return the numbers as a vector of unit length."""
    vector = np.asarray(numbers, dtype=np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def vector_entry(attributes: Attributes, vector: Vector, *, view: View = View.CHUNK, ordinal: int = 0) -> VectorEntry:
    """Return an entry of the memory that the attributes are of."""
    return VectorEntry(entry_id(attributes.row, view, ordinal), view, vector, attributes)


class VectorIndexContract(
    EntriesContract[VectorEntry, VectorManifest],
    GenerationsContract[VectorEntry, VectorManifest],
    FilteringContract[VectorEntry, VectorManifest],
    FarTimesContract[VectorEntry, VectorManifest],
):
    """Subclass it, give the fixture `index`, and `close` and `reopen` where they apply: see IndexSeams."""

    def manifest_of(self, generation: int) -> VectorManifest:
        """Return a manifest of four dimensions."""
        means = {
            View.CHUNK: {ANY_SCRIPT: (0.25, -0.5, 0.125, 0.1), "han": (0.5, 0.1, 0.2, -0.3)},
            View.WINDOW: {ANY_SCRIPT: (0.0, 1e-7, -1.0, 0.3)},
        }
        return VectorManifest(
            generation=generation,
            model="test-模型/v1",
            dimension=DIMENSION,
            position=1000 + generation,
            views=(View.CHUNK, View.SENTENCES, View.WINDOW),
            means=means,
            mean_samples=12,
        )

    def entry(self, attributes: Attributes, *, ordinal: int = 0, strength: float = 1.0) -> VectorEntry:
        """Return a chunk whose cosine with `EAST` is *strength*."""
        rest = float(np.sqrt(1 - strength * strength))
        return vector_entry(attributes, unit(strength, rest, 0, 0), ordinal=ordinal)

    def hits(
        self,
        index: FullIndex[VectorEntry, VectorManifest],
        *,
        reach: Reach = REACH,
        where: Filter | None = None,
        limit: int = 100,
        deadline: Deadline = NO_HURRY,
    ) -> Sequence[Hit]:
        """Search eastwards among the chunks."""
        vectors = cast("VectorIndex", index)
        return vectors.search(unit(*EAST), view=View.CHUNK, reach=reach, where=where, limit=limit, deadline=deadline)

    def seek(self, index: VectorIndex, vector: Sequence[float], view: View = View.CHUNK) -> Sequence[Hit]:
        """Search for a direction."""
        return index.search(unit(*vector), view=view, reach=REACH, limit=100, deadline=NO_HURRY)

    def pend(self, index: VectorIndex, vector: Sequence[float], *, deadline: Deadline = NO_HURRY) -> PendingSearch:
        """Begin a search for a direction among the chunks."""
        return index.begin_search(unit(*vector), view=View.CHUNK, reach=REACH, limit=100, deadline=deadline)

    def test_scores_are_cosine_similarities(self, live: VectorIndex) -> None:
        """The score is the cosine, from 1 for the same direction to -1 for the opposite."""
        directions = [
            (1, 2, 3, 4),
            (1, 0, 0, 0),
            (0, 1, 1, 0),
            (-1, -2, -3, -4),
            (0.3, -0.2, 0.9, 0.001),
            (-1, 0, 1, 0),
        ]
        live.replace({row: [vector_entry(factories.attributes(row), unit(*d))] for row, d in enumerate(directions)})

        scores = {hit.entry_id >> 16: hit.score for hit in self.seek(live, (1, 2, 3, 4))}

        expected = {row: float(unit(*d) @ unit(1, 2, 3, 4)) for row, d in enumerate(directions)}
        assert scores == pytest.approx(expected, abs=1e-5)
        assert scores[0] == pytest.approx(1, abs=1e-5)
        assert scores[3] == pytest.approx(-1, abs=1e-5)

    def test_score_does_not_hang_on_the_query_length(self, live: VectorIndex) -> None:
        """A longer query vector finds the same with the same scores."""
        live.replace({1: [self.entry(factories.attributes(1), strength=0.6)]})

        hits = live.search(unit(*EAST) * np.float32(7), view=View.CHUNK, reach=REACH, limit=1, deadline=NO_HURRY)

        assert [hit.score for hit in hits] == pytest.approx([0.6], abs=1e-5)

    def test_nearest_of_many_are_exact(self, live: VectorIndex) -> None:
        """Without a graph the best of many vectors are exactly those with the largest cosine."""
        vectors = np.random.default_rng(7).normal(size=(300, DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        live.replace({row: [vector_entry(factories.attributes(row), v)] for row, v in enumerate(vectors)})

        hits = live.search(unit(1, -1, 2, 0), view=View.CHUNK, reach=REACH, limit=20, deadline=NO_HURRY)

        best = np.argsort(-(vectors @ unit(1, -1, 2, 0)))[:20]
        assert [hit.entry_id for hit in hits] == [chunk(int(row)) for row in best]

    def test_views_are_separate(self, live: VectorIndex) -> None:
        """A search finds entries of its view alone, with their own vectors; a count is of all views."""
        memory = factories.attributes(1)
        directions = {View.CHUNK: (1, 0, 0, 0), View.SENTENCES: (0, 1, 0, 0), View.WINDOW: (0, 0, 1, 0)}
        live.replace({1: [vector_entry(memory, unit(*d), view=view) for view, d in directions.items()]})

        for view, direction in directions.items():
            hits = self.seek(live, direction, view)
            assert [hit.entry_id for hit in hits] == [entry_id(1, view, 0)]
            assert hits[0].score == pytest.approx(1, abs=1e-5)
        assert live.count() == 3

    def test_replace_takes_away_entries_of_every_view(self, live: VectorIndex) -> None:
        """Views that are not given again are gone."""
        memory = factories.attributes(1)
        live.replace({1: [vector_entry(memory, unit(*EAST), view=view) for view in View]})
        live.replace({1: [vector_entry(memory, unit(*EAST), view=View.WINDOW)]})

        assert [len(self.seek(live, EAST, view)) for view in View] == [0, 0, 1]

    def test_vector_is_overwritten(self, live: VectorIndex) -> None:
        """The vector given last counts."""
        memory = factories.attributes(1)
        live.replace({1: [vector_entry(memory, unit(0, 1, 0, 0))]})
        live.replace({1: [vector_entry(memory, unit(*EAST))]})

        assert [hit.score for hit in self.seek(live, EAST)] == pytest.approx([1], abs=1e-5)

    def test_replace_with_a_wrong_dimension_changes_nothing(self, live: VectorIndex) -> None:
        """One vector of another length refuses the whole change, with both lengths in the error."""
        live.replace(self.changes(factories.attributes(1)))
        wrong = vector_entry(factories.attributes(3), unit(1, 0, 0))

        with pytest.raises(DimensionMismatchError) as caught:
            live.replace({1: (), **self.changes(factories.attributes(2)), 3: [wrong]})

        assert caught.value.metadata == {"expected": "4", "actual": "3"}
        assert [hit.entry_id for hit in self.seek(live, EAST)] == [chunk(1)]
        assert live.count() == 1

    def test_generation_refuses_a_wrong_dimension(self, live: VectorIndex) -> None:
        """A generation that is being made holds to its own dimension."""
        made: Generation[VectorEntry] = live.begin(self.manifest_of(2))

        with pytest.raises(DimensionMismatchError):
            made.replace({1: [vector_entry(factories.attributes(1), unit(1, 0, 0, 0, 0))]})
        made.discard()

    def test_search_with_a_wrong_dimension_is_refused(self, live: VectorIndex) -> None:
        """A query of another length is an error, not an empty answer."""
        with pytest.raises(DimensionMismatchError):
            self.seek(live, (1, 0, 0, 0, 0))

    def test_generation_may_have_another_dimension(self, live: VectorIndex) -> None:
        """After a switch the new manifest's dimension counts."""
        live.replace(self.changes(factories.attributes(1)))
        made = live.begin(VectorManifest(generation=2, model="small", dimension=2, position=5))
        made.replace({2: [vector_entry(factories.attributes(2), unit(1, 1))]})
        made.seal()
        live.switch(made)

        assert [hit.entry_id for hit in self.seek(live, (1, 1))] == [chunk(2)]
        with pytest.raises(DimensionMismatchError):
            self.seek(live, EAST)

    def test_filter_applies_in_every_view(self, live: VectorIndex) -> None:
        """All entries of a memory carry its attributes."""
        memories = [factories.attributes(1, tags=("x",)), factories.attributes(2)]
        live.replace({m.row: [vector_entry(m, unit(*EAST), view=view) for view in View] for m in memories})

        for view in View:
            where = AnyOf(Field.TAGS, ("x",))
            hits = live.search(unit(*EAST), view=view, reach=REACH, where=where, limit=9, deadline=NO_HURRY)
            assert [hit.entry_id for hit in hits] == [entry_id(1, view, 0)]

    def test_loose_entries_are_counted(self, index: VectorIndex) -> None:
        """There are none without a generation nor in a fresh one, and never more than were written since."""
        assert index.unsealed_count() == 0
        self.renew(index, 1, factories.attributes(1))
        fresh = index.unsealed_count()
        attributes = factories.attributes(2)
        index.replace({2: [vector_entry(attributes, unit(*EAST))]})

        assert fresh == 0
        assert 0 <= index.unsealed_count() <= 1

    def test_no_graph_pays_for_a_few_entries(self, index: VectorIndex) -> None:
        """Neither without a generation nor for one entry."""
        assert not index.wants_graph()
        self.renew(index, 1, factories.attributes(1))

        assert not index.wants_graph()

    def test_closed_index_has_no_graph(self, live: VectorIndex, close: Callable[[], None]) -> None:
        """Asking a closed index is a fault of the program."""
        close()

        with pytest.raises(BackendClosedError):
            live.wants_graph()

    def test_begun_searches_find_the_same_in_any_order(self, live: VectorIndex) -> None:
        """However many searches are begun, each gives what `search` gives, whichever is asked first."""
        rows = range(60)
        directions = [(float(np.cos(row / 10)), float(np.sin(row / 10)), 0.0, 0.0) for row in rows]
        live.replace({row: [vector_entry(factories.attributes(row), unit(*directions[row]))] for row in rows})

        pending = [self.pend(live, direction) for direction in directions]
        found = {place: pending[place].result() for place in sorted(range(len(pending)), key=lambda n: (n % 3, -n))}

        assert [found[place] for place in range(len(pending))] == [self.seek(live, one) for one in directions]
        assert [found[place][0].entry_id for place in range(len(pending))] == [chunk(row) for row in rows]

    def test_searches_are_begun_by_several_threads(self, live: VectorIndex) -> None:
        """Threads that each hold several begun searches neither wait for one another nor get another's result."""
        rows = range(1, 9)
        live.replace({row: [vector_entry(factories.attributes(row), unit(1, row, 0, 0))] for row in rows})

        def best_of_each(_turn: int) -> list[int]:
            pending = [self.pend(live, (1, row, 0, 0)) for row in rows]
            return [one.result()[0].entry_id for one in reversed(pending)]

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(best_of_each, range(40)))

        assert found == [[chunk(row) for row in reversed(rows)]] * 40

    def test_begun_search_that_nobody_asks_does_no_harm(self, live: VectorIndex) -> None:
        """Searches, changes and generations go on, however many results are never taken."""
        live.replace(self.changes(factories.attributes(1)))
        kept = [self.pend(live, EAST) for _ in range(100)]
        for _ in range(100):
            self.pend(live, EAST)
        live.replace(self.changes(factories.attributes(2)))

        assert self.rows(live) == [1, 2]
        self.renew(live, 2, factories.attributes(3))
        assert self.rows(live) == [3]
        assert {hit.entry_id for one in kept for hit in one.result()} <= {chunk(1), chunk(2), chunk(3)}

    def test_search_begun_before_a_switch_sees_one_generation(self, live: VectorIndex) -> None:
        """Its result is whole: of the generation before or of the next."""
        self.renew(live, 2, factories.attributes(1), factories.attributes(2))
        pending = self.pend(live, EAST)
        self.renew(live, 3, factories.attributes(7), factories.attributes(8))

        assert [hit.entry_id for hit in pending.result()] in ([chunk(1), chunk(2)], [chunk(7), chunk(8)])

    def test_begun_search_fails_with_its_result(self, live: VectorIndex) -> None:
        """Whatever is wrong is raised where the result is taken, not where the search is begun."""
        late, wrong = self.pend(live, EAST, deadline=Deadline.after(0)), self.pend(live, (1, 0, 0))

        with pytest.raises(DeadlineExceededError):
            late.result()
        with pytest.raises(DimensionMismatchError):
            wrong.result()

    def test_search_begun_on_a_closed_index_fails(self, live: VectorIndex, close: Callable[[], None]) -> None:
        """Beginning one is harmless; its result says that the index is closed."""
        close()
        pending = self.pend(live, EAST)

        with pytest.raises(BackendClosedError):
            pending.result()

    def test_search_begun_without_a_generation_finds_nothing(self, index: VectorIndex) -> None:
        """As a search does."""
        assert self.pend(index, EAST).result() == []
