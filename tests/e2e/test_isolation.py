"""Nobody reads, lists, finds, counts or changes what is not theirs: every RPC, from many places beside the owner's."""

from __future__ import annotations

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation import file_refs, files, lifecycle, memories, searches, sessions, vault
from tests.e2e.isolation.fixtures import PLACES, USER, Owner, Stranger, places
from tests.e2e.isolation.registry import CASES, OK
from tests.support.descriptors import METHODS
from tests.support.rpc import TIMEOUT, Refusal, at_rest, create
from tests.support.server_process import Stubs


@pytest.fixture(scope="module")
def owner(stubs: Stubs) -> Owner:
    """An owner who has moved in."""
    owner = Owner(stubs, USER)
    owner.move_in()
    return owner


def test_every_method_has_a_case() -> None:
    """A new RPC must say here what it does to strangers."""
    told = {made.__module__ for made in CASES.values()}
    assert told == {module.__name__ for module in (file_refs, files, lifecycle, memories, searches, sessions, vault)}
    assert METHODS.keys() == CASES.keys()


@pytest.mark.parametrize("method", CASES)
@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_strangers_learn_and_change_nothing(
    stubs: Stubs, stubs_over_http: Stubs, owner: Owner, method: str, transport: str
) -> None:
    """From every place the codes are those of things that do not exist, no reply holds a word or an id, all stays."""
    for scope, hidden in PLACES.values():
        _intrude(stubs if transport == "grpc" else stubs_over_http, Stranger(owner, scope, hidden), method)

    before, owner.known = owner.known, owner.seen()
    assert before == owner.known


def _intrude(stubs: Stubs, stranger: Stranger, method: str) -> None:
    """Send a stranger's requests of a method and check the replies."""
    secrets = [f"secret{name}".encode() for name in stranger.hidden]
    asked_by_id = method == "BatchGetMemories"
    for requests, code in CASES[method](stranger):
        try:
            responses = METHODS[method].responses(stubs, *requests, timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert code == error.code(), (requests, Refusal.from_error(error))
            continue
        assert OK == code, requests
        told = b"".join(response.SerializeToString() for response in responses)
        assert not any(secret in told for secret in secrets), requests
        assert asked_by_id or not any(memory_id.encode() in told for memory_id in stranger.ids), requests
    if asked_by_id:
        assert ([], stranger.ids) == (list(responses[0].memories), list(responses[0].missing_ids))


def test_strangers_count_their_own_only(stubs: Stubs, owner: Owner) -> None:
    """Another user has zeros; another project counts the global memories; sessions share the counts."""

    def counted(scope: types_pb.Scope) -> tuple[int, int, int, int]:
        stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
        return stats.memory_count, stats.chunk_count, stats.vector_count, stats.lexical_count

    user = f"{USER}-counts"
    before = {name: counted(scope) for name, (scope, _) in places(user).items()}
    assert (0, 0, 0, 0) == before["longer"]
    fresh = Owner(stubs, user)
    fresh.move_in()
    create(stubs, fresh.home, "The last one.")
    # The import is only STORED.
    at_rest(stubs)

    for name, (scope, hidden) in places(user).items():
        more = 0 if "world" in hidden else 1 if "project" in hidden else 11
        assert tuple(count + more for count in before[name]) == counted(scope), name


@pytest.mark.parametrize("session", ["s2", ""])
def test_the_words_of_a_private_line_do_not_lead_to_the_next_one(
    stubs: Stubs, scope: types_pb.Scope, session: str
) -> None:
    """A memory is found by the line before it in its session, but not by one that is private there."""
    talk = types_pb.Scope(user_id=scope.user_id, session_id="s")
    create(stubs, talk, "The password is mugwumpery.", layer=types_pb.MEMORY_LAYER_SESSION)
    create(stubs, talk, "Good, let us have lunch.")
    create(stubs, talk, "With asparagus.", layer=types_pb.MEMORY_LAYER_SESSION)
    outside = types_pb.Scope(user_id=scope.user_id, session_id=session)

    def found(place: types_pb.Scope, query: str) -> list[str]:
        request = search_pb.SearchRequest(scope=place, query=query, mode=search_pb.SEARCH_MODE_KEYWORD)
        return [hit.memory.content for hit in stubs.search.Search(request, timeout=TIMEOUT).hits]

    assert [] == found(outside, "mugwumpery")
    assert ["The password is mugwumpery."] == found(talk, "mugwumpery")
    assert ["Good, let us have lunch.", "With asparagus."] == found(talk, "lunch")
    assert ["Good, let us have lunch."] == found(outside, "lunch")
