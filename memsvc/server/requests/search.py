"""Requests of SearchService, decoded and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from memsvc.domain import limits
from memsvc.domain.context import CitationStyle, ContextQuery, Locale, SectionShares
from memsvc.domain.scope import Scope, SessionVisibility
from memsvc.domain.search import (
    Fusion,
    FusionMethod,
    GlobalQuery,
    Mode,
    Normalization,
    PageCursor,
    Refinement,
    ResultGroup,
    Retriever,
    SearchQuery,
    TimeWeighting,
    WordMatch,
)
from memsvc.domain.use_feedback import UseOutcome, UseReport
from memsvc.engine.search.retrieval import select_retrievers
from memsvc.engine.search.use_feedback import NewUseReports
from memsvc.server import tokens
from memsvc.server.enums import (
    CITATION_STYLE,
    FUSION_METHOD,
    MODE,
    NORMALIZATION,
    SEARCH_GROUP,
    SECTION,
    SESSION_VISIBILITY,
    USE_OUTCOME,
    WORD_MATCH,
)
from memsvc.server.options import ContextDefaults
from memsvc.server.requests.decoder import RequestDecoder, unique
from memsvc.server.requests.filters import decode_as_of, decode_selection, default_conditions
from memsvc.v1 import search_service_pb2 as search_pb

DEFAULT_RANK_CONSTANT = 60
BOOST_MAX = 2.0
MMR_LAMBDA = 0.7
COLLAPSE_THRESHOLD = 0.85
RERANK_DEPTH = 20
PAGED_FIELDS = ("limit", "page_token", "consistency_token", "explain", "read_mask")
"""The fields that may differ between the pages of one search."""
RELEVANT_LIMIT = 50
SHARES_TOLERANCE = 0.001
CORE_LIMIT = 50

FUSION_PRESETS: Mapping[int, tuple[Mapping[Retriever, float], float | None]] = {
    search_pb.FUSION_PRESET_DENSE_70_BM25_30: (
        {Retriever.DENSE: 0.7, Retriever.BM25: 0.3, Retriever.KEYWORD_TABLE: 0.0},
        None,
    ),
    search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40: (
        {Retriever.DENSE: 0.6, Retriever.BM25: 0.0, Retriever.KEYWORD_TABLE: 0.4},
        0.7,
    ),
}
"""The weights of each preset, and its factor for memories that a single retriever found."""
WEIGHTING_PRESETS: Mapping[int, float] = {search_pb.WEIGHTING_PRESET_LONG_TERM_FIRST: 1.25}
"""The boost of layers LONG_TERM and CORE in each preset."""
EQUAL_WEIGHTS: Mapping[Retriever, float] = dict.fromkeys(Retriever, 1.0)
_DEFAULT_WEIGHTING = TimeWeighting()
_SEARCH_GROUPS: Mapping[int, AbstractSet[ResultGroup]] = {
    search_pb.SEARCH_GROUP_ALL: frozenset(ResultGroup),
    **{number: frozenset({group}) for number, group in SEARCH_GROUP.from_proto.items()},
}


def search_request(
    message: search_pb.SearchRequest,
    *,
    now: datetime,
    dimension: int,
    weighting: TimeWeighting | None = None,
    use_feedback: bool = False,
    prefix: str = "",
) -> SearchQuery:
    """Return the search with all its defaults filled in.

    Args:
        message: The request.
        now: The present moment.
        dimension: The length that a given vector must have.
        weighting: The weighting of a search that does not name one.
        use_feedback: Whether reports of use are part of the ranking of a search that does not say so.
        prefix: The path of the message, with a trailing dot, when it is part of another one.
    """
    decoder = RequestDecoder(prefix)
    scope = decoder.scope(message.scope)
    text = decoder.text("query", message.query, most=limits.QUERY)
    vector = decoder.vector(message, dimension)
    keywords = decoder.texts("keywords", message.keywords, count=limits.KEYWORDS, most=limits.KEYWORD, least=1)
    mode = _mode(decoder, message)
    fusion = _fusion(decoder, message.fusion) if message.HasField("fusion") else Fusion()
    as_of = decode_as_of(decoder, message.as_of, now)
    time_range = message.time_range if message.HasField("time_range") else None
    selection = decode_selection(
        decoder, message.filter, now=now, as_of=as_of, time_range=time_range, with_archived=True
    )
    query = SearchQuery(
        scope=scope,
        text=text if text.strip() else "",
        vector=vector,
        keywords=unique(word.lower() for word in keywords),
        mode=mode,
        word_match=decoder.enum("word_match", message.word_match, WORD_MATCH, WordMatch.WHOLE),
        fusion=fusion,
        selection=selection,
        min_score=decoder.number("min_score", message.min_score, most=1.0),
        min_relevance=decoder.number("min_relevance", message.min_relevance, most=1.0),
        limit=_limit(decoder, message.limit),
        snippet_chars=_snippet_chars(decoder, message.snippet_chars),
        weighting=_weighting(decoder, message.weighting) if message.HasField("weighting") else weighting,
        refinement=_refinement(decoder, message),
        offset=_offset(decoder, message) if message.page_token else 0,
        explain=message.explain,
        position=decoder.position(message.consistency_token),
        known_time=None if as_of is None else as_of.known_time,
        valid_time=None if as_of is None else as_of.valid_time,
        use_feedback=message.use_feedback if message.HasField("use_feedback") else use_feedback,
    )
    decoder.read_mask(message.read_mask)
    if message.HasField("fusion") and decoder.error() is None and not select_retrievers(query):
        decoder.add("fusion.weights", "must be above 0 for a retriever of the mode that the request has an input for")
    decoder.finish()
    return query


def batch_search_request(message: search_pb.BatchSearchRequest) -> None:
    """Check a batch of searches as a whole; each is decoded by itself as it runs."""
    decoder = RequestDecoder()
    decoder.count("searches", message.searches, least=1, most=limits.SEARCHES)
    decoder.finish()


def search_digest(message: search_pb.SearchRequest) -> bytes:
    """Return the digest that the page tokens of one search are bound to."""
    return tokens.digest(message, without=PAGED_FIELDS)


def search_all_request(
    message: search_pb.SearchAllRequest, *, now: datetime, weighting: TimeWeighting | None, use_feedback: bool
) -> GlobalQuery:
    """Return the search over all groups, or over those that are named."""
    decoder = RequestDecoder()
    is_blank = not message.query.strip()
    if is_blank:
        decoder.add("query", "must be set")
    named = decoder.enums("groups", message.groups, _SEARCH_GROUPS, count=len(_SEARCH_GROUPS))
    groups = frozenset[ResultGroup]().union(*named) or frozenset(ResultGroup)
    scope = decoder.scope(message.scope)
    if not is_blank:
        decoder.text("query", message.query, most=limits.QUERY)
    memories = SearchQuery(
        scope=scope,
        text=message.query,
        selection=decode_selection(decoder, message.filter, now=now),
        limit=_limit(decoder, message.limit),
        snippet_chars=_snippet_chars(decoder, message.snippet_chars),
        weighting=weighting,
        position=decoder.position(message.consistency_token),
        use_feedback=use_feedback,
    )
    decoder.read_mask(message.read_mask)
    decoder.finish()
    return GlobalQuery(
        scope=scope,
        text=message.query,
        visibility=memories.selection.visibility,
        groups=groups,
        limit=memories.limit,
        memories=memories if ResultGroup.MEMORY in groups else None,
        snippet_chars=memories.snippet_chars,
    )


@dataclass(frozen=True, slots=True)
class ContextResumption:
    """A context whose stream broke off, and the index of the last event that arrived."""

    scope: Scope
    run_id: bytes
    index: int


def build_context_request(
    message: search_pb.BuildContextRequest, defaults: ContextDefaults, *, now: datetime, dimension: int
) -> ContextQuery | ContextResumption:
    """Return the context to build, or the one to resume when the request has a cursor."""
    decoder = RequestDecoder()
    if not message.cursor:
        return _context_query(decoder, message, defaults, now=now, dimension=dimension)
    scope = decoder.scope(message.scope)
    place = (b"", 0)
    if message.earlier_cursor:
        decoder.add("earlier_cursor", "must not be given together with cursor")
    else:
        place = decoder.token(tokens.context_position, message.cursor, field="cursor", default=place)
    decoder.finish()
    return ContextResumption(scope, *place)


def render_context_request(
    message: search_pb.RenderContextRequest, defaults: ContextDefaults, *, now: datetime, dimension: int
) -> ContextQuery:
    """Return the context to render."""
    return _context_query(RequestDecoder(), message, defaults, now=now, dimension=dimension)


@dataclass(frozen=True, slots=True)
class LoadCore:
    """The core memories that an agent loads at its start."""

    scope: Scope
    limit: int
    zone: ZoneInfo | None


@dataclass(frozen=True, slots=True)
class CitedContext:
    """Citations of a context, as an agent repeats them."""

    scope: Scope
    run_id: bytes
    citations: Sequence[str]


def resolve_citations_request(message: search_pb.ResolveCitationsRequest) -> CitedContext:
    """Return the citations to resolve."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    run_id = b""
    if message.context_cursor:
        read, cursor = tokens.context_position, message.context_cursor
        run_id, _ = decoder.token(read, cursor, field="context_cursor", default=(b"", 0))
    else:
        decoder.add("context_cursor", "must be set")
    decoder.count("citations", message.citations, least=1, most=limits.RESOLVED_CITATIONS)
    decoder.read_mask(message.read_mask)
    decoder.finish()
    return CitedContext(scope, run_id, tuple(message.citations))


