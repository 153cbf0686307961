"""How scores come about, as explained over the wire: retrievers, fusion, boosts, time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import HYBRID, KEYWORD, SEMANTIC, at_rest, create, create_all, search
from tests.support.server_process import ServerProcess, Stubs

DENSE, BM25, TABLE = search_pb.RETRIEVER_DENSE, search_pb.RETRIEVER_BM25, search_pb.RETRIEVER_KEYWORD_TABLE
RECIPROCAL, WEIGHTED = search_pb.FUSION_METHOD_RECIPROCAL_RANK, search_pb.FUSION_METHOD_WEIGHTED
FACTORS = {"scale", "time_weighting", "layer", "ceiling", "rerank", "depth"}
STAGES = {"embed", "dense", "bm25", "keyword_table", "fuse", "boost", "hydrate", "total"}
QUERY = "When does the walrus swim to the island?"
LINES = (
    "The walrus swims to the island at noon.",
    "The walrus sleeps on the ice.",
    "An island in the north is covered with ice.",
    "Ships swim past in summer.",
    "The bakery opens at seven.",
    "海象中午游到岛上。",
)


@pytest.fixture
def stocked(stubs: Stubs, scope: types_pb.Scope) -> types_pb.Scope:
    """The scope of a user with a few memories, one of them found by its keyword alone."""
    create_all(stubs, scope, LINES)
    create(stubs, scope, "It has tusks.", keywords=[types_pb.Keyword(term="walrus", weight=1.0)])
    at_rest(stubs)
    return scope


def hits(stubs: Stubs, scope: types_pb.Scope, query: str = QUERY, **fields: object) -> list[search_pb.Hit]:
    """Search with explanations."""
    return list(search(stubs, scope, query, explain=True, limit=100, **fields).hits)


def alone(stubs: Stubs, scope: types_pb.Scope, retriever: int) -> dict[str, tuple[int, float]]:
    """Return rank and raw score of every memory that one retriever finds by itself."""
    if retriever == DENSE:
        found = hits(stubs, scope, mode=SEMANTIC)
    else:
        chosen = {BM25: {"bm25": 1.0}, TABLE: {"keyword_table": 1.0}}[retriever]
        found = hits(stubs, scope, fusion=search_pb.Fusion(weights=search_pb.FusionWeights(**chosen)))
    assert [retriever] * len(found) == [one.retriever for hit in found for one in hit.explanation.retrievers]
    scores = [hit.explanation.retrievers[0] for hit in found]
    assert list(range(1, len(found) + 1)) == [score.rank for score in scores]
    assert sorted((score.raw_score for score in scores), reverse=True) == [score.raw_score for score in scores]
    return {hit.memory.id: (score.rank, score.raw_score) for hit, score in zip(found, scores, strict=True)}


def recomputed(hit: search_pb.Hit) -> float:
    """Return the score that the explanation of a hit leads to."""
    score = hit.explanation.fused_score
    for boost in hit.explanation.boosts:
        score = score * boost.value if boost.name in FACTORS else score + boost.value
    return max(0.0, score)


@pytest.mark.parametrize(
    "fusion",
    [
        search_pb.Fusion(),
        search_pb.Fusion(method=RECIPROCAL),
        search_pb.Fusion(method=RECIPROCAL, rank_constant=1, weights=search_pb.FusionWeights(dense=3, bm25=1)),
        search_pb.Fusion(method=WEIGHTED),
        search_pb.Fusion(weights=search_pb.FusionWeights(dense=0.2, bm25=5, keyword_table=0.1)),
        search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30),
        search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40),
        search_pb.Fusion(method=WEIGHTED, normalization=search_pb.FUSION_NORMALIZATION_NONE),
        search_pb.Fusion(method=WEIGHTED, single_retriever_factor=0.5),
    ],
)
def test_an_explanation_adds_up_to_the_score(stubs: Stubs, stocked: types_pb.Scope, fusion: search_pb.Fusion) -> None:
    """Every retriever's rank and raw score as it gives them alone; shares add up to the fused score, boosts to all."""
    by_retriever = {retriever: alone(stubs, stocked, retriever) for retriever in (DENSE, BM25, TABLE)}
    found = hits(stubs, stocked, fusion=fusion)

    assert LINES[0] == found[0].memory.content
    assert sorted((hit.score for hit in found), reverse=True) == [hit.score for hit in found]
    for hit in found:
        said = hit.explanation.retrievers
        assert sorted({one.retriever for one in said}) == [one.retriever for one in said]
        for one in said:
            assert by_retriever[one.retriever][hit.memory.id] == (one.rank, pytest.approx(one.raw_score, abs=1e-6))
        assert hit.explanation.fused_score == pytest.approx(math.fsum(one.share for one in said))
        assert hit.score == pytest.approx(recomputed(hit), abs=2e-6)
        assert all(boost.value != (1.0 if boost.name in FACTORS else 0.0) for boost in hit.explanation.boosts)


