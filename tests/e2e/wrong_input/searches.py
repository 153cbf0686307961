"""What is wrong with searches, contexts, sessions and promotions, and how it is named."""

from __future__ import annotations

from typing import Any

from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.requests import ID, INFINITY, LATE, NAN, deep, numbers, span

DENSE_ALONE = search_pb.Fusion(weights=search_pb.FusionWeights(dense=1))
"""Weights with which a search that compares no vectors has no retriever."""
SEARCHES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"query": ""}, ("query",)),
    ({"query": " \n　"}, ("query",)),
    ({"query": "x" * 8_193}, ("query",)),
    ({"query": "a\x00"}, ("query",)),
    ({"query": "", "keywords": ["a"], "mode": search_pb.SEARCH_MODE_SEMANTIC}, ("query",)),
    ({"query": "", "vector": [1.0] * 256, "mode": search_pb.SEARCH_MODE_KEYWORD}, ("query",)),
    ({"vector": [1.0] * 255}, ("vector",)),
    ({"vector": [NAN] * 256}, ("vector",)),
    ({"vector": [0.0] * 256}, ("vector",)),
    ({"vector": [INFINITY, *[1.0] * 255]}, ("vector",)),
    ({"keywords": ["a"] * 33}, ("keywords",)),
    ({"keywords": ["", "x" * 65]}, ("keywords[0]", "keywords[1]")),
    ({"mode": 4}, ("mode",)),
    ({"word_match": 4}, ("word_match",)),
    ({"min_score": 1.1}, ("min_score",)),
    ({"min_score": -0.1}, ("min_score",)),
    ({"min_score": NAN}, ("min_score",)),
    ({"limit": 101}, ("limit",)),
    ({"limit": -1}, ("limit",)),
    ({"snippet_chars": 39}, ("snippet_chars",)),
    ({"snippet_chars": 2_001}, ("snippet_chars",)),
    ({"page_token": "x"}, ("page_token",)),
    ({"page_token": "é" * 9_000}, ("page_token",)),
    ({"consistency_token": "x"}, ("consistency_token",)),
    ({"time_range": span(5, 4)}, ("time_range.end",)),
    ({"fusion": search_pb.Fusion(method=9)}, ("fusion.method",)),  # type: ignore[arg-type] # no value of the enum
    ({"fusion": search_pb.Fusion(preset=9)}, ("fusion.preset",)),  # type: ignore[arg-type] # as above
    ({"fusion": search_pb.Fusion(method=2, normalization=9)}, ("fusion.normalization",)),  # type: ignore[arg-type]
    ({"fusion": search_pb.Fusion(method=2, rank_constant=10_001)}, ("fusion.rank_constant",)),
    ({"fusion": search_pb.Fusion(method=3, single_retriever_factor=1.5)}, ("fusion.single_retriever_factor",)),
    ({"fusion": search_pb.Fusion(method=1, rank_constant=5)}, ("fusion.rank_constant",)),
    ({"fusion": search_pb.Fusion(method=2, preset=1)}, ("fusion.preset",)),
    ({"fusion": search_pb.Fusion(preset=1, weights=search_pb.FusionWeights(dense=1))}, ("fusion.weights",)),
    ({"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(dense=0, bm25=0))}, ("fusion.weights",)),
    ({"fusion": DENSE_ALONE, "mode": search_pb.SEARCH_MODE_KEYWORD}, ("fusion.weights",)),
    ({"fusion": DENSE_ALONE, "query": "", "keywords": ["tea"]}, ("fusion.weights",)),
    ({"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(dense=-1, bm25=NAN))}, (
        "fusion.weights.bm25", "fusion.weights.dense",
    )),
    ({"diversity": search_pb.Diversity(mmr_lambda=1.1)}, ("diversity.mmr_lambda",)),
    ({"collapsing": search_pb.Collapsing(threshold=NAN)}, ("collapsing.threshold",)),
    ({"reranking": search_pb.Reranking(depth=51)}, ("reranking.depth",)),
    ({"query": "", "vector": [1.0] * 256, "reranking": search_pb.Reranking()}, ("reranking",)),
    ({"weighting": search_pb.Weighting(decay_factor=1.5)}, ("weighting.decay_factor",)),
    ({"weighting": search_pb.Weighting(preset=2)}, ("weighting.preset",)),  # type: ignore[arg-type]
    ({"weighting": search_pb.Weighting(core_boost=2.1, long_term_boost=NAN)}, (
        "weighting.core_boost", "weighting.long_term_boost",
    )),
]  # fmt: skip

Report, USED, WRONG = search_pb.UseReport, search_pb.USE_OUTCOME_USED, search_pb.USE_OUTCOME_WRONG

USE_REPORTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"reports": []}, ("reports",)),
    ({"reports": [Report(memory_id=f"{ID[:-3]}{n:03}", outcome=USED) for n in range(101)]}, ("reports",)),
    ({"reports": [Report(outcome=USED), Report(memory_id=ID)]}, ("reports[0]", "reports[1].outcome")),
    ({"reports": [Report(memory_id="x", outcome=USED), Report(memory_id=ID, outcome=4)]}, (  # type: ignore[arg-type]
        "reports[0].memory_id", "reports[1].outcome",
    )),
    ({"reports": [Report(memory_id=ID, outcome=USED), Report(memory_id=ID.upper(), outcome=WRONG)]}, (
        "reports[1].memory_id",
    )),
    ({"reports": [Report(memory_id=ID, outcome=USED, position=-1, revision=-1)]}, (
        "reports[0].position", "reports[0].revision",
    )),
    ({"reports": [Report(memory_id=ID, outcome=USED, position=1_001)]}, ("reports[0].position",)),
    ({"reports": [Report(citation="m1", outcome=USED)]}, ("reports[0].citation",)),
    ({"context_cursor": "x"}, ("context_cursor",)),
    ({"context_cursor": "BgAAAAAAAAAAAAAAAAAAAAA"}, ("context_cursor",)),
    ({"query": "x" * 8_193, "request_id": "x" * 129}, ("query", "request_id")),
    ({"query": "a\x00"}, ("query",)),
]  # fmt: skip

