"""The rules for filters, searches and lists."""

from __future__ import annotations

import pytest
from google.protobuf.struct_pb2 import ListValue, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.errors import InvalidRequestError
from memsvc.server.requests import admin, memory
from memsvc.server.requests import search as searches
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.filters import decode_selection
from memsvc.testing.factories import NOW
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

SCOPE = types_pb.Scope(user_id="ada")
ID = "0190163d-8694-739b-aea5-966c26f8ad91"
EQUALS, IN, LESS = filters_pb.FILTER_OPERATOR_EQUALS, filters_pb.FILTER_OPERATOR_IN, filters_pb.FILTER_OPERATOR_LESS
TEXT = Value(string_value="x")


def paths_of(chosen: filters_pb.Filter) -> list[str]:
    """Return the paths that the rules complain of."""
    decoder = RequestDecoder()
    decode_selection(decoder, chosen, now=NOW)
    error = decoder.error()
    return [violation.field for violation in error.violations] if isinstance(error, InvalidRequestError) else []


def condition(
    field: filters_pb.FilterField.ValueType,
    operator: filters_pb.FilterOperator.ValueType,
    *values: Value,
    path: str = "",
) -> filters_pb.FilterExpression:
    """Return an expression of one condition."""
    return filters_pb.FilterExpression(
        condition=filters_pb.FilterCondition(field=field, operator=operator, values=values, metadata_path=path)
    )


def deep(depth: int) -> filters_pb.FilterExpression:
    """Return an expression nested *depth* deep."""
    expression = condition(filters_pb.FILTER_FIELD_CATEGORY, EQUALS, TEXT)
    for _ in range(depth - 1):
        expression = filters_pb.FilterExpression(negated=expression)
    return expression


BACKWARDS = types_pb.TimeRange(start=Timestamp(seconds=5), end=Timestamp(seconds=5))

BAD_FILTERS = [
    (filters_pb.Filter(layers=[types_pb.MEMORY_LAYER_UNSPECIFIED]), "filter.layers[0]"),
    (filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_ACTIVE, 99]), "filter.statuses[1]"),  # type: ignore[list-item] # open
    (filters_pb.Filter(categories=["c"] * 257), "filter.categories"),
    (filters_pb.Filter(tags_any=["\0"]), "filter.tags_any[0]"),
    (filters_pb.Filter(ids=["x"]), "filter.ids[0]"),
    (filters_pb.Filter(create_time=BACKWARDS), "filter.create_time.end"),
    (filters_pb.Filter(event_time=types_pb.TimeRange(start=Timestamp(seconds=10**13))), "filter.event_time.start"),
    (filters_pb.Filter(last_days=-1), "filter.last_days"),
    (filters_pb.Filter(last_days=36_501), "filter.last_days"),
    (filters_pb.Filter(last_days=1, last_days_field=99), "filter.last_days_field"),  # type: ignore[arg-type] # open
    (filters_pb.Filter(min_importance=6), "filter.min_importance"),
    (filters_pb.Filter(min_importance=4, max_importance=3), "filter.max_importance"),
    (filters_pb.Filter(min_confidence=float("nan")), "filter.min_confidence"),
    (filters_pb.Filter(min_confidence=0.9, max_confidence=0.1), "filter.max_confidence"),
    (filters_pb.Filter(project_visibility=99), "filter.project_visibility"),  # type: ignore[arg-type] # open
    (filters_pb.Filter(metadata=[filters_pb.MetadataEquals(value=TEXT)]), "filter.metadata[0].path"),
    (filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="a")]), "filter.metadata[0].value"),
    (
        filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="a", value=Value(list_value=ListValue()))]),
        "filter.metadata[0].value",
    ),
    (filters_pb.Filter(where=filters_pb.FilterExpression()), "filter.where"),
    (
        filters_pb.Filter(where=filters_pb.FilterExpression(all_of=filters_pb.FilterGroup())),
        "filter.where.all_of.expressions",
    ),
    (filters_pb.Filter(where=deep(9)), "filter.where" + ".negated" * 8),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_UNSPECIFIED, EQUALS, TEXT)),
        "filter.where.condition.field",
    ),
    (
        filters_pb.Filter(
            where=condition(filters_pb.FILTER_FIELD_CATEGORY, filters_pb.FILTER_OPERATOR_UNSPECIFIED, TEXT)
        ),
        "filter.where.condition.operator",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_CATEGORY, LESS, TEXT)),
        "filter.where.condition.operator",
    ),
    (filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_CATEGORY, EQUALS)), "filter.where.condition.values"),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_CATEGORY, EQUALS, TEXT, TEXT)),
        "filter.where.condition.values",
    ),
    (filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_CATEGORY, IN)), "filter.where.condition.values"),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_LAYER, EQUALS, TEXT)),
        "filter.where.condition.values[0]",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_IMPORTANCE, EQUALS, TEXT)),
        "filter.where.condition.values[0]",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_EVENT_TIME, EQUALS, TEXT)),
        "filter.where.condition.values[0]",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_TAG, EQUALS, Value(number_value=1))),
        "filter.where.condition.values[0]",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_METADATA, EQUALS, TEXT)),
        "filter.where.condition.metadata_path",
    ),
    (
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_TAG, EQUALS, TEXT, path="a")),
        "filter.where.condition.metadata_path",
    ),
    (
        filters_pb.Filter(
            where=filters_pb.FilterExpression(
                all_of=filters_pb.FilterGroup(
                    expressions=[condition(filters_pb.FILTER_FIELD_KIND, IN, Value(string_value="FACT"), TEXT)]
                )
            )
        ),
        "filter.where.all_of.expressions[0].condition.values[1]",
    ),
]