@dataclass(frozen=True, slots=True)
class ReportUse:
    """Reports to store, and the context that their citations are of; an empty *run_id* is none."""

    new: NewUseReports
    run_id: bytes


def report_use_request(message: search_pb.ReportUseRequest) -> ReportUse:
    """Return the reports to store."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    query = decoder.text("query", message.query, most=limits.QUERY)
    run_id = b""
    if message.context_cursor:
        read, cursor = tokens.context_position, message.context_cursor
        run_id, _ = decoder.token(read, cursor, field="context_cursor", default=(b"", 0))
    decoder.count("reports", message.reports, least=1, most=limits.USE_REPORTS)
    citations: dict[int, str] = {}
    reports = []
    for place, report in enumerate(message.reports[: limits.USE_REPORTS]):
        reports.append(_use_report(decoder, f"reports[{place}]", report))
        if report.WhichOneof("by") == "citation":
            citations[place] = report.citation
            if not message.context_cursor:
                decoder.add(f"reports[{place}].citation", "must be given with a context_cursor only")
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return ReportUse(NewUseReports(scope, query, tuple(reports), citations, message.context_cursor, request_id), run_id)


def _use_report(decoder: RequestDecoder, field: str, report: search_pb.UseReport) -> UseReport:
    by = report.WhichOneof("by")
    if by is None:
        decoder.add(field, "must name a memory by memory_id or citation")
    if not report.outcome:
        decoder.add(f"{field}.outcome", "must be set")
    if report.revision < 0:
        decoder.add(f"{field}.revision", "must be a revision, or 0 if it is not known")
    return UseReport(
        decoder.uuid(f"{field}.memory_id", report.memory_id) if by == "memory_id" else "",
        decoder.enum(f"{field}.outcome", report.outcome, USE_OUTCOME, UseOutcome.IGNORED),
        report.revision,
        decoder.integer(f"{field}.position", report.position, least=1, most=limits.USE_POSITION, zero="an unknown one"),
    )


@dataclass(frozen=True, slots=True)
class ListUseReports:
    """One page of reports; an empty *memory_id* and an outcome None are any."""

    scope: Scope
    outcome: UseOutcome | None
    memory_id: str
    sessions: SessionVisibility
    after: PageCursor | None
    limit: int


def list_use_reports_request(message: search_pb.ListUseReportsRequest) -> ListUseReports:
    """Return the page to list."""
    decoder = RequestDecoder()
    request = ListUseReports(
        decoder.scope(message.scope),
        decoder.enum("outcome", message.outcome, USE_OUTCOME, None),
        decoder.uuid("memory_id", message.memory_id) if message.memory_id else "",
        decoder.enum("session_visibility", message.session_visibility, SESSION_VISIBILITY, SessionVisibility.CURRENT),
        decoder.list_cursor(message),
        decoder.page_size(message.page_size),
    )
    decoder.finish()
    return request


def get_use_feedback_request(message: search_pb.GetUseFeedbackRequest) -> Scope:
    """Return the scope of the user."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.finish()
    return scope


