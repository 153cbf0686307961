"""Early answers, diversity, near-duplicates and reranking over the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import grpc
import pytest

from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, create_all, refused, search
from tests.support.server_process import FAST, ServerProcess, Stubs

SAID = "The quick brown otter swims down the long green river every single morning at"
JERRY, TOM = "Jerry reports to Tom, not to Ann.", "Tom reports to Jerry, not to Ann."
SAID_ZH = "那只棕色的水獭每天早上都会沿着长长的绿色河流游到下游去找鱼吃，"


def answers(stubs: Stubs, scope: types_pb.Scope, query: str, **request: object) -> list[search_pb.StreamSearchResponse]:
    """Search and return all answers."""
    asked = search_pb.SearchRequest(scope=scope, query=query, **request)
    return list(stubs.search.StreamSearch(search_pb.StreamSearchRequest(search=asked), timeout=TIMEOUT))


def test_words_answer_first(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Then comes what Search returns, of the same first hit here; in both languages."""
    create_all(
        stubs, scope, ["The otter sleeps.", "水獭在睡觉。", "A heron stands.", *(f"line {n}" for n in range(20))]
    )

    for query in ("otter sleeps", "水獭 睡觉"):
        early, fused = answers(stubs, scope, query)
        whole = search(stubs, scope, query)
        assert ("early", "fused") == (early.WhichOneof("answer"), fused.WhichOneof("answer"))
        assert early.early.hits[0].memory.id == fused.fused.hits[0].memory.id
        assert not early.early.next_page_token
        assert [hit.memory.id for hit in whole.hits] == [hit.memory.id for hit in fused.fused.hits]
        assert whole.next_page_token == fused.fused.next_page_token


def test_one_answer_when_there_is_nothing_to_say_early(stubs: Stubs, scope: types_pb.Scope) -> None:
    """For words that are nowhere, one sort of retriever, and a later page."""
    create_all(stubs, scope, [f"otter {number}" for number in range(30)])
    token = search(stubs, scope, "otter").next_page_token

    assert ["fused"] == [one.WhichOneof("answer") for one in answers(stubs, scope, "zyzzyva")]
    for mode in (SEMANTIC, KEYWORD):
        assert ["fused"] == [one.WhichOneof("answer") for one in answers(stubs, scope, "otter", mode=mode)]
    assert ["fused"] == [one.WhichOneof("answer") for one in answers(stubs, scope, "otter", page_token=token)]


@pytest.mark.parametrize(
    ("contents", "query"),
    [
        ([f"{SAID} 8.", f"{SAID}: 8!", f"{SAID} 9."], "otter river morning"),
        ([f"{SAID_ZH}八点。", f"{SAID_ZH}八点！", f"{SAID_ZH}八点不去。"], "水獭 河流 早上"),
        ([JERRY, JERRY[:-1], TOM], "Jerry Tom reports"),
        (["大家下午四点去游泳。", "大家下午四点去游泳！", "大家下午三点去游泳。"], "下午 游泳"),
    ],
)
def test_near_duplicates_collapse(stubs: Stubs, scope: types_pb.Scope, contents: list[str], query: str) -> None:
    """Into the best of them, which names the others; another number, order or negation is another statement."""
    memories = [memory.id for memory in create_all(stubs, scope, contents)]

    plain = search(stubs, scope, query).hits
    hits = search(stubs, scope, query, collapsing=search_pb.Collapsing()).hits

    assert len(plain) == 3
    assert len(hits) == 2
    pair = next(hit for hit in hits if hit.collapsed_ids)
    assert {pair.memory.id, *pair.collapsed_ids} == set(memories[:2])
    assert memories[2] in [hit.memory.id for hit in hits]