@pytest.mark.parametrize(("chosen", "path"), BAD_FILTERS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_filter_is_told_by_its_path(chosen: filters_pb.Filter, path: str) -> None:
    """Each rule names the field that breaks it, and nothing else."""
    assert [path] == paths_of(chosen)


@pytest.mark.parametrize(
    "chosen",
    [
        filters_pb.Filter(),
        filters_pb.Filter(where=deep(8)),
        filters_pb.Filter(categories=[""], create_time=types_pb.TimeRange(), min_importance=3, max_importance=3),
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_IMPORTANCE, LESS, Value(number_value=1e300))),
        filters_pb.Filter(
            where=condition(filters_pb.FILTER_FIELD_METADATA, EQUALS, Value(bool_value=True), path="a.b")
        ),
        filters_pb.Filter(
            where=condition(filters_pb.FILTER_FIELD_EVENT_TIME, LESS, Value(string_value="2026-02-06T08:00:00.5+01:00"))
        ),
        filters_pb.Filter(where=condition(filters_pb.FILTER_FIELD_TAG, IN, *[TEXT] * 256)),
    ],
)
def test_a_good_filter_passes(chosen: filters_pb.Filter) -> None:
    """What the API allows is not complained of."""
    assert paths_of(chosen) == []


def test_values_are_counted_over_the_whole_expression() -> None:
    """Two conditions that are fine alone are too much together; one violation says so."""
    half = condition(filters_pb.FILTER_FIELD_TAG, IN, *[TEXT] * 129)

    paths = paths_of(
        filters_pb.Filter(where=filters_pb.FilterExpression(any_of=filters_pb.FilterGroup(expressions=[half, half])))
    )

    assert paths == ["filter.where.any_of.expressions[1].condition.values"]


def search(**fields: object) -> search_pb.SearchRequest:
    """Return a search that is in order but for what is given."""
    return search_pb.SearchRequest(**{"scope": SCOPE, "query": "where", **fields})  # type: ignore[arg-type] # any field


WEIGHTS = search_pb.FusionWeights(dense=1.0)
BAD_SEARCHES = [
    (search(scope=None), "scope.user_id"),
    (search(query=" \n"), "query"),
    (search(query="q" * 8_193), "query"),
    (search(query="", keywords=["a"], mode=search_pb.SEARCH_MODE_SEMANTIC), "query"),
    (search(query="", vector=[1.0, 0.0], mode=search_pb.SEARCH_MODE_KEYWORD), "query"),
    (search(keywords=["a", ""]), "keywords[1]"),
    (search(mode=99), "mode"),
    (search(vector=[0.0, 0.0]), "vector"),
    (search(min_score=float("nan")), "min_score"),
    (search(min_score=1.5), "min_score"),
    (search(limit=101), "limit"),
    (search(limit=-1), "limit"),
    (search(snippet_chars=39), "snippet_chars"),
    (search(time_range=BACKWARDS), "time_range.end"),
    (search(filter=filters_pb.Filter(ids=["x"])), "filter.ids[0]"),
    (search(fusion=search_pb.Fusion(method=99)), "fusion.method"),  # type: ignore[arg-type] # open
    (search(fusion=search_pb.Fusion(rank_constant=10)), "fusion.rank_constant"),
    (
        search(fusion=search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK, rank_constant=10_001)),
        "fusion.rank_constant",
    ),
    (
        search(fusion=search_pb.Fusion(method=search_pb.FUSION_METHOD_DEFAULT, weights=WEIGHTS)),
        "fusion.weights",
    ),
    (
        search(
            fusion=search_pb.Fusion(
                method=search_pb.FUSION_METHOD_RECIPROCAL_RANK, preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30
            )
        ),
        "fusion.preset",
    ),
    (
        search(fusion=search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30, weights=WEIGHTS)),
        "fusion.weights",
    ),
    (search(fusion=search_pb.Fusion(weights=search_pb.FusionWeights(bm25=-1.0))), "fusion.weights.bm25"),
    (search(fusion=search_pb.Fusion(weights=search_pb.FusionWeights(bm25=0.0))), "fusion.weights"),
    (
        search(fusion=search_pb.Fusion(weights=WEIGHTS, single_retriever_factor=1.1)),
        "fusion.single_retriever_factor",
    ),
    (search(weighting=search_pb.Weighting(decay_factor=-0.5)), "weighting.decay_factor"),
    (search(weighting=search_pb.Weighting(core_boost=2.5)), "weighting.core_boost"),
]


