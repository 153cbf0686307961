"""Late interaction: equality with a plain computation, passages without tokens, and order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.engine.search.late_interaction import (
    DIMENSION,
    LEAST,
    RELEVANCE,
    TOKEN_BYTES,
    LateScores,
    PackedTokens,
    common_rarities,
    include_previous,
    late_interaction_scores,
    max_similarities,
    normalize,
    pack_signs,
)
from memsvc.text.bm25 import rarity

Floats = npt.NDArray[np.float32]


def _tokens(random: np.random.Generator, count: int) -> Floats:
    vectors = random.standard_normal((count, DIMENSION)).astype(np.float32)
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _packed(passages: list[Floats]) -> PackedTokens:
    return PackedTokens.of([pack_signs(passage).tobytes() for passage in passages])


def _plain_similarity(token: Floats, passage: Floats) -> float:
    """Return the greatest cosine of a token to the signs of the tokens of a passage, one value after the other."""
    found = [LEAST]
    for other in passage.tolist():
        signs = [1.0 if value > 0.0 else -1.0 for value in other]
        product = math.fsum(one * two for one, two in zip(token.tolist(), signs, strict=True))
        found.append(product / math.sqrt(DIMENSION))
    return max(found)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 6), max_size=8), st.integers(0, 4))
def test_similarities_are_those_of_a_plain_computation(seed: int, counts: list[int], length: int) -> None:
    """For any number of passages, tokens and tokens of the query, none included."""
    random = np.random.default_rng(seed)
    query, passages = _tokens(random, length), [_tokens(random, count) for count in counts]

    found = max_similarities(query, _packed(passages))

    assert found.shape == (length, len(counts))
    plain = [[_plain_similarity(token, passage) for passage in passages] for token in query]
    assert found == pytest.approx(np.array(plain).reshape(found.shape), abs=1e-5)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_the_order_of_passages_and_of_tokens_changes_no_score(seed: int, counts: list[int]) -> None:
    """A score depends on the query and its own passage alone."""
    random = np.random.default_rng(seed)
    query, passages = _tokens(random, 3), [_tokens(random, count) for count in counts]
    order = random.permutation(len(passages))
    weights = np.array([3.0, 1.0, 0.5])

    scores = late_interaction_scores(max_similarities(query, _packed(passages)), weights)
    others = [random.permutation(passages[place]) for place in order]
    shuffled = late_interaction_scores(max_similarities(query, _packed(others)), weights)

    assert shuffled.tolist() == scores[order].tolist()


def test_no_candidates_have_no_scores() -> None:
    """A search without hits needs no special case."""
    query = _tokens(np.random.default_rng(1), 2)

    similarities = max_similarities(query, PackedTokens.of([]))

    assert similarities.shape == (2, 0)
    assert late_interaction_scores(similarities, np.ones(2)).shape == (0,)


def test_passages_without_tokens_are_least_similar() -> None:
    """At the start, in the middle, at the end, or all of them: the neighbours keep their scores."""
    random = np.random.default_rng(2)
    query, passage, none = _tokens(random, 2), _tokens(random, 3), _tokens(random, 0)

    similarities = max_similarities(query, _packed([none, passage, none, none, passage, none]))

    assert (similarities[:, [0, 2, 3, 5]] == LEAST).all()
    assert (similarities[:, 1] == similarities[:, 4]).all()
    assert similarities[:, 1] == pytest.approx(max_similarities(query, _packed([passage]))[:, 0])
    assert (max_similarities(query, _packed([none, none])) == LEAST).all()


def test_equal_passages_tie() -> None:
    """The ranking decides between ties, not the place among the candidates."""
    random = np.random.default_rng(3)
    passage = _tokens(random, 4)

    scores = late_interaction_scores(max_similarities(_tokens(random, 5), _packed([passage] * 3)), np.ones(5))

    assert scores.tolist() == [scores[0]] * 3


def test_a_token_of_the_query_finds_its_own_signs() -> None:
    """The similarity of a token to itself is its share in the directions of its signs; to its opposite the negative."""
    token = _tokens(np.random.default_rng(4), 1)

    similarities = max_similarities(token, _packed([token, -token]))

    share = float(np.abs(token).sum()) / math.sqrt(DIMENSION)
    assert similarities.tolist() == [pytest.approx([share, -share], abs=1e-6)]


def test_bits_hold_the_signs_in_order() -> None:
    """Zero is negative, and the highest bit of the first byte is the first value: stored tokens depend on it."""
    token = np.full((1, DIMENSION), -0.5, dtype=np.float32)
    token[0, [0, 9]] = 0.5
    token[0, 1] = 0.0

    bits = pack_signs(token)

    assert bits.tolist() == [[128, 64, *[0] * (TOKEN_BYTES - 2)]]


def test_truncated_tokens_are_refused() -> None:
    """Bytes of half a token are damaged data."""
    with pytest.raises(ValueError, match="17 bytes"):
        PackedTokens.of([bytes(16), bytes(17)])


def test_the_passage_before_lends_a_share() -> None:
    """The larger of a passage's own similarity and the share of the one before counts, for each token by itself."""
    own = np.array([[0.5, 0.1, 0.3], [0.2, 0.9, -0.4]], dtype=np.float32)

    combined = include_previous(own, np.array([-1, 0, 1]), factor=0.8)

    assert combined == pytest.approx(np.array([[0.5, 0.4, 0.3], [0.2, 0.9, 0.72]]))
    assert own[0, 1] == pytest.approx(0.1)