USE_LISTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"outcome": 4, "memory_id": "x", "session_visibility": 9}, ("memory_id", "outcome", "session_visibility")),
    ({"page_size": 1_001}, ("page_size",)),
    ({"page_token": "x"}, ("page_token",)),
]

PROMOTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"id": "1"}, ("id",)),
    ({"content": " \n", "title": "x" * 513}, ("content", "title")),
    ({"content": "a\x00", "expected_revision": -1}, ("content", "expected_revision")),
    ({"request_id": "x" * 129, "wait_for": 9}, ("request_id", "wait_for")),
]

Said = types_pb.ChatMessage

Call = types_pb.ToolCall

MESSAGES: list[tuple[types_pb.ChatMessage, tuple[str, ...]]] = [
    (Said(content="x"), ("messages[0].role",)),
    (Said(role=5, content="x"), ("messages[0].role",)),
    (Said(role=-1, content="x"), ("messages[0].role",)),
    (Said(role=2), ("messages[0].content",)),
    (Said(role=2, content="x" * 100_001), ("messages[0].content",)),
    (Said(role=2, content="a\x00b"), ("messages[0].content",)),
    (Said(role=2, content="x", speaker="x" * 129), ("messages[0].speaker",)),
    (Said(role=2, content="x", speaker="\n"), ("messages[0].speaker",)),
    (Said(role=2, content="x", token_count=-1), ("messages[0].token_count",)),
    (Said(role=2, content="x", token_count=10_000_001), ("messages[0].token_count",)),
    (Said(role=2, content="x", event_time=LATE), ("messages[0].event_time",)),
    (Said(role=2, content="x", metadata=deep(9)), ("messages[0].metadata",)),
    (Said(role=2, content="x", tool_calls=[Call(name="f")]), ("messages[0].tool_calls",)),
    (Said(role=3, tool_calls=[Call(name="f")] * 65), ("messages[0].tool_calls",)),
    (Said(role=3, tool_calls=[Call(), Call(name="f", id="\x00")]), (
        "messages[0].tool_calls[0].name", "messages[0].tool_calls[1].id",
    )),
    (Said(role=3, tool_calls=[Call(name="f", arguments=numbers(NAN))]), ("messages[0].tool_calls[0].arguments",)),
    (Said(role=2, content="x", tool_call_id="c"), ("messages[0].tool_call_id",)),
    (Said(role=4, content="x", tool_call_id="c" * 129), ("messages[0].tool_call_id",)),
]  # fmt: skip