def test_timings_name_the_stages_that_ran(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """In their order, the total last; without explain there are none, and the hits are the same."""
    expected = {
        HYBRID: ["embed", "bm25", "dense", "fuse", "boost", "hydrate", "total"],
        SEMANTIC: ["embed", "dense", "fuse", "boost", "hydrate", "total"],
        KEYWORD: ["bm25", "keyword_table", "fuse", "boost", "hydrate", "total"],
    }
    for mode, stages in expected.items():
        explained = search(stubs, stocked, QUERY, mode=mode, explain=True)
        names = [timing.stage for timing in explained.timings]
        assert sorted(stages) == sorted(names)
        assert ["fuse", "boost", "hydrate", "total"] == names[-4:]
        seconds = {timing.stage: timing.duration.ToTimedelta() for timing in explained.timings}
        assert all(timedelta(0) <= one <= seconds["total"] for one in seconds.values())
        plain = search(stubs, stocked, QUERY, mode=mode)
        assert [] == list(plain.timings)
        assert [(hit.memory.id, hit.score) for hit in explained.hits] == [
            (hit.memory.id, hit.score) for hit in plain.hits
        ]
        assert not any(hit.HasField("explanation") for hit in plain.hits)


def test_reciprocal_rank_counts_ranks_alone(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """Weight / (constant + rank), summed, over the largest possible sum; nothing is added to it."""
    weights = {DENSE: 2.0, BM25: 1.0, TABLE: 0.5}
    fusion = search_pb.Fusion(
        method=RECIPROCAL, rank_constant=10, weights=search_pb.FusionWeights(dense=2, bm25=1, keyword_table=0.5)
    )
    for hit in hits(stubs, stocked, fusion=fusion):
        expected = sum(weights[one.retriever] * 11 / (10 + one.rank) for one in hit.explanation.retrievers) / 3.5
        assert hit.score == pytest.approx(expected)
        assert {0.0} == {one.normalized_score for one in hit.explanation.retrievers}
        assert [] == list(hit.explanation.boosts)


def test_reciprocal_rank_has_a_constant_of_60_by_default(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """And every retriever weighs the same."""
    for hit in hits(stubs, stocked, fusion=search_pb.Fusion(method=RECIPROCAL)):
        expected = sum(61 / (60 + one.rank) for one in hit.explanation.retrievers) / 3
        assert hit.score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fusion", "weights", "factor"),
    [
        (search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30), {DENSE: 0.7, BM25: 0.3}, None),
        (search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40), {DENSE: 0.6, TABLE: 0.4}, 0.7),
        (
            search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40, single_retriever_factor=0.9),
            {DENSE: 0.6, TABLE: 0.4},
            0.9,
        ),
        (search_pb.Fusion(method=WEIGHTED), {DENSE: 1 / 3, BM25: 1 / 3, TABLE: 1 / 3}, None),
        (search_pb.Fusion(weights=search_pb.FusionWeights(bm25=3, dense=1)), {DENSE: 0.25, BM25: 0.75}, None),
    ],
)
def test_weighted_fusion_sums_normalised_scores(
    stubs: Stubs, stocked: types_pb.Scope, fusion: search_pb.Fusion, weights: dict[int, float], factor: float | None
) -> None:
    """Min-max within each list; what a retriever did not find has 0 there; retrievers of weight 0 are not asked.

    With a factor, what a single retriever found has its own score times the factor.
    """
    raw = {retriever: alone(stubs, stocked, retriever) for retriever in weights}
    found = hits(stubs, stocked, fusion=fusion)

    assert {memory_id for scores in raw.values() for memory_id in scores} == {hit.memory.id for hit in found}
    for hit in found:
        said = {one.retriever: one for one in hit.explanation.retrievers}
        assert said.keys() <= weights.keys()
        total = 0.0
        for retriever, one in said.items():
            scores = [score for _, score in raw[retriever].values()]
            low, high = min(scores), max(scores)
            normalized = (one.raw_score - low) / (high - low) if high > low else 1.0
            assert one.normalized_score == pytest.approx(normalized, abs=1e-5)
            total += weights[retriever] * normalized
        if factor is not None and len(said) == 1:
            total = normalized * factor
        assert hit.score == pytest.approx(total, abs=1e-5)
        assert [] == list(hit.explanation.boosts)