def test_scores_are_means_by_weight() -> None:
    """A rare token counts more; without any weight all scores are 0."""
    similarities = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)

    assert late_interaction_scores(similarities, np.array([3.0, 1.0])).tolist() == [0.75, 0.25]
    assert late_interaction_scores(similarities, np.zeros(2)).tolist() == [0.0, 0.0]


def test_the_best_scores_are_mapped_to_one_and_zero() -> None:
    """Scores below the best hundred are 0, unknown ones stay unknown, and equal ones are 1."""
    raw = np.array([0.9, np.nan, 0.5, *[0.6] * 99])

    scores = normalize(raw)

    assert scores[:3].tolist() == [1.0, pytest.approx(np.nan, nan_ok=True), 0.0]
    assert set(scores[3:].tolist()) == {0.0}
    assert normalize(np.array([0.4, 0.4])).tolist() == [1.0, 1.0]


def test_tokens_that_many_passages_hold_are_weighted_by_their_rarity_there() -> None:
    """A weight is lowered only if more than a quarter hold the token, and never raised."""
    own = np.full((3, 40), 0.1, dtype=np.float32)
    own[0, :20], own[1, :10], own[2] = 0.6, 0.9, 0.9
    usual = np.array([6.0, 6.0, 0.01])

    assert common_rarities(own, usual).tolist() == [pytest.approx(rarity(40, 20)), 6.0, 0.01]
    assert common_rarities(own[:, :39], usual).tolist() == usual.tolist()


def test_relevance_rises_with_the_score_its_lead_and_the_coverage() -> None:
    """It is in 0..1, higher across scripts, where scores are lower, and unknown where the score is."""
    raw = np.array([0.6, 0.3, 0.3, np.nan])
    is_other_script = np.array([False, False, True, False])

    found = RELEVANCE.relevances(LateScores(raw, 0.7, raw), is_other_script)

    assert found[0] > found[2] > found[1] > 0.0
    assert np.isnan(found[3])
    without_lead = np.full(40, 0.6)
    assert RELEVANCE.relevances(LateScores(without_lead, 0.7, raw), np.zeros(40, dtype=bool)).max() < found[0]
    only = RELEVANCE.relevances(LateScores(raw[:1], 0.7, raw), is_other_script[:1])
    assert only == pytest.approx(found[0], abs=0.02), "few memories are no measure of each other"
    assert (RELEVANCE.relevances(LateScores(raw, 0.6, raw), is_other_script) < found)[:3].all()
    unknown = np.array([np.nan])
    assert np.isnan(RELEVANCE.relevances(LateScores(unknown, 0.7, unknown), np.array([False])))
