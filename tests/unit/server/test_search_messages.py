"""Searches, replies and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope
from memsvc.domain.search import (
    Explanation,
    FailedRetriever,
    Fusion,
    FusionMethod,
    Mode,
    Normalization,
    OrderField,
    PageCursor,
    Retriever,
    RetrieverScore,
    SearchHit,
    SearchQuery,
    SearchReply,
    TimeWeighting,
)
from memsvc.engine.files.service import FileRefResolver, ResolvedRef
from memsvc.server import tokens
from memsvc.server.requests.memory import list_memories_request
from memsvc.server.requests.search import search_request
from memsvc.server.responses.search import fill_search_response
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

SCOPE = types_pb.Scope(user_id="ada", project_id="p")


class NoFiles(FileRefResolver):
    """Files of a service that has none."""

    def __init__(self) -> None:
        """Need nothing."""

    def resolve(self, scope: Scope, refs: Iterable[FileRef]) -> dict[FileRef, ResolvedRef]:
        """Return that no reference leads to a file."""
        del scope
        return {ref: ResolvedRef(ref) for ref in refs}


def query_of(request: search_pb.SearchRequest, weighting: TimeWeighting | None = None) -> SearchQuery:
    """Return the search that a request means."""
    return search_request(request, now=NOW, dimension=2, weighting=weighting)


def hit(**fields: object) -> SearchHit:
    """Return a hit with every field set."""
    plain = SearchHit(memory(file_refs=(FileRef("temp", "1"),)), 0.5, "a b", ((0, 1), (2, 3)), 1, 2, 0, ("A", "B"))
    return SearchHit(**{name: fields.get(name, getattr(plain, name)) for name in plain.__slots__})  # type: ignore[arg-type] # any field


def test_a_search_gets_its_defaults() -> None:
    """What is left out is filled in."""
    query = query_of(search_pb.SearchRequest(scope=SCOPE, query="where"))

    assert (Mode.HYBRID, Fusion(), 10, 0, 0, 240, None) == (
        query.mode,
        query.fusion,
        query.limit,
        query.offset,
        query.position,
        query.snippet_chars,
        query.weighting,
    )


def test_white_space_alone_is_no_query() -> None:
    """It counts as empty."""
    assert query_of(search_pb.SearchRequest(scope=SCOPE, query=" \n", keywords=["B", "b"])).text == ""


def test_keywords_are_lowered_and_kept_once() -> None:
    """Case and repetition do not matter."""
    query = query_of(search_pb.SearchRequest(scope=SCOPE, keywords=["B", "a", "b"]))

    assert query.keywords == ("b", "a")


@pytest.mark.parametrize(
    ("fusion", "expected"),
    [
        (search_pb.Fusion(), Fusion()),
        (
            search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40),
            Fusion(
                FusionMethod.WEIGHTED,
                {Retriever.DENSE: 0.6, Retriever.BM25: 0.0, Retriever.KEYWORD_TABLE: 0.4},
                single_retriever_factor=0.7,
            ),
        ),
        (
            search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40, single_retriever_factor=0.5),
            Fusion(
                FusionMethod.WEIGHTED,
                {Retriever.DENSE: 0.6, Retriever.BM25: 0.0, Retriever.KEYWORD_TABLE: 0.4},
                single_retriever_factor=0.5,
            ),
        ),
        (
            search_pb.Fusion(
                weights=search_pb.FusionWeights(dense=4, bm25=2), normalization=search_pb.FUSION_NORMALIZATION_NONE
            ),
            Fusion(
                FusionMethod.WEIGHTED,
                {Retriever.DENSE: 1.0, Retriever.BM25: 0.5, Retriever.KEYWORD_TABLE: 0.0},
                normalization=Normalization.NONE,
            ),
        ),
        (
            search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK),
            Fusion(FusionMethod.RECIPROCAL_RANK, dict.fromkeys(Retriever, 1.0)),
        ),
    ],
)
def test_presets_and_weights_become_weights(fusion: search_pb.Fusion, expected: Fusion) -> None:
    """Absent weights are 0 when some are given and 1 when none is; only ratios count."""
    assert expected == query_of(search_pb.SearchRequest(scope=SCOPE, query="q", fusion=fusion)).fusion


def test_weighting_is_the_services_unless_the_search_says() -> None:
    """Unset takes the setting, disabled turns it off, 0 is the default factor."""
    default = TimeWeighting(decay_factor=0.5)

    def weighting(**fields: object) -> TimeWeighting | None:
        request = search_pb.SearchRequest(scope=SCOPE, query="q", **fields)  # type: ignore[arg-type] # any field
        return query_of(request, default).weighting

    assert weighting() == TimeWeighting(decay_factor=0.5)
    assert weighting(weighting=search_pb.Weighting()) == TimeWeighting()
    assert weighting(weighting=search_pb.Weighting(disabled=True)) is None
    assert weighting(weighting=search_pb.Weighting(core_boost=2.0)) == TimeWeighting(core_boost=2.0)


def reply_of(request: search_pb.SearchRequest, reply: SearchReply) -> search_pb.SearchResponse:
    """Return the answer to a request."""
    response = search_pb.SearchResponse()
    fill_search_response(response, reply, request, query_of(request), NoFiles(), {})
    return response


def test_a_hit_arrives_whole() -> None:
    """Snippet, spans, lines, headings and the explanation are told."""
    scores = (
        RetrieverScore(Retriever.BM25, 2, 7.0, 0.5, 0.2),
        RetrieverScore(Retriever.DENSE, 1, 0.9, 1.0, 0.3),
    )
    found = hit(explanation=Explanation(scores, 0.5, (("date", 0.1),)))

    message = reply_of(search_pb.SearchRequest(scope=SCOPE, query="q", include_files=True), SearchReply((found,))).hits[
        0
    ]

    assert [(span.start, span.end) for span in message.spans] == [(0, 1), (2, 3)]
    assert message.heading_path == "A > B"
    assert [types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP, id="1")] == list(message.file_refs)
    assert [score.retriever for score in message.explanation.retrievers] == [
        search_pb.RETRIEVER_DENSE,
        search_pb.RETRIEVER_BM25,
    ]
    assert [(boost.name, boost.value) for boost in message.explanation.boosts] == [("date", 0.1)]


def test_files_and_timings_are_told_only_when_asked_for() -> None:
    """They are left out otherwise."""
    response = reply_of(
        search_pb.SearchRequest(scope=SCOPE, query="q"), SearchReply((hit(),), timings=(("total", 0.1),))
    )

    assert not response.hits[0].file_refs
    assert not response.timings


def test_a_degraded_retriever_is_named() -> None:
    """Why, too."""
    lost = FailedRetriever(Retriever.DENSE, "UNAVAILABLE", "gone")

    response = reply_of(search_pb.SearchRequest(scope=SCOPE, query="q"), SearchReply((), (lost,)))

    assert response.degraded[0].retriever == search_pb.RETRIEVER_DENSE
    assert response.degraded[0].reason == search_pb.DEGRADATION_REASON_UNAVAILABLE


def test_the_next_page_goes_on_where_the_page_ends() -> None:
    """Its token may come with another limit, but belongs to its search alone."""
    request = search_pb.SearchRequest(scope=SCOPE, query="q", limit=2)
    token = reply_of(request, SearchReply((hit(), hit()), has_more=True)).next_page_token

    def offset(query: str) -> int:
        following = search_pb.SearchRequest(scope=SCOPE, query=query, limit=5, page_token=token)
        return query_of(following).offset

    assert offset("q") == 2
    with pytest.raises(InvalidRequestError, match="page_token"):
        offset("other")


def test_the_last_page_has_no_token() -> None:
    """Neither has one at the depth to which paging goes."""
    request = search_pb.SearchRequest(scope=SCOPE, query="q")
    deep = SearchQuery(query_of(request).scope, offset=999)
    response = search_pb.SearchResponse()
    fill_search_response(response, SearchReply((hit(),), has_more=True), request, deep, NoFiles(), {})

    assert reply_of(request, SearchReply((hit(),))).next_page_token == ""
    assert response.next_page_token == ""


@given(st.integers(0, 2**63 - 1))
def test_a_consistency_token_stands_for_its_position(position: int) -> None:
    """Every position comes back."""
    token = tokens.consistency_token(position)

    assert token
    assert position == tokens.position_of(token)


@given(st.integers(-(2**63), 2**63 - 1) | st.none(), st.integers(0, 2**63 - 1))
def test_a_page_token_of_a_list_stands_for_its_cursor(value: int | None, row: int) -> None:
    """Absent values are told from 0."""
    cursor = PageCursor(value, row)

    assert cursor == tokens.list_cursor(tokens.list_token(cursor, b"12345678"), b"12345678")


LIST = tokens.list_token(PageCursor(1, 2), b"12345678")
SEARCH = tokens.search_token(5, b"12345678")
CONSISTENCY = tokens.consistency_token(7)


@pytest.mark.parametrize("token", ["x", "é", "=", "A" * 1000, CONSISTENCY + "=", LIST[:-1], LIST, " " + CONSISTENCY])
def test_a_malformed_or_foreign_consistency_token_is_refused(token: str) -> None:
    """It is told as a violation of its field."""
    with pytest.raises(InvalidRequestError) as caught:
        tokens.position_of(token)

    assert caught.value.violations[0].field == "consistency_token"


@pytest.mark.parametrize(("token", "digest"), [(SEARCH, b"12345678"), (LIST, b"other---"), ("!!", b"12345678")])
def test_a_malformed_or_foreign_page_token_is_refused(token: str, digest: bytes) -> None:
    """It is told as a violation of its field."""
    with pytest.raises(InvalidRequestError) as caught:
        tokens.list_cursor(token, digest)

    assert caught.value.violations[0].field == "page_token"


@given(st.text(max_size=70))
def test_no_text_at_all_upsets_the_reading_of_tokens(token: str) -> None:
    """It is a token, or refused."""
    with suppress(InvalidRequestError):
        tokens.position_of(token)
    with suppress(InvalidRequestError):
        tokens.list_cursor(token, b"12345678")


def test_a_digest_leaves_out_what_it_is_told_to() -> None:
    """Equal but for those fields, equal digests."""
    first = memory_pb.ListMemoriesRequest(scope=SCOPE, page_size=1)
    second = memory_pb.ListMemoriesRequest(scope=SCOPE, page_size=2)

    assert tokens.digest(first, without=("page_size",)) == tokens.digest(second, without=("page_size",))
    assert tokens.digest(first, without=()) != tokens.digest(second, without=())


@pytest.mark.parametrize(
    ("order_by", "field", "descending"),
    [
        ("", OrderField.CREATE_TIME, True),
        ("importance", OrderField.IMPORTANCE, False),
        ("event_time asc", OrderField.EVENT_TIME, False),
        ("access_count desc", OrderField.ACCESS_COUNT, True),
    ],
)
def test_an_order_names_a_field_and_a_direction(order_by: str, field: OrderField, *, descending: bool) -> None:
    """Newest first when it is empty, ascending when it names no direction."""
    order = list_memories_request(memory_pb.ListMemoriesRequest(scope=SCOPE, order_by=order_by), now=NOW).order

    assert (field, descending) == (order.field, order.descending)
