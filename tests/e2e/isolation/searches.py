"""What the methods of SearchService do to strangers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb
from tests.e2e.isolation.fixtures import EVERY, USER, WORD, Stranger
from tests.e2e.isolation.registry import INVALID, NOT_FOUND, OK, case
from tests.e2e.isolation.sessions import sessions_from
from tests.support.rpc import MODES


def searches(stranger: Stranger) -> Iterator[search_pb.SearchRequest]:
    """Return searches that would find the owner's memories first."""
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for mode in MODES:
        for chosen in (
            filters_pb.Filter(),
            filters_pb.Filter.FromString(EVERY.SerializeToString()),
            filters_pb.Filter(ids=stranger.ids),
            filters_pb.Filter(session_ids=["s"]),
        ):
            chosen.session_visibility = filters_pb.SESSION_VISIBILITY_ALL if sessions_from(stranger) else 0
            yield search_pb.SearchRequest(
                scope=stranger.scope, query=words, keywords=words.split(), mode=mode, filter=chosen, limit=100,
                explain=True, consistency_token=stranger.owner.tokens["consistency"],
            )  # fmt: skip
    yield search_pb.SearchRequest(scope=stranger.scope, query=words, filter=EVERY, as_of=stranger.owner.moved_in)


@case
def Search(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no mode, by no filter, and not by the owner's token."""
    for request in searches(stranger):
        yield [request], OK
    token = stranger.owner.tokens["search"]
    yield [search_pb.SearchRequest(scope=stranger.scope, query=WORD, page_token=token)], INVALID


@case
def BatchSearch(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As for one."""
    yield [search_pb.BatchSearchRequest(searches=searches(stranger))], OK


@case
def StreamSearch(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Search, in both answers."""
    for request in searches(stranger):
        yield [search_pb.StreamSearchRequest(search=request)], OK
    token = stranger.owner.tokens["search"]
    search = search_pb.SearchRequest(scope=stranger.scope, query=WORD, page_token=token)
    yield [search_pb.StreamSearchRequest(search=search)], INVALID


def contexts(stranger: Stranger) -> Iterator[dict[str, Any]]:
    """Return contexts that would hold the owner's memories."""
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for chosen in (
        filters_pb.Filter(),
        EVERY,
        filters_pb.Filter(ids=stranger.ids),
        filters_pb.Filter(session_ids=["s"]),
    ):
        # What was said in other sessions of the same project is no secret to a context.
        is_home = (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p")
        options = search_pb.ContextOptions(filter=chosen, sections=ALL_BUT_EVIDENCE if is_home else ())
        yield {
            "scope": stranger.scope, "query": words, "options": options,
            "consistency_token": stranger.owner.tokens["consistency"],
        }  # fmt: skip


ALL_BUT_EVIDENCE = [
    value for value in search_pb.ContextSection.values() if value not in {0, search_pb.CONTEXT_SECTION_EVIDENCE}
]


@case
def BuildContext(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no section; the owner's context can neither be resumed nor compared with."""
    for fields in contexts(stranger):
        yield [search_pb.BuildContextRequest(**fields)], OK
    theirs = stranger.owner.tokens["context"]
    yield [search_pb.BuildContextRequest(scope=stranger.scope, cursor=theirs)], INVALID
    yield [search_pb.BuildContextRequest(scope=stranger.scope, query=WORD, earlier_cursor=theirs)], INVALID


@case
def RenderContext(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As BuildContext."""
    for fields in contexts(stranger):
        yield [search_pb.RenderContextRequest(**fields)], OK
    theirs = stranger.owner.tokens["context"]
    yield [search_pb.RenderContextRequest(scope=stranger.scope, query=WORD, earlier_cursor=theirs)], INVALID


@case
def ResolveCitations(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's context has no citations for others."""
    theirs = stranger.owner.tokens["context"]
    yield [search_pb.ResolveCitationsRequest(scope=stranger.scope, context_cursor=theirs, citations=["m1"])], INVALID


@case
def ReportUse(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger is missing, and nothing is counted; the owner's context cites nothing."""
    wrong = search_pb.USE_OUTCOME_WRONG
    reports = [search_pb.UseReport(memory_id=memory_id, outcome=wrong) for memory_id in stranger.ids]
    yield [search_pb.ReportUseRequest(scope=stranger.scope, query=WORD, reports=reports)], OK
    cited = [search_pb.UseReport(citation="m1", outcome=wrong)]
    theirs = stranger.owner.tokens["context"]
    request = search_pb.ReportUseRequest(scope=stranger.scope, context_cursor=theirs, reports=cited)
    yield [request], INVALID


@case
def ListUseReports(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's reports, their queries and the memories that they are about are no one else's."""
    for outcome in (0, search_pb.USE_OUTCOME_USED):
        yield [search_pb.ListUseReportsRequest(scope=stranger.scope, outcome=outcome)], OK
    for memory_id in stranger.ids:
        yield [search_pb.ListUseReportsRequest(scope=stranger.scope, memory_id=memory_id)], NOT_FOUND
    token = stranger.owner.tokens["uses"]
    yield [search_pb.ListUseReportsRequest(scope=stranger.scope, page_token=token, page_size=1)], INVALID
    if stranger.scope.user_id != stranger.owner.user:
        every = filters_pb.SESSION_VISIBILITY_ALL
        yield [search_pb.ListUseReportsRequest(scope=stranger.scope, session_visibility=every)], OK


@case
def GetUseFeedback(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Numbers of the stranger's own user."""
    yield [search_pb.GetUseFeedbackRequest(scope=stranger.scope)], OK


@case
def LoadCore(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Core and active memories, preferences and reminders are the owner's own."""
    yield [search_pb.LoadCoreRequest(scope=stranger.scope)], OK