def test_scores_can_be_taken_as_they_are(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """NORMALIZATION_NONE cuts them to 0..1."""
    fusion = search_pb.Fusion(
        weights=search_pb.FusionWeights(dense=1, keyword_table=1), normalization=search_pb.FUSION_NORMALIZATION_NONE
    )
    for hit in hits(stubs, stocked, fusion=fusion):
        expected = sum(min(1.0, max(0.0, one.raw_score)) / 2 for one in hit.explanation.retrievers)
        assert hit.score == pytest.approx(expected, abs=2e-6)


def test_semantic_scores_follow_the_cosine(tmp_path: Path, scope: types_pb.Scope) -> None:
    """Best first down to what does not fit at all, and the same whatever fusion is named and else is stored."""
    fusion = search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30)
    # A server of its own: one that others fill takes its means anew at any time.
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        create_all(stubs, scope, LINES)
        before = hits(stubs, scope, mode=SEMANTIC)
        create(stubs, scope, "A memory more.")
        after = hits(stubs, scope, mode=SEMANTIC, fusion=fusion)

    cosines = [hit.explanation.retrievers[0].raw_score for hit in before]
    assert sorted(cosines, reverse=True) == cosines
    assert min(cosines) < 0.5 < max(cosines)
    scores = {hit.memory.id: hit.score for hit in after}
    assert all(scores[hit.memory.id] == pytest.approx(hit.score, abs=1e-6) for hit in before)


def test_the_lines_around_a_hit_in_its_session_lift_it(stubs: Stubs, user: str) -> None:
    """The neighbour's share is explained; the same line in another session gets none; named fusions have no share."""
    talk, other = (types_pb.Scope(user_id=user, session_id=name) for name in ("talk", "other"))
    for line in ("Where do walruses spend the winter?", "In the Bering Sea."):
        create(stubs, talk, line, speaker="Mia")
    create(stubs, other, "In the Bering Sea, far away.", speaker="Mia")
    query = "walruses in winter sea"

    def neighbours(**fields: object) -> dict[str, float]:
        return {
            hit.memory.content: boost.value
            for hit in hits(stubs, types_pb.Scope(user_id=user), query, **fields)
            for boost in hit.explanation.boosts
            if boost.name == "neighbour"
        }

    shares = neighbours()
    assert {"Where do walruses spend the winter?", "In the Bering Sea."} == shares.keys()
    assert all(0 < share <= 0.43 for share in shares.values())
    assert {} == neighbours(fusion=search_pb.Fusion(method=RECIPROCAL))


