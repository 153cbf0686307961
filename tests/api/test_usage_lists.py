"""Users, projects, agents and scopes over the wire: distinct, counted, in order, page by page."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, refused
from tests.support.server_process import Stubs
from tests.support.sessions import append, open_session, say

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PLACES = (("", "", ""), ("", "bot", ""), ("", "bot", "s1"), ("web", "", "s1"), ("web", "助手", ""), ("网", "bot", ""))
"""Project, agent and session of the test's memories, in order."""


@pytest.fixture
def users() -> list[str]:
    """Give users with the same beginning, in order, that no other test has."""
    beginning = f"u{uuid.uuid4().hex}-"
    return [f"{beginning}{name}" for name in ("ada", "adam", "bob", "王")]


def fill(stubs: Stubs, user: str, places: Sequence[tuple[str, str, str]] = PLACES) -> None:
    """Write as many memories at each place as its number in the list."""
    for number, (project, agent, session) in enumerate(places, 1):
        scope = types_pb.Scope(user_id=user, project_id=project, agent_id=agent, session_id=session)
        for copy in range(number):
            create(stubs, scope, f"The lamp {number} of room {copy} is on. 第{copy}盏灯。")


def users_of(stubs: Stubs, prefix: str, size: int = 0) -> list[admin_pb.UserUsage]:
    """Return all users whose ids begin so, in pages of a size."""
    found: list[admin_pb.UserUsage] = []
    request = admin_pb.ListUsersRequest(id_prefix=prefix, page_size=size)
    while True:
        page = stubs.admin.ListUsers(request, timeout=TIMEOUT)
        found += page.users
        if not page.next_page_token:
            return found
        assert len(page.users) == size or not size
        request.page_token = page.next_page_token


def scopes_of(stubs: Stubs, user: str, **fields: Any) -> list[memory_pb.ScopeUsage]:
    """Return all scopes of a user, page by page."""
    found: list[memory_pb.ScopeUsage] = []
    request = memory_pb.ListScopesRequest(user_id=user, **fields)
    while True:
        page = stubs.memory.ListScopes(request, timeout=TIMEOUT)
        found += page.scopes
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


@pytest.mark.parametrize("size", [1, 3, 0])
def test_users_are_listed_once_in_order(stubs: Stubs, users: list[str], size: int) -> None:
    """With the number of their memories and the time of the last write; a prefix is compared by whole characters."""
    for number, user in enumerate(reversed(users), 1):
        fill(stubs, user, PLACES[:number])
    beginning = users[0].removesuffix("ada")

    listed = users_of(stubs, beginning, size)

    assert [one.user_id for one in listed] == users
    assert [one.usage.memory_count for one in listed] == [10, 6, 3, 1]
    assert [dict(one.usage.count_by_status) for one in listed] == [{"ACTIVE": count} for count in (10, 6, 3, 1)]
    assert [one.user_id for one in users_of(stubs, f"{beginning}ada", size)] == users[:2]
    assert [one.user_id for one in users_of(stubs, f"{beginning}王", size)] == users[3:]
    assert users_of(stubs, f"{beginning}x", size) == []


def test_usage_follows_changes(stubs: Stubs, user: str, scope: types_pb.Scope) -> None:
    """A deletion counts under its status, and is the last write; a purge leaves nothing."""
    kept, gone = create(stubs, scope, "Kept for long."), create(stubs, scope, "Soon gone.")
    deleted = stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=gone.id), timeout=TIMEOUT).memory

    [one] = users_of(stubs, user)
    assert (one.usage.memory_count, dict(one.usage.count_by_status)) == (1, {"ACTIVE": 1, "DELETED": 1})
    assert one.usage.last_write_time.ToDatetime(UTC) == deleted.update_time.ToDatetime(UTC)

    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=kept.id), timeout=TIMEOUT)
    [one] = users_of(stubs, user)
    assert (one.usage.memory_count, dict(one.usage.count_by_status)) == (0, {"DELETED": 2})
    assert scopes_of(stubs, user) == []

    for memory in (kept, gone):
        purge = memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, purge=True)
        stubs.memory.DeleteMemory(purge, timeout=TIMEOUT)
    assert users_of(stubs, user) == []


