"""Scoring: each boost alone, what they add up to, and time weighting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.clock import to_micros
from memsvc.domain.search import Candidate, TimeWeighting
from memsvc.engine.search.scoring import (
    DATE,
    MAX_ACCESS_FACTOR,
    NEIGHBOUR,
    RECIPES,
    SCALE,
    SESSION,
    SPEAKER,
    BoostConstants,
    BoostedScores,
    RankedList,
    RecipeVersion,
    ScoreColumn,
    TextFeatures,
    apply_boosts,
    named_speakers,
    time_factors,
)
from memsvc.ports.candidates import Candidates
from memsvc.text.ranking_cues import pack_cues, question_cues

NOW = datetime(2026, 2, 6, tzinfo=UTC)
CONSTANTS = BoostConstants()
NO_DECAY = TimeWeighting(decay_factor=1.0)


def _candidate(
    row: int,
    *,
    previous: int | None = None,
    session: str = "",
    speaker: str = "",
    layer: str = "SHORT_TERM",
    importance: int = 5,
    access_count: int = 0,
    created: datetime = NOW,
    happened: datetime | None = None,
) -> Candidate:
    return Candidate(
        row=row,
        memory_id=f"{row:04d}",
        previous_row=previous,
        session_id=session,
        speaker=speaker,
        layer=layer,
        status="ACTIVE",
        importance=importance,
        access_count=access_count,
        create_time=to_micros(created),
        event_time=None if happened is None else to_micros(happened),
    )


def _listed(scores: dict[int, float]) -> RankedList:
    rows = np.array([*scores], np.int64)
    return RankedList(rows, rows, np.array([*scores.values()], np.float64))


def _time_factor(candidate: Candidate, weighting: TimeWeighting) -> float:
    [factor] = time_factors(Candidates.of([candidate]), NOW, weighting).tolist()
    return float(factor)


def _score(
    fused: dict[int, float],
    *candidates: Candidate,
    lexical: dict[int, float] | None = None,
    named: frozenset[str] = frozenset(),
    dates: dict[int, float] | None = None,
    late: dict[int, float] | None = None,
    words: dict[int, float] | None = None,
    question: str = "",
    constants: BoostConstants = CONSTANTS,
) -> BoostedScores:
    """Score the candidates; *lexical* is best first."""
    features = TextFeatures(
        late=_values(late, candidates),
        dates=_values(dates, candidates),
        named=named,
        lexical=_listed(lexical) if lexical else None,
        words=_values(words, candidates),
        asked=question_cues(question),
    )
    totals = np.array([fused[one.row] for one in candidates], np.float64)
    return apply_boosts(totals, Candidates.of(candidates), features, constants)


def _values(values: dict[int, float] | None, candidates: Sequence[Candidate]) -> ScoreColumn:
    """Return a column of *values* by row; NaN where there is none."""
    return np.array([values.get(one.row, np.nan) for one in candidates] if values else (), np.float64)


def test_without_boosts_the_score_is_the_scaled_fused_score() -> None:
    """A score is divided by the highest sum there can be."""
    scored = _score({1: 1.0, 2: 0.5}, _candidate(1), _candidate(2))

    assert scored.scores == pytest.approx([1 / 1.55, 0.5 / 1.55])
    assert scored.boosts_of(0) == ((SCALE, CONSTANTS.scale),)


def test_a_memory_gets_a_share_of_its_better_neighbour() -> None:
    """The memory before and the one after it in the session count, the better one of them."""
    candidates = (_candidate(1), _candidate(2, previous=1), _candidate(3, previous=2))

    boosts = _score({1: 0.4, 2: 0.2, 3: 1.0}, *candidates).boosts[NEIGHBOUR]

    assert boosts == pytest.approx([0.25 * 0.2, 0.25 * 1.0, 0.25 * 0.2])


def test_a_neighbour_that_was_not_found_gives_nothing() -> None:
    """Only candidates have scores to share."""
    assert NEIGHBOUR not in _score({2: 0.2}, _candidate(2, previous=1)).boosts


def test_a_session_counts_by_its_three_best_lexical_hits() -> None:
    """The best session gives its memories the whole boost, the others give theirs in proportion."""
    candidates = [_candidate(row, session="a") for row in (1, 2, 3, 4)] + [_candidate(5, session="b"), _candidate(6)]
    lexical = {1: 4.0, 5: 4.0, 2: 3.0, 3: 1.0, 4: 1.0, 9: 0.5}

    scored = _score(dict.fromkeys(range(1, 7), 0.5), *candidates, lexical=lexical)

    assert scored.boosts[SESSION] == pytest.approx([0.2, 0.2, 0.2, 0.2, 0.1, 0.0])
    assert scored.boosts_of(5) == ((SCALE, CONSTANTS.scale),)


def test_a_met_date_counts_in_proportion() -> None:
    """A date that is met to six tenths gives as much of the boost."""
    scored = _score({1: 0.5, 2: 0.5}, _candidate(1), _candidate(2), dates={1: 0.6, 2: 0.0})

    assert scored.boosts[DATE] == pytest.approx([0.06, 0.0])
    assert scored.boosts_of(1) == ((SCALE, CONSTANTS.scale),)


def test_other_speakers_than_the_one_named_lose() -> None:
    """A memory that nobody spoke loses nothing."""
    candidates = (_candidate(1, speaker="Anna"), _candidate(2, speaker="Ben"), _candidate(3))

    scored = _score({1: 0.5, 2: 0.5, 3: 0.5}, *candidates, named=frozenset({"Anna"}))

    assert scored.boosts[SPEAKER].tolist() == [0.0, -0.15, 0.0]


@pytest.mark.parametrize("named", [frozenset(), frozenset({"Anna", "Ben"}), frozenset({"Carol"})])
def test_naming_all_or_none_of_the_speakers_changes_nothing(named: frozenset[str]) -> None:
    """Without a choice between speakers there is no speaker term."""
    candidates = (_candidate(1, speaker="Anna"), _candidate(2, speaker="Ben"))

    assert SPEAKER not in _score({1: 0.5, 2: 0.5}, *candidates, named=named).boosts


def test_a_score_below_zero_is_zero() -> None:
    """A penalty takes no more than there is."""
    candidates = (_candidate(1, speaker="Anna"), _candidate(2, speaker="Ben"))

    assert _score({1: 0.5, 2: 0.1}, *candidates, named=frozenset({"Anna"})).scores[1] == 0.0


@given(
    fused=st.dictionaries(st.integers(1, 9), st.floats(0, 1)),
    lexical=st.lists(st.tuples(st.integers(1, 9), st.floats(0.01, 30)), unique_by=lambda pair: pair[0]),
    dates=st.dictionaries(st.integers(1, 9), st.floats(0, 1)),
    named=st.sampled_from([frozenset(), frozenset({"Anna"})]),
)
def test_scores_are_between_0_and_1_and_explained(
    fused: dict[int, float], lexical: list[tuple[int, float]], dates: dict[int, float], named: frozenset[str]
) -> None:
    """Fused score and boosts add up to the score, scaled and never below 0."""
    best_first = dict(sorted(lexical, key=lambda pair: -pair[1]))
    candidates = [
        _candidate(row, previous=row - 1 or None, session="ab"[row % 2], speaker=("Anna", "Ben")[row % 2])
        for row in fused
    ]

    scored = _score(fused, *candidates, lexical=best_first, dates=dates, named=named)

    assert len(scored.scores) == len(fused)
    for place, (total, score) in enumerate(zip(fused.values(), scored.scores, strict=True)):
        *added, (_, scale) = scored.boosts_of(place)
        assert 0.0 <= score <= 1.0 + 1e-12
        assert score == pytest.approx(max(0.0, (total + sum(boost for _, boost in added)) * scale))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where does anna live?", {"Anna"}),
        ("What is Anna's job?", {"Anna"}),
        ("Is Joanna here?", set()),
        ("What did Dr Who say?", set()),
        ("Did Maria go out?", {"Maria Schmidt"}),
        ("what does the user like, and the assistant?", set()),
        ("王小明喜欢什么？", {"王小明"}),
        ("", set()),
    ],
)
def test_speakers_are_named_by_whole_words(text: str, expected: set[str]) -> None:
    """A name counts in any case, whole, or by its first part; a role is no name."""
    speakers = ("Anna", "Maria Schmidt", "Dr Watson", "user", "assistant", "王小明", "")

    assert named_speakers(text, speakers) == expected


def test_age_importance_and_use_multiply() -> None:
    """The factor is that of the formula, by the time it happened."""
    candidate = _candidate(1, happened=NOW - timedelta(days=60), importance=3, access_count=9)

    factor = _time_factor(candidate, TimeWeighting(decay_factor=0.95))

    assert factor == pytest.approx(0.95**2 * 0.92 * 1.1)


def test_without_an_event_the_time_of_writing_counts() -> None:
    """Age is measured from create_time when nothing says when it happened."""
    candidate = _candidate(1, created=NOW - timedelta(days=30))

    assert _time_factor(candidate, TimeWeighting(decay_factor=0.5)) == pytest.approx(0.5)


def test_the_future_is_as_good_as_today() -> None:
    """A memory dated ahead is not lifted above the present."""
    candidate = _candidate(1, happened=NOW + timedelta(days=400))

    assert _time_factor(candidate, TimeWeighting(decay_factor=0.5)) == pytest.approx(1.0)


def test_use_lifts_no_further_than_the_ceiling() -> None:
    """However often a memory is read, the factor stays at most 1.3."""
    often = _candidate(1, access_count=10**9)

    assert _time_factor(often, NO_DECAY) == pytest.approx(MAX_ACCESS_FACTOR)


@pytest.mark.parametrize(("layer", "expected"), [("CORE", 3.0), ("LONG_TERM", 2.0), ("SESSION", 1.0)])
def test_layers_are_boosted(layer: str, expected: float) -> None:
    """Core and long-term memories have boosts of their own."""
    weighting = TimeWeighting(decay_factor=1.0, long_term_boost=2.0, core_boost=3.0)

    assert _time_factor(_candidate(1, layer=layer), weighting) == pytest.approx(expected)


# The recipe of 2026-11.


LATE = RECIPES[RecipeVersion.V2026_11].hybrid


def _said(row: int, text: str, **fields: Any) -> Candidate:
    return _candidate(row, **fields)._replace(cues=pack_cues(text))


def test_late_interaction_is_added_and_estimated() -> None:
    """A memory without a score by late interaction gets its fused one in its place."""
    scored = _score({1: 0.5, 2: 0.4}, _candidate(1), _candidate(2), late={1: 1.0}, constants=LATE)

    assert scored.boosts["late_interaction"].tolist() == [1.0, 0.0]
    assert scored.boosts["late_interaction_estimate"].tolist() == [0.0, 0.4]


def test_neighbours_share_both_scores() -> None:
    """The mean of the fused score and the one by late interaction."""
    candidates = (_candidate(1), _candidate(2, previous=1))

    scored = _score({1: 0.2, 2: 0.0}, *candidates, late={1: 1.0, 2: 0.0}, constants=LATE)

    assert scored.boosts[NEIGHBOUR].tolist() == pytest.approx([0.0, LATE.neighbour * 0.6])


@pytest.mark.parametrize(
    ("question", "text", "name", "weight"),
    [
        ("When did Anna leave?", "I left last Monday.", "when", LATE.when),
        ("安娜什么时候走的？", "我上周一走的。", "when", LATE.when),
        ("Where does Anna live?", "I live in Lisbon.", "where", LATE.where),
        ("安娜住在哪里？", "我在杭州住。", "where", LATE.where),
        ("Who is Anna's boss?", "My sister told me.", "who", LATE.who),
        ("谁在做饭？", "我妹妹在做饭。", "who", LATE.who),
    ],
)
def test_the_kind_of_answer_counts(question: str, text: str, name: str, weight: float) -> None:
    """A text that names what a question asks for, in English and Chinese."""
    scored = _score({1: 0.5, 2: 0.5}, _said(1, text), _said(2, "It was fine."), question=question, constants=LATE)

    assert scored.boosts[name].tolist() == [pytest.approx(weight), 0.0]


def test_questions_and_short_texts_are_behind() -> None:
    """A text of questions loses its share, and a long one gains up to the whole weight."""
    texts = ("Did you see it? Was it good?", "Yes.", "It was long. " * 100)

    scored = _score(dict.fromkeys((1, 2, 3), 0.5), *(_said(1 + n, t) for n, t in enumerate(texts)), constants=LATE)

    assert scored.boosts["questions"].tolist() == [pytest.approx(-LATE.questions), 0.0, 0.0]
    assert scored.boosts["length"][1] < scored.boosts["length"][0] < scored.boosts["length"][2] == LATE.length


def test_an_answer_to_a_question_like_the_query_counts() -> None:
    """As much as the words of that question match; so does what a named speaker tells of themselves."""
    candidates = (
        _said(1, "Where do you live, Anna?", speaker="Ben"),
        _said(2, "I live in Lisbon.", previous=1, speaker="Anna"),
        _said(3, "Nice.", previous=2, speaker="Ben"),
    )

    scored = _score(
        dict.fromkeys((1, 2, 3), 0.5), *candidates, words={1: 0.5, 2: 1.0, 3: 0.0}, named=frozenset({"Anna"}),
        constants=LATE,
    )  # fmt: skip

    assert scored.boosts["previous_question"].tolist() == [0.0, pytest.approx(LATE.previous_question * 0.5), 0.0]
    assert scored.boosts["first_person"].tolist() == [0.0, pytest.approx(LATE.first_person), 0.0]


def test_unknown_cues_change_nothing() -> None:
    """Neither do cues in the earlier recipe."""
    scored = _score({1: 0.5}, _candidate(1), question="When?", constants=LATE)
    earlier = _score({1: 0.5}, _said(1, "Last Monday."), question="When?")

    assert set(scored.boosts) == {"late_interaction_estimate"}
    assert not earlier.boosts


def test_a_recipe_can_be_changed() -> None:
    """Searches by meaning or words alone keep their weights for what they lack."""
    changed = RECIPES[RecipeVersion.V2026_11].change({"late": 0.5, "neighbour": 0.1})

    assert (changed.hybrid.late, changed.hybrid.neighbour) == (0.5, 0.1)
    assert (changed.single.late, changed.single.neighbour) == (0.0, 0.1)
    assert RECIPES[RecipeVersion.V2026_10].hybrid == BoostConstants()
