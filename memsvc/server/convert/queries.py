"""Searches on their way in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.search import (
    Fusion,
    FusionMethod,
    Mode,
    Normalization,
    Refinement,
    Retriever,
    SearchQuery,
    Weighting,
)
from memsvc.server.call_context import Principal
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import FUSION_METHOD, MODE, NORMALIZATION
from memsvc.server.convert.history import as_of_from_proto
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.selections import selection_from_proto
from memsvc.server.convert.vectors import numbers_from_proto, vector_from_proto
from memsvc.v1 import search_service_pb2 as pb

RANK_CONSTANT = 60
MMR_LAMBDA = 0.7
COLLAPSE_THRESHOLD = 0.85
RERANK_DEPTH = 20
UNBOUND = ("limit", "page_token", "consistency_token", "explain")
"""The fields that may differ between the pages of one search."""

PRESETS: Mapping[int, tuple[Mapping[Retriever, float], float]] = {
    pb.FUSION_PRESET_DENSE_70_BM25_30: (
        {Retriever.DENSE: 0.7, Retriever.BM25: 0.3, Retriever.KEYWORD_TABLE: 0.0},
        1.0,
    ),
    pb.FUSION_PRESET_DENSE_60_KEYWORD_40: (
        {Retriever.DENSE: 0.6, Retriever.BM25: 0.0, Retriever.KEYWORD_TABLE: 0.4},
        0.7,
    ),
}
"""The weights of each preset, and its factor for memories that a single retriever found."""

EQUAL: Mapping[Retriever, float] = dict.fromkeys(Retriever, 1.0)
_PLAIN_WEIGHTING = Weighting()


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """What a search means where the request does not say."""

    now: datetime
    weighting: Weighting | None = None
    principal: Principal = field(default=Principal())


def query_from_proto(request: pb.SearchRequest, defaults: SearchDefaults) -> SearchQuery:
    """Return the search with all its defaults filled in.

    Raises:
        InvalidRequestError: A token is not of this service or this search.
    """
    offset = 0
    if request.page_token:
        offset = tokens.search_offset(request.page_token, request_digest(request), depth=limits.SEARCH_DEPTH)
    as_of = as_of_from_proto(request.as_of, defaults.now)
    happened = request.time_range if request.HasField("time_range") else None
    return SearchQuery(
        scope=scope_from(request.scope, defaults.principal),
        text=request.query if request.query.strip() else "",
        vector=vector_from_proto(numbers_from_proto(request)),
        keywords=tuple(dict.fromkeys(word.lower() for word in request.keywords)),
        mode=MODE.given(request.mode, Mode.HYBRID),
        fusion=fusion_from_proto(request.fusion),
        selection=selection_from_proto(request.filter, now=defaults.now, happened=happened, as_of=as_of),
        min_score=request.min_score,
        limit=request.limit or limits.SEARCH_LIMIT_DEFAULT,
        offset=offset,
        weighting=_weighting(request, defaults.weighting),
        explain=request.explain,
        position=tokens.position_of(request.consistency_token),
        snippet_chars=request.snippet_chars or limits.SNIPPET_DEFAULT,
        known_time=None if as_of is None else as_of.known_time,
        refinement=_refinement(request),
    )


def request_digest(request: pb.SearchRequest) -> bytes:
    """Return what all pages of one search have in common."""
    return tokens.digest(request, without=UNBOUND)


def effective_method(fusion: pb.Fusion) -> FusionMethod:
    """Return the method that a request means, named or not."""
    chosen = fusion.preset or fusion.HasField("weights")
    return FUSION_METHOD.given(fusion.method, FusionMethod.WEIGHTED if chosen else FusionMethod.DEFAULT)


def fusion_from_proto(fusion: pb.Fusion) -> Fusion:
    """Return how to fuse: presets become weights."""
    method = effective_method(fusion)
    if method is FusionMethod.DEFAULT:
        return Fusion()
    weights, factor = PRESETS.get(fusion.preset, (_weights(fusion.weights), 1.0))
    return Fusion(
        method=method,
        weights=weights,
        rank_constant=fusion.rank_constant or RANK_CONSTANT,
        normalization=NORMALIZATION.given(fusion.normalization, Normalization.MIN_MAX),
        single_retriever_factor=fusion.single_retriever_factor or factor,
    )


def _weights(weights: pb.FusionWeights) -> Mapping[Retriever, float]:
    """Return the given weights, absent ones as 0 and the largest as 1, since only their ratios count."""
    if not weights.ListFields():
        return EQUAL
    given = {
        Retriever.DENSE: weights.dense,
        Retriever.BM25: weights.bm25,
        Retriever.KEYWORD_TABLE: weights.keyword_table,
    }
    largest = max(given.values())
    return {retriever: weight / largest for retriever, weight in given.items()}


def _refinement(request: pb.SearchRequest) -> Refinement:
    diversity, collapsing, reranking = request.diversity, request.collapsing, request.reranking
    return Refinement(
        rerank_depth=(reranking.depth or RERANK_DEPTH) if reranking.enabled else 0,
        collapse_threshold=(collapsing.threshold or COLLAPSE_THRESHOLD) if collapsing.enabled else None,
        mmr_lambda=(diversity.mmr_lambda or MMR_LAMBDA) if diversity.enabled else None,
    )


def _weighting(request: pb.SearchRequest, otherwise: Weighting | None) -> Weighting | None:
    if not request.HasField("weighting"):
        return otherwise
    weighting = request.weighting
    if not weighting.enabled:
        return None
    return Weighting(
        decay_factor=weighting.decay_factor or _PLAIN_WEIGHTING.decay_factor,
        long_term_boost=weighting.long_term_boost or _PLAIN_WEIGHTING.long_term_boost,
        core_boost=weighting.core_boost or _PLAIN_WEIGHTING.core_boost,
    )
