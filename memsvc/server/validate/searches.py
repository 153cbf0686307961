"""Rules for searches."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.search import FusionMethod
from memsvc.server.convert.enums import FUSION_METHOD, MODE, NORMALIZATION
from memsvc.server.convert.queries import PRESETS, effective_method
from memsvc.server.convert.vectors import numbers_from_proto
from memsvc.server.validate.filters import check_filter
from memsvc.server.validate.history import check_as_of
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_integer,
    check_number,
    check_text,
    check_texts,
    check_time_range,
    check_vector,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import search_service_pb2 as pb

RANK_CONSTANT_MAX = 10_000
BOOST_MAX = 2.0


def check_search(request: pb.SearchRequest, *, dimension: int) -> None:
    """Check a search, but for its tokens."""
    found = Violations()
    note_search(found, request, dimension=dimension)
    found.finish()


def note_search(found: Violations, request: pb.SearchRequest, *, dimension: int) -> None:
    """Note what is wrong with a search, but for its tokens."""
    check_scope(found, request.scope)
    check_text(found, "query", request.query, most=limits.QUERY)
    check_vector(found, "vector", numbers_from_proto(request), dimension)
    check_texts(found, "keywords", request.keywords, count=limits.KEYWORDS, most=limits.KEYWORD, least=1)
    _check_mode(found, request)
    if request.HasField("fusion"):
        _check_fusion(found, request.fusion)
    if request.HasField("filter"):
        check_filter(found, request.filter)
    if request.HasField("time_range"):
        check_time_range(found, "time_range", request.time_range)
    check_number(found, "min_score", request.min_score, most=1.0)
    check_integer(found, "limit", request.limit, least=1, most=limits.SEARCH_LIMIT)
    check_integer(found, "snippet_chars", request.snippet_chars, least=limits.SNIPPET_MIN, most=limits.SNIPPET_MAX)
    check_as_of(found, request.as_of)
    if request.weighting.enabled:
        _check_weighting(found, request.weighting)
    _check_refinement(found, request)


def check_batch_search(request: pb.BatchSearchRequest) -> None:
    """Check several searches as a whole; each is checked by itself as it runs."""
    found = Violations()
    check_count(found, "searches", request.searches, least=1, most=limits.SEARCHES)
    found.finish()


def _check_mode(found: Violations, request: pb.SearchRequest) -> None:
    check_enum(found, "mode", request.mode, MODE.from_proto)
    if request.query.strip():
        return
    if not (request.vector or request.keywords):
        found.add("query", "must be set, or vector or keywords")
    elif request.mode == pb.SEARCH_MODE_SEMANTIC and not request.vector:
        found.add("query", "must be set, or vector, in SEMANTIC mode")
    elif request.mode == pb.SEARCH_MODE_KEYWORD and not request.keywords:
        found.add("query", "must be set, or keywords, in KEYWORD mode")


def _check_fusion(found: Violations, fusion: pb.Fusion) -> None:
    check_enum(found, "fusion.method", fusion.method, FUSION_METHOD.from_proto)
    check_enum(found, "fusion.preset", fusion.preset, PRESETS)
    check_enum(found, "fusion.normalization", fusion.normalization, NORMALIZATION.from_proto)
    check_integer(found, "fusion.rank_constant", fusion.rank_constant, least=1, most=RANK_CONSTANT_MAX)
    check_number(found, "fusion.single_retriever_factor", fusion.single_retriever_factor, most=1.0)
    _check_weights(found, fusion.weights)
    if fusion.method and fusion.method not in FUSION_METHOD.from_proto:
        return
    method = effective_method(fusion)
    if method is FusionMethod.DEFAULT:
        for descriptor, _ in fusion.ListFields():
            if descriptor.name != "method":
                found.add(f"fusion.{descriptor.name}", "must not be given with the method DEFAULT")
    elif fusion.preset and method is not FusionMethod.WEIGHTED:
        found.add("fusion.preset", "must be given with the method WEIGHTED only")
    if fusion.preset and fusion.HasField("weights"):
        found.add("fusion.weights", "must not be given together with a preset")


def _check_weights(found: Violations, weights: pb.FusionWeights) -> None:
    given = {descriptor.name: value for descriptor, value in weights.ListFields()}
    for name, value in given.items():
        check_number(found, f"fusion.weights.{name}", value)
    if given and not any(given.values()):
        found.add("fusion.weights", "must not all be 0")


def _check_refinement(found: Violations, request: pb.SearchRequest) -> None:
    if request.diversity.enabled:
        check_number(found, "diversity.mmr_lambda", request.diversity.mmr_lambda, most=1.0)
    if request.collapsing.enabled:
        check_number(found, "collapsing.threshold", request.collapsing.threshold, most=1.0)
    if request.reranking.enabled:
        check_integer(found, "reranking.depth", request.reranking.depth, least=1, most=limits.RERANK_DEPTH)
        if not (request.query.strip() or request.keywords):
            found.add("reranking", "needs a query or keywords to read the hits with")


def _check_weighting(found: Violations, weighting: pb.Weighting) -> None:
    check_number(found, "weighting.decay_factor", weighting.decay_factor, most=1.0)
    check_number(found, "weighting.long_term_boost", weighting.long_term_boost, most=BOOST_MAX)
    check_number(found, "weighting.core_boost", weighting.core_boost, most=BOOST_MAX)