def test_projects_and_agents_of_a_user(stubs: Stubs, users: list[str]) -> None:
    """Counted in their places; another user's are not among them."""
    fill(stubs, users[0])
    fill(stubs, users[1], [("other", "stranger", "")])

    projects = stubs.admin.ListProjects(admin_pb.ListProjectsRequest(user_id=users[0]), timeout=TIMEOUT).projects
    agents = stubs.admin.ListAgents(admin_pb.ListAgentsRequest(user_id=users[0]), timeout=TIMEOUT).agents
    web = admin_pb.ListAgentsRequest(user_id=users[0], project_id="web")
    bots = admin_pb.ListAgentsRequest(user_id=users[0], id_prefix="bo")

    assert [(one.project_id, one.usage.memory_count) for one in projects] == [("", 6), ("web", 9), ("网", 6)]
    assert [(one.project_id, one.agent_id, one.usage.memory_count) for one in agents] == [
        ("", "", 1), ("", "bot", 5), ("web", "", 4), ("web", "助手", 5), ("网", "bot", 6),
    ]  # fmt: skip
    assert [one.agent_id for one in stubs.admin.ListAgents(web, timeout=TIMEOUT).agents] == ["", "助手"]
    found = stubs.admin.ListAgents(bots, timeout=TIMEOUT).agents
    assert [(one.project_id, one.agent_id) for one in found] == [("", "bot"), ("网", "bot")]


def test_pages_of_projects_and_agents_join(stubs: Stubs, user: str) -> None:
    """Each page goes on where the one before ended; a token of another list is refused."""
    fill(stubs, user)
    projects, agents = [], []
    listing = admin_pb.ListProjectsRequest(user_id=user, page_size=1)
    while not projects or listing.page_token:
        page = stubs.admin.ListProjects(listing, timeout=TIMEOUT)
        projects += [one.project_id for one in page.projects]
        listing.page_token = page.next_page_token
    asking = admin_pb.ListAgentsRequest(user_id=user, page_size=2)
    tokens = []
    while not agents or asking.page_token:
        found = stubs.admin.ListAgents(asking, timeout=TIMEOUT)
        agents += [(one.project_id, one.agent_id) for one in found.agents]
        asking.page_token = found.next_page_token
        tokens.append(found.next_page_token)

    assert projects == ["", "web", "网"]
    assert agents == [("", ""), ("", "bot"), ("web", ""), ("web", "助手"), ("网", "bot")]
    other = admin_pb.ListAgentsRequest(user_id=user, project_id="web", page_token=tokens[0])
    refusal = refused(stubs.admin.ListAgents, other)
    assert (refusal.code, refusal.fields) == (INVALID, ("page_token",))


@pytest.mark.parametrize("size", [1, 2, 100])
def test_scopes_are_the_distinct_places_of_memories(stubs: Stubs, user: str, size: int) -> None:
    """All of them, or those of one project or agent; without any whose memories are all deleted."""
    fill(stubs, user)
    gone = create(stubs, types_pb.Scope(user_id=user, project_id="gone"), "Forgotten soon.")
    where = types_pb.Scope(user_id=user, project_id="gone")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=where, id=gone.id), timeout=TIMEOUT)

    def found(**fields: Any) -> list[tuple[str, str, str, int]]:
        return [
            (one.scope.project_id, one.scope.agent_id, one.scope.session_id, one.memory_count)
            for one in scopes_of(stubs, user, page_size=size, **fields)
        ]

    every = [(*place, number) for number, place in enumerate(PLACES, 1)]
    assert found() == every
    assert found(project_id="") == every[:3]
    assert found(agent_id="bot") == [every[1], every[2], every[5]]
    assert found(project_id="web", agent_id="") == [every[3]]
    assert found(project_id="nowhere") == []


def test_messages_count_in_their_session(stubs: Stubs, user: str) -> None:
    """A session with messages is a scope of its own."""
    scope = types_pb.Scope(user_id=user, agent_id="bot", session_id="talk")
    open_session(stubs, scope)
    append(stubs, scope, [say("Hello."), say("你好。")])

    [one] = scopes_of(stubs, user)

    assert (one.scope, one.memory_count) == (scope, 2)
    assert one.HasField("last_write_time")


def test_wrong_input_is_named(stubs: Stubs, user: str) -> None:
    """Every list says which field is wrong."""
    long, foreign = "x" * 200, "AAAAAAAAAAA"
    for call, request, fields in (
        (stubs.admin.ListUsers, admin_pb.ListUsersRequest(id_prefix=long, page_size=-1), ("id_prefix", "page_size")),
        (stubs.admin.ListUsers, admin_pb.ListUsersRequest(page_token=foreign), ("page_token",)),
        (stubs.admin.ListProjects, admin_pb.ListProjectsRequest(), ("user_id",)),
        (stubs.admin.ListProjects, admin_pb.ListProjectsRequest(user_id=user, page_size=1001), ("page_size",)),
        (stubs.admin.ListAgents, admin_pb.ListAgentsRequest(project_id=long), ("project_id", "user_id")),
        (stubs.memory.ListScopes, memory_pb.ListScopesRequest(agent_id=long), ("user_id", "agent_id")),
        (stubs.memory.ListScopes, memory_pb.ListScopesRequest(user_id=user, page_token=foreign), ("page_token",)),
    ):
        refusal = refused(call, request)
        assert (refusal.code, set(refusal.fields)) == (INVALID, set(fields)), request