def load_core_request(message: search_pb.LoadCoreRequest) -> LoadCore:
    """Return the core memories to load."""
    decoder = RequestDecoder()
    request = LoadCore(
        scope=decoder.scope(message.scope),
        limit=decoder.integer("limit", message.limit, least=1, most=limits.SEARCH_LIMIT, default=CORE_LIMIT),
        zone=decoder.zone("time_zone", message.time_zone),
    )
    decoder.finish()
    return request


def _limit(decoder: RequestDecoder, value: int) -> int:
    return decoder.integer("limit", value, least=1, most=limits.SEARCH_LIMIT, default=limits.SEARCH_LIMIT_DEFAULT)


def _snippet_chars(decoder: RequestDecoder, value: int) -> int:
    least, most = limits.SNIPPET_MIN, limits.SNIPPET_MAX
    return decoder.integer("snippet_chars", value, least=least, most=most, default=limits.SNIPPET_DEFAULT)


def _offset(decoder: RequestDecoder, message: search_pb.SearchRequest) -> int:
    return decoder.token(
        tokens.search_offset, message.page_token, search_digest(message), depth=limits.SEARCH_DEPTH, default=0
    )


def _mode(decoder: RequestDecoder, message: search_pb.SearchRequest) -> Mode:
    mode = decoder.enum("mode", message.mode, MODE, Mode.HYBRID)
    if message.query.strip():
        return mode
    if not (message.vector or message.keywords):
        decoder.add("query", "must be set, or vector or keywords")
    elif mode is Mode.SEMANTIC and not message.vector:
        decoder.add("query", "must be set, or vector, in SEMANTIC mode")
    elif mode is Mode.KEYWORD and not message.keywords:
        decoder.add("query", "must be set, or keywords, in KEYWORD mode")
    return mode