@pytest.mark.parametrize(("request_", "path"), BAD_SEARCHES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_search_is_told_by_its_path(request_: search_pb.SearchRequest, path: str) -> None:
    """Each rule names the field that breaks it, and nothing else."""
    with pytest.raises(InvalidRequestError) as caught:
        searches.search_request(request_, now=NOW, dimension=2)

    assert [path] == [violation.field for violation in caught.value.violations]


def test_weighting_that_is_off_is_not_looked_at() -> None:
    """Its other fields do nothing then."""
    searches.search_request(
        search(weighting=search_pb.Weighting(disabled=True, decay_factor=-5.0)), now=NOW, dimension=2
    )


@pytest.mark.parametrize("count", [0, 33])
def test_a_batch_of_searches_holds_1_to_32(count: int) -> None:
    """Other numbers are refused as a whole."""
    with pytest.raises(InvalidRequestError) as caught:
        searches.batch_search_request(search_pb.BatchSearchRequest(searches=[search()] * count))

    assert caught.value.violations[0].field == "searches"


@pytest.mark.parametrize(
    "order_by", ["title", "create_time down", "create_time desc x", "-importance", " ", "Importance"]
)
def test_an_order_follows_its_grammar(order_by: str) -> None:
    """Anything but a known field and a direction is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        memory.list_memories_request(
            memory_pb.ListMemoriesRequest(scope=SCOPE, order_by=order_by, page_size=1_001), now=NOW
        )

    assert [violation.field for violation in caught.value.violations] == ["order_by", "page_size"]


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (memory_pb.GetMemoryRequest(scope=SCOPE), "id"),
        (memory_pb.GetMemoryRequest(scope=SCOPE, id="x"), "id"),
        (memory_pb.GetMemoryRequest(scope=SCOPE, key=""), "key"),
        (memory_pb.GetMemoryRequest(scope=SCOPE, key="a\0"), "key"),
    ],
)
def test_a_memory_is_asked_for_by_a_uuid_or_a_key(request_: memory_pb.GetMemoryRequest, path: str) -> None:
    """One of the two is needed, and in order."""
    with pytest.raises(InvalidRequestError) as caught:
        memory.get_memory_request(request_, now=NOW)

    assert [path] == [violation.field for violation in caught.value.violations]


def test_several_memories_are_asked_for_by_1_to_1000_uuids() -> None:
    """None, too many and malformed ones are told."""
    paths = []
    for ids in ([], [ID] * 1_001, [ID, "x"]):
        with pytest.raises(InvalidRequestError) as caught:
            memory.batch_get_memories_request(memory_pb.BatchGetMemoriesRequest(scope=SCOPE, ids=ids))
        paths.append([violation.field for violation in caught.value.violations])

    assert paths == [["ids"], ["ids"], ["ids[1]"]]


def test_a_reindex_names_known_indexes() -> None:
    """UNSPECIFIED among them and an unknown mode are refused."""
    request = admin_pb.ReindexRequest(indexes=[admin_pb.INDEX_KIND_UNSPECIFIED], mode=9)  # type: ignore[arg-type] # open

    with pytest.raises(InvalidRequestError) as caught:
        admin.reindex_request(request)

    assert [violation.field for violation in caught.value.violations] == ["indexes[0]", "mode"]