def test_diversity_brings_something_else_up(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What repeats the best hit goes down; pages of the new order neither repeat nor leave out."""
    create_all(
        stubs, scope,
        ["otter river stones", "the otter, a river, some stones", "otter with river and stones", "an otter in Lisbon zoo"],
    )  # fmt: skip
    wanted = search_pb.Diversity(mmr_lambda=0.3)

    plain = [hit.memory.content for hit in search(stubs, scope, "otter river stones").hits]
    whole = search(stubs, scope, "otter river stones", diversity=wanted)
    diverse = [hit.memory.content for hit in whole.hits]
    paged: list[str] = []
    token = ""
    while len(paged) < 4:
        page = search(stubs, scope, "otter river stones", diversity=wanted, limit=1, page_token=token)
        paged += [hit.memory.content for hit in page.hits]
        token = page.next_page_token

    assert "an otter in Lisbon zoo" == plain[-1]
    assert ("an otter in Lisbon zoo", plain[0]) == (diverse[1], diverse[0])
    assert sorted(plain) == sorted(diverse)
    assert diverse == paged
    assert not whole.skipped


def requested(skipped: Iterable[search_pb.SkippedStage]) -> list[search_pb.SkippedStage]:
    """Return the skipped stages without the one of the default ranking, for which the fast embedder has no tokens."""
    return [one for one in skipped if one.stage != search_pb.REFINEMENT_STAGE_LATE_INTERACTION]


def test_without_a_reranker_reranking_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """UNIMPLEMENTED names what is missing."""
    request = search_pb.SearchRequest(scope=scope, query="x", reranking=search_pb.Reranking())
    refusal = refused(stubs.search.Search, request)

    assert (grpc.StatusCode.UNIMPLEMENTED, "CAPABILITY_MISSING") == (refusal.code, refusal.reason)
    assert "reranker" in refusal.metadata["capability"]


@pytest.fixture(scope="module")
def reranking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with the test reranker."""
    settings = {**FAST, "MEMSVC_RERANKER__BACKEND": "in-memory"}
    with ServerProcess(tmp_path_factory.mktemp("reranking") / "data", settings) as running, running.stubs() as stubs:
        yield stubs


def test_a_reranker_orders_the_best_hits(reranking: Stubs, scope: types_pb.Scope) -> None:
    """By its own scores, in 0..1, descending, and explained; only when it is asked for."""
    contents = ["otter otter otter otter", "the keeper feeds the otter at noon", "at noon the keeper sleeps", "a heron"]
    create_all(reranking, scope, contents)
    query = "keeper feeds otter noon"

    plain = search(reranking, scope, query)
    again = search(reranking, scope, query, reranking=search_pb.Reranking(depth=3), explain=True)

    assert not plain.skipped
    assert not requested(again.skipped)
    assert again.hits[0].memory.content == contents[1]
    assert again.hits[0].score == 1.0
    scores = [hit.score for hit in again.hits]
    assert scores == sorted(scores, reverse=True)
    assert {hit.memory.id for hit in plain.hits} == {hit.memory.id for hit in again.hits}
    assert "rerank" in {boost.name for hit in again.hits for boost in hit.explanation.boosts}


def test_the_early_answer_is_not_reranked(reranking: Stubs, scope: types_pb.Scope) -> None:
    """It has the order of words alone; the whole one has the reranker's, in both languages."""
    create_all(
        reranking, scope,
        ["otter otter otter otter", "the keeper feeds the otter at noon", "水獭 水獭 水獭 水獭", "饲养员 中午 喂 水獭"],
    )  # fmt: skip

    for query in ("keeper feeds otter noon", "饲养员 中午 喂 水獭"):
        wanted = search_pb.Reranking(depth=3)
        early, fused = answers(reranking, scope, query, reranking=wanted, explain=True)
        boosts = [
            {boost.name for hit in answer.hits for boost in hit.explanation.boosts}
            for answer in (early.early, fused.fused)
        ]
        assert "rerank" not in boosts[0]
        assert "rerank" in boosts[1]
        assert not early.early.skipped
        assert not requested(fused.fused.skipped)
        assert fused.fused.hits[0].score == 1.0


def test_a_near_deadline_skips_what_is_optional(reranking: Stubs, scope: types_pb.Scope) -> None:
    """The hits are there, and the reply says what was left out."""
    create_all(reranking, scope, ["otter", "otter river"])
    request = search_pb.SearchRequest(
        scope=scope,
        query="otter",
        reranking=search_pb.Reranking(),
        diversity=search_pb.Diversity(),
    )
    for milliseconds in range(50, 4, -3):
        try:
            reply = reranking.search.Search(request, timeout=milliseconds / 1000)
        except grpc.RpcError as error:
            assert grpc.StatusCode.DEADLINE_EXCEEDED == error.code()
            continue
        assert (search_pb.REFINEMENT_STAGE_RERANKING, search_pb.DEGRADATION_REASON_DEADLINE_EXCEEDED) in [
            (one.stage, one.reason) for one in reply.skipped
        ]
        assert len(reply.hits) == 2
        return
    pytest.skip("this machine is too slow for a search within 50 ms")