def test_the_speaker_and_the_day_that_a_query_names_count(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What somebody else said loses, what happened on the day gains."""
    day = Timestamp(seconds=int(datetime(2026, 5, 8, 12, tzinfo=UTC).timestamp()))
    create(stubs, scope, "I saw the walrus.", speaker="Anna", event_time=day)
    create(stubs, scope, "I saw the walrus too.", speaker="Bert")
    found = hits(stubs, scope, "What walrus did Anna see on 8 May 2026?")
    boosts = {hit.memory.speaker: {boost.name: boost.value for boost in hit.explanation.boosts} for hit in found}

    assert "Anna" == found[0].memory.speaker
    assert boosts["Anna"]["date"] > 0
    assert boosts["Bert"]["speaker"] < 0
    assert "speaker" not in boosts["Anna"]
    assert "date" not in boosts["Bert"]


AGES = (0, 15, 30, 90, 365)


@pytest.mark.parametrize("decay", [0.95, 0.5, 1.0])
def test_time_weighting_is_the_formula_of_the_api(stubs: Stubs, scope: types_pb.Scope, decay: float) -> None:
    """decay^(days / 30) times the importance's and the use's factor, times the layer's boost, all explained."""
    now = datetime.now(UTC)
    layers = (types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_LAYER_CORE, types_pb.MEMORY_LAYER_SHORT_TERM)
    for number, age in enumerate(AGES):
        moment = Timestamp()
        moment.FromDatetime(now - timedelta(days=age))
        create(
            stubs, scope, f"The walrus was seen, report {number}.", event_time=moment,
            importance=1 + number, layer=layers[number % 3],
        )  # fmt: skip
    create(stubs, scope, "The walrus was seen tomorrow.", event_time=Timestamp(seconds=4_000_000_000))
    weighting = search_pb.Weighting(decay_factor=decay, long_term_boost=0.5, core_boost=1.5)
    boost = {
        types_pb.MEMORY_LAYER_LONG_TERM: 0.5,
        types_pb.MEMORY_LAYER_CORE: 1.5,
        types_pb.MEMORY_LAYER_SHORT_TERM: 1.0,
    }

    for hit in hits(stubs, scope, "walrus report", weighting=weighting):
        memory = hit.memory
        days = max(0.0, (now - memory.event_time.ToDatetime(UTC)) / timedelta(days=1))
        expected = decay ** (days / 30) * (0.8 + 0.2 * memory.importance / 5)
        expected *= min(1 + 0.1 * math.log10(memory.access_count + 1), 1.3)
        factors = {one.name: one.value for one in hit.explanation.boosts}
        assert factors.get("time_weighting", 1.0) == pytest.approx(expected, rel=1e-4)
        assert factors.get("layer", 1.0) == pytest.approx(boost[memory.layer])
        assert hit.score == pytest.approx(recomputed(hit), abs=2e-6)
    plain = hits(stubs, scope, "walrus report", weighting=search_pb.Weighting(disabled=True, core_boost=2))
    assert not {boost.name for hit in plain for boost in hit.explanation.boosts} & {"time_weighting", "layer"}


@pytest.mark.parametrize(
    "texts", [("The walrus was seen.", "The walrus was seen there."), ("海象被看见了。", "海象被喂了。")]
)
def test_long_term_memories_come_first_by_a_preset(stubs: Stubs, scope: types_pb.Scope, texts: tuple[str, str]) -> None:
    """A memory of the day that fits better comes after a long-term one that fits nearly as well."""
    seen, nearly = texts
    create(stubs, scope, seen, layer=types_pb.MEMORY_LAYER_SHORT_TERM)
    create(stubs, scope, nearly, layer=types_pb.MEMORY_LAYER_LONG_TERM)
    fusion = search_pb.Fusion(
        weights=search_pb.FusionWeights(dense=1), normalization=search_pb.FUSION_NORMALIZATION_NONE
    )
    first = search_pb.Weighting(preset=search_pb.WEIGHTING_PRESET_LONG_TERM_FIRST)

    plain = hits(stubs, scope, seen, fusion=fusion)
    preferred = hits(stubs, scope, seen, fusion=fusion, weighting=first)
    own = hits(stubs, scope, seen, fusion=fusion, weighting=search_pb.Weighting(preset=1, long_term_boost=0.5))

    assert [hit.memory.content for hit in plain] == [seen, nearly]
    assert [hit.memory.content for hit in preferred] == [nearly, seen]
    layers = [[boost.value for boost in hit.explanation.boosts if boost.name == "layer"] for hit in preferred]
    assert layers == [[pytest.approx(1.25)], []]
    assert [hit.memory.content for hit in own] == [seen, nearly]


def test_boosts_above_1_keep_the_order(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Scores are brought back to 0..1 without becoming equal."""
    core = types_pb.MEMORY_LAYER_CORE
    create_all(
        stubs, scope,
        [types_pb.Memory(content="walrus " + "and ice " * number, layer=core, importance=5) for number in range(6)],
    )  # fmt: skip
    fusion = search_pb.Fusion(weights=search_pb.FusionWeights(bm25=1))
    plain = hits(stubs, scope, "walrus", fusion=fusion)
    lifted = hits(stubs, scope, "walrus", fusion=fusion, weighting=search_pb.Weighting(core_boost=2))

    assert [hit.memory.id for hit in plain] == [hit.memory.id for hit in lifted]
    assert len({hit.score for hit in plain}) == len({hit.score for hit in lifted})
    assert 1.0 == lifted[0].score
    assert all(hit.score == pytest.approx(recomputed(hit), abs=2e-6) for hit in lifted)