def _fusion(decoder: RequestDecoder, fusion: search_pb.Fusion) -> Fusion:
    """Return how to fuse: presets become weights."""
    is_chosen = fusion.preset or fusion.HasField("weights")
    default = FusionMethod.WEIGHTED if is_chosen else FusionMethod.DEFAULT
    method = decoder.enum("fusion.method", fusion.method, FUSION_METHOD, default)
    if fusion.preset and fusion.preset not in FUSION_PRESETS:
        decoder.add("fusion.preset", "must be a value of the enum")
    normalization = decoder.enum("fusion.normalization", fusion.normalization, NORMALIZATION, Normalization.MIN_MAX)
    rank_constant = decoder.integer(
        "fusion.rank_constant", fusion.rank_constant, least=1, most=limits.RANK_CONSTANT, default=DEFAULT_RANK_CONSTANT
    )
    factor = decoder.number("fusion.single_retriever_factor", fusion.single_retriever_factor, most=1.0)
    weights = _weights(decoder, fusion.weights)
    if fusion.method in FUSION_METHOD.from_proto or not fusion.method:
        _check_method(decoder, fusion, method)
    if method is FusionMethod.DEFAULT:
        return Fusion()
    weights, preset_factor = FUSION_PRESETS.get(fusion.preset, (weights, None))
    return Fusion(
        method=method,
        weights=weights,
        rank_constant=rank_constant,
        normalization=normalization,
        single_retriever_factor=factor or preset_factor,
    )


def _check_method(decoder: RequestDecoder, fusion: search_pb.Fusion, method: FusionMethod) -> None:
    if method is FusionMethod.DEFAULT:
        for descriptor, _ in fusion.ListFields():
            if descriptor.name != "method":
                decoder.add(f"fusion.{descriptor.name}", "must not be given with the method DEFAULT")
    elif fusion.preset and method is not FusionMethod.WEIGHTED:
        decoder.add("fusion.preset", "must be given with the method WEIGHTED only")
    if fusion.preset and fusion.HasField("weights"):
        decoder.add("fusion.weights", "must not be given together with a preset")


def _weights(decoder: RequestDecoder, weights: search_pb.FusionWeights) -> Mapping[Retriever, float]:
    """Return the given weights, absent ones as 0 and the largest as 1, since only their ratios count."""
    given = {descriptor.name: value for descriptor, value in weights.ListFields()}
    if not given:
        return EQUAL_WEIGHTS
    for name, value in given.items():
        decoder.number(f"fusion.weights.{name}", value)
    if not any(given.values()):
        decoder.add("fusion.weights", "must not all be 0")
    largest = max(weights.dense, weights.bm25, weights.keyword_table) or 1.0
    return {
        Retriever.DENSE: weights.dense / largest,
        Retriever.BM25: weights.bm25 / largest,
        Retriever.KEYWORD_TABLE: weights.keyword_table / largest,
    }


def _weighting(decoder: RequestDecoder, weighting: search_pb.Weighting) -> TimeWeighting | None:
    if weighting.disabled:
        return None
    default = _DEFAULT_WEIGHTING
    decay = decoder.number("weighting.decay_factor", weighting.decay_factor, most=1.0)
    long_term = decoder.number("weighting.long_term_boost", weighting.long_term_boost, most=BOOST_MAX)
    core = decoder.number("weighting.core_boost", weighting.core_boost, most=BOOST_MAX)
    if weighting.preset and weighting.preset not in WEIGHTING_PRESETS:
        decoder.add("weighting.preset", "must be a value of the enum")
    boost = WEIGHTING_PRESETS.get(weighting.preset, 1.0)
    return TimeWeighting(
        decay_factor=decay or default.decay_factor, long_term_boost=long_term or boost, core_boost=core or boost
    )