SESSIONS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("CreateSession", {"title": "x" * 513}, ("title",)),
    ("CreateSession", {"token_limit": 99}, ("token_limit",)),
    ("CreateSession", {"token_limit": -1}, ("token_limit",)),
    ("CreateSession", {"token_limit": 10_000_001}, ("token_limit",)),
    ("CreateSession", {"auto_trim": 3, "on_open": -1}, ("auto_trim", "on_open")),
    ("CreateSession", {"metadata": deep(9), "request_id": "x" * 129}, ("metadata", "request_id")),
    ("AppendMessages", {"messages": []}, ("messages",)),
    ("AppendMessages", {"messages": [Said(role=2, content="x")] * 101}, ("messages",)),
    ("AppendMessages", {"wait_for": 3, "request_id": "x" * 129}, ("request_id", "wait_for")),
    ("ListSessions", {"states": [0, 9]}, ("states[0]", "states[1]")),
    ("ListSessions", {"page_size": 1_001}, ("page_size",)),
    ("ListSessions", {"page_token": "x"}, ("page_token",)),
    ("ListMessages", {"page_size": -1}, ("page_size",)),
    ("ListMessages", {"page_token": "AQAAAAAAAAAE"}, ("page_token",)),
    ("TrimSession", {"target_tokens": -1, "keep_rounds": 101}, ("keep_rounds", "target_tokens")),
    ("TrimSession", {"wait_for": 3, "request_id": "x" * 129}, ("request_id", "wait_for")),
    ("CloseSession", {"request_id": "x" * 129}, ("request_id",)),
    ("ReopenSession", {"on_open": 3}, ("on_open",)),
]

NAMED_SESSIONS = (
    "AppendMessages",
    "PopMessages",
    "ClearMessages",
    "GetSession",
    "ListMessages",
    "TrimSession",
    "CloseSession",
    "ReopenSession",
)

Options, Shares = search_pb.ContextOptions, search_pb.ContextShares

CONTEXTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"query": "x" * 8_193}, ("query",)),
    ({"query": "a\x00"}, ("query",)),
    ({"vector": [1.0] * 255}, ("vector",)),
    ({"consistency_token": "x"}, ("consistency_token",)),
    ({"earlier_cursor": "x"}, ("earlier_cursor",)),
    ({"earlier_cursor": "BgAAAAAAAAAAAAAAAAAAAAA"}, ("earlier_cursor",)),
    ({"options": Options(total_tokens=0)}, ("options.total_tokens",)),
    ({"options": Options(total_tokens=-1)}, ("options.total_tokens",)),
    ({"options": Options(total_tokens=10_000_001)}, ("options.total_tokens",)),
    ({"options": Options(shares=Shares())}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=0.5, session=0.6))}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=0.1, session=0.5, short_term=0.2, long_term=0.1))}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=NAN, session=-1, short_term=2, long_term=INFINITY))}, (
        "options.shares.core", "options.shares.long_term", "options.shares.session", "options.shares.short_term",
    )),
    ({"options": Options(sections=[1, 0, 9])}, ("options.sections[1]", "options.sections[2]")),  # type: ignore[list-item]
    ({"options": Options(sections=[1] * 65)}, ("options.sections",)),
    ({"options": Options(relevant_limit=101)}, ("options.relevant_limit",)),
    ({"options": Options(min_score=1.5)}, ("options.min_score",)),
    ({"options": Options(locale="fr")}, ("options.locale",)),
    ({"options": Options(locale="en" * 20)}, ("options.locale",)),
    ({"options": Options(time_zone="Mars/Olympus")}, ("options.time_zone",)),
    ({"options": Options(time_zone="../../etc/passwd")}, ("options.time_zone",)),
    ({"options": Options(time_zone="x\x00")}, ("options.time_zone",)),
]  # fmt: skip
