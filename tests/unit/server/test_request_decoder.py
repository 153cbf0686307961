"""Collecting violations, and authorising scopes, while a request is decoded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, PermissionDeniedError
from memsvc.server import call_context
from memsvc.server.requests.admin import set_quota_request
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.memory import batch_memory, list_memories_request
from memsvc.server.requests.search import search_request
from memsvc.testing.factories import NOW
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

ADA = types_pb.Scope(user_id="ada", project_id="p")
FOREIGN = "no token of this service"


@pytest.fixture
def audited() -> Iterator[call_context.AuditScope]:
    """Audit the scopes of a caller whose key is limited to a user and a project."""
    principal = call_context.Principal("acme", "k", user_ids=frozenset({"ada"}), project_ids=frozenset({"p"}))
    scope = call_context.AuditScope()
    tokens = call_context.principal.set(principal), call_context.audit_scope.set(scope)
    yield scope
    call_context.principal.reset(tokens[0])
    call_context.audit_scope.reset(tokens[1])


def violations(decode: Callable[[], object]) -> list[str]:
    """Return the paths of all violations."""
    with pytest.raises(InvalidRequestError) as caught:
        decode()
    return [violation.field for violation in caught.value.violations]


def test_tokens_and_moments_are_reported_with_the_other_violations() -> None:
    """A client learns everything at once, and not one violation a call."""
    request = search_pb.SearchRequest(scope=ADA, limit=999, page_token=FOREIGN, consistency_token=FOREIGN)
    request.as_of.known_time.seconds = 99_999_999_999

    paths = violations(lambda: search_request(request, now=NOW, dimension=2))

    assert paths == ["query", "as_of.known_time", "limit", "page_token", "consistency_token"]


def test_bounds_say_what_zero_means() -> None:
    """No limit of a quota and no bound of a filter is a default; numbers are not rounded."""
    quota = admin_pb.Quota(tenant_id="t", memory_count=-1, calls_per_second=2_000_000)
    request = search_pb.SearchRequest(scope=ADA, query="q", filter=filters_pb.Filter(last_days=-1, min_importance=9))
    with pytest.raises(InvalidRequestError) as of_quota:
        set_quota_request(admin_pb.SetQuotaRequest(quota=quota))
    with pytest.raises(InvalidRequestError) as of_search:
        search_request(request, now=NOW, dimension=2)

    assert {
        "must be a finite number from 0 to 1000000", "must be 1 to 1000000000000000, or 0 for no limit",
    } == {one.description for one in of_quota.value.violations}  # fmt: skip
    assert {
        "must be 1 to 36500, or 0 for any time", "must be 1 to 5, or 0 for no bound",
    } == {one.description for one in of_search.value.violations}  # fmt: skip


def test_a_message_within_a_request_has_its_path_in_front() -> None:
    """Tokens are no exception."""
    request = search_pb.SearchRequest(scope=ADA, query="q", limit=999, consistency_token=FOREIGN)

    paths = violations(lambda: search_request(request, now=NOW, dimension=2, prefix="search."))

    assert paths == ["search.limit", "search.consistency_token"]


def test_a_wrong_request_is_refused_before_its_scope(audited: call_context.AuditScope) -> None:
    """An unauthorised scope is reported, and audited, once the request is valid."""
    request = memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id="eve"), page_size=-1)

    assert violations(lambda: list_memories_request(request, now=NOW)) == ["page_size"]
    assert not audited.users
    request.page_size = 1
    with pytest.raises(PermissionDeniedError, match="'k' is not authorised for the user_id 'eve'"):
        list_memories_request(request, now=NOW)
    assert list(audited.users) == ["eve"]


@pytest.mark.parametrize("project_id", ["", "other"])
def test_a_key_for_some_projects_is_refused_for_all_others(audited: call_context.AuditScope, project_id: str) -> None:
    """The global scope, which has no project, is one of the others."""
    decoder = RequestDecoder()
    decoder.scope(types_pb.Scope(user_id="ada", project_id=project_id))

    with pytest.raises(PermissionDeniedError, match="project_id"):
        decoder.finish()
    assert list(audited.projects) == [project_id]


@pytest.mark.usefixtures("audited")
def test_a_scope_is_within_the_tenant_of_the_key() -> None:
    """No request can name another tenant."""
    decoder = RequestDecoder()

    scope = decoder.scope(ADA)

    decoder.finish()
    assert (scope.tenant_id, scope.user_id, scope.project_id) == ("acme", "ada", "p")


@pytest.mark.usefixtures("audited")
def test_the_project_of_one_memory_of_a_batch_is_authorised() -> None:
    """It refuses the batch: the caller did not just make a mistake in an item."""
    entry = memory_pb.BatchMemory(memory=types_pb.Memory(content="x", scope=types_pb.Scope(project_id="other")))

    with pytest.raises(PermissionDeniedError, match="'other'"):
        batch_memory(entry, ADA, dimension=2)


def test_huge_metadata_are_refused_before_they_are_walked() -> None:
    """A request holds millions of values, and nobody else's call should wait until each was looked at."""
    huge = Struct(fields={"a": Value(list_value=ListValue(values=[Value(number_value=1.0)] * 100_000))})
    decoder = RequestDecoder()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        members = decoder.metadata("memory.metadata", huge)
    finally:
        sys.setprofile(None)

    assert members == {}
    assert violations(decoder.finish) == ["memory.metadata"]
    assert calls < 100


def test_the_largest_metadata_pass_whatever_they_hold() -> None:
    """Numbers of one digit take the most bytes on the wire for their text."""
    most = (limits.METADATA_BYTES - len('{"a":[]}') + 1) // 2
    full = Struct(fields={"a": Value(list_value=ListValue(values=[Value(number_value=1.0)] * most))})
    decoder = RequestDecoder()

    assert len(json.dumps(decoder.metadata("m", full), separators=(",", ":"))) > limits.METADATA_BYTES - 2
    decoder.finish()