def _refinement(decoder: RequestDecoder, message: search_pb.SearchRequest) -> Refinement:
    depth, threshold, mmr_lambda = 0, None, None
    if message.HasField("diversity"):
        mmr_lambda = decoder.number("diversity.mmr_lambda", message.diversity.mmr_lambda, most=1.0) or MMR_LAMBDA
    if message.HasField("collapsing"):
        given = decoder.number("collapsing.threshold", message.collapsing.threshold, most=1.0)
        threshold = given or COLLAPSE_THRESHOLD
    if message.HasField("reranking"):
        depth = decoder.integer(
            "reranking.depth", message.reranking.depth, least=1, most=limits.RERANK_DEPTH, default=RERANK_DEPTH
        )
        if not (message.query.strip() or message.keywords):
            decoder.add("reranking", "needs a query or keywords to read the hits with")
    return Refinement(rerank_depth=depth, collapse_threshold=threshold, mmr_lambda=mmr_lambda)


def _context_query(
    decoder: RequestDecoder,
    message: search_pb.BuildContextRequest | search_pb.RenderContextRequest,
    defaults: ContextDefaults,
    *,
    now: datetime,
    dimension: int,
) -> ContextQuery:
    """Return a context with all its defaults filled in."""
    scope = decoder.scope(message.scope)
    text = decoder.text("query", message.query, most=limits.QUERY)
    vector = decoder.vector(message, dimension)
    options = message.options
    total_tokens = options.total_tokens if options.HasField("total_tokens") else defaults.total_tokens
    if options.HasField("total_tokens") and not 1 <= total_tokens <= limits.CONTEXT_TOKENS:
        decoder.add("options.total_tokens", f"must be 1 to {limits.CONTEXT_TOKENS}, or absent for the default")
    shares = _shares(decoder, options.shares) if options.HasField("shares") else defaults.shares
    sections = decoder.enums("options.sections", options.sections, SECTION.from_proto, count=limits.CONTEXT_SECTIONS)
    as_of = decode_as_of(decoder, options.as_of, now, field="options.as_of")
    query = ContextQuery(
        scope=scope,
        text=text if text.strip() else "",
        vector=vector,
        total_tokens=total_tokens,
        shares=shares,
        sections=frozenset(sections) or defaults.sections,
        selection=decode_selection(
            decoder, options.filter, now=now, as_of=as_of, field="options.filter", with_archived=True
        ),
        relevant_limit=decoder.integer(
            "options.relevant_limit",
            options.relevant_limit,
            least=1,
            most=limits.SEARCH_LIMIT,
            default=RELEVANT_LIMIT,
        ),
        min_score=decoder.number("options.min_score", options.min_score, most=1.0),
        locale=_locale(decoder, options.locale, defaults.locale),
        zone=decoder.zone("options.time_zone", options.time_zone) or ZoneInfo("UTC"),
        position=decoder.position(message.consistency_token),
        earlier=decoder.token(tokens.context_position, message.earlier_cursor, field="earlier_cursor", default=None)
        if message.earlier_cursor
        else None,
        as_of=as_of,
        in_force=None if as_of is None else default_conditions(now, as_of),
        citation_style=decoder.enum(
            "options.citation_style", options.citation_style, CITATION_STYLE, CitationStyle.HANDLE
        ),
        first_handle=decoder.integer(
            "options.first_handle", options.first_handle, least=1, most=limits.FIRST_HANDLE, default=1
        ),
        use_feedback=options.use_feedback if options.HasField("use_feedback") else defaults.use_feedback,
    )
    decoder.finish()
    return query


def _shares(decoder: RequestDecoder, shares: search_pb.ContextShares) -> SectionShares:
    values = {name: getattr(shares, name) for name in ("core", "session", "short_term", "long_term")}
    for name, value in values.items():
        decoder.number(f"options.shares.{name}", value, most=1.0)
    total = sum(values.values())
    if all(0.0 <= value <= 1.0 for value in values.values()) and abs(total - 1.0) > SHARES_TOLERANCE:
        decoder.add("options.shares", f"must sum to 1, not {total:g}")
    return SectionShares(**values)


def _locale(decoder: RequestDecoder, locale: str, default: Locale) -> Locale:
    """Return the locale of a language tag such as "zh-CN"."""
    if not locale:
        return default
    language = locale.replace("_", "-").partition("-")[0].lower()
    if len(locale) > limits.LOCALE or language not in set(Locale):
        decoder.add("options.locale", "must be 'en' or 'zh', with or without a region, or empty")
        return default
    return Locale(language)
