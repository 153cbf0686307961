"""What a key is bound to: users, projects, rates; and when it ends."""

from __future__ import annotations

import base64
import json
import uuid
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import Keyed
from tests.support.descriptors import METHODS
from tests.support.rpc import TIMEOUT, Refusal, create, get, refused
from tests.support.server_process import Stubs
from tests.support.until import until
from tests.support.user_data import Line, changed, export, records, take_in

DENIED = grpc.StatusCode.PERMISSION_DENIED
WEB = types_pb.Scope(user_id="ada", project_id="web")


@pytest.mark.parametrize("user", ["ada-2", "ad", "Ada", "bob"])
def test_a_key_of_some_users_is_good_for_no_others(asking: Keyed, user: str) -> None:
    """Users are compared as a whole, in reads and writes."""
    scope = types_pb.Scope(user_id=user)
    with asking.stubs("ada") as stubs:
        create(stubs, types_pb.Scope(user_id="ada"), f"Ada's {uuid.uuid4()}.")
        refusals = [
            refused(stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=scope)),
            refused(stubs.search.Search, search_pb.SearchRequest(scope=scope, query="x")),
            refused(
                stubs.memory.CreateMemory,
                memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="x")),
            ),
            refused(stubs.memory.WatchMemories, memory_pb.WatchMemoriesRequest(scope=scope)),
            refused(
                stubs.memory.ImportMemories,
                iter([memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope))]),
            ),
        ]

    assert {(refusal.code, refusal.metadata["needed"]) for refusal in refusals} == {(DENIED, "user_id")}


def test_a_key_of_some_projects_is_good_for_no_others(asking: Keyed) -> None:
    """Neither by the scope of the request nor by that of a memory in it; what is global can be read from a project."""
    with asking.stubs("writer") as writer, asking.stubs("web") as stubs:
        world = create(writer, types_pb.Scope(user_id="ada"), f"Global {uuid.uuid4()}.")
        mine = create(stubs, WEB, f"Of the web {uuid.uuid4()}.")
        elsewhere = types_pb.Memory(content="x", scope=types_pb.Scope(project_id="web-2"))
        batch = memory_pb.BatchCreateMemoriesRequest(scope=WEB, memories=[memory_pb.BatchMemory(memory=elsewhere)])
        header = memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=WEB))
        body = memory_pb.ImportMemoriesRequest(
            batch=memory_pb.ImportBatch(memories=[memory_pb.BatchMemory(memory=elsewhere)])
        )
        refusals = [
            refused(
                stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=types_pb.Scope(user_id="ada"), id=mine.id)
            ),
            refused(
                stubs.memory.GetMemory,
                memory_pb.GetMemoryRequest(scope=types_pb.Scope(user_id="ada", project_id="web-2"), id=mine.id),
            ),
            refused(stubs.memory.CreateMemory, memory_pb.CreateMemoryRequest(scope=WEB, memory=elsewhere)),
            refused(stubs.memory.BatchCreateMemories, batch),
            refused(stubs.memory.ImportMemories, iter([header, body])),
        ]

        assert {(refusal.code, refusal.metadata["needed"]) for refusal in refusals} == {(DENIED, "project_id")}
        assert get(stubs, WEB, world.id).content == world.content
        assert (
            create(stubs, types_pb.Scope(user_id="ada", project_id="网"), f"网 {uuid.uuid4()}").scope.project_id == "网"
        )


@pytest.mark.parametrize("shape", ["unit", "long"])
def test_vectors_of_a_file_are_kept_for_administrators_alone(asking: Keyed, shape: str) -> None:
    """All users share the vectors of equal texts, so that the file of one must not change or tell those of others."""
    users = {name: f"{name}-{uuid.uuid4()}" for name in ("other tenant", "admin", "source")}
    texts = {name: f"The boiler of {user} was repaired." for name, user in users.items()}
    numbers = [1.0 if shape == "unit" else 3e38, *[0.0] * 255]
    given = base64.b64encode(array("f", numbers).tobytes()).decode()
    kept: dict[str, tuple[int, bool]] = {}

    def exported(stubs: Stubs, user: str) -> bytes | None:
        """Return the file of a user once the vector of its memory is stored."""
        file = export(stubs, user, include_vectors=True)
        return file if all("vectors" in line for line in records(file, "memory")) else None

    for name in ("other tenant", "admin"):
        with asking.stubs(name) as stubs:
            create(stubs, types_pb.Scope(user_id=users["source"]), texts["source"])
            file = until(partial(exported, stubs, users["source"]))

            def disguised(lines: list[Line], content: str = texts[name]) -> None:
                for line in lines[1:]:
                    line["content"] = content
                    line["vectors"] = [vector | {"data": given} for vector in line["vectors"]]

            last = take_in(stubs, users[name], changed(file, disguised))
            [memory] = records(until(partial(exported, stubs, users[name])), "memory")
            assert memory["content"] == texts[name]
            kept[name] = last.vector_count, [vector["data"] for vector in memory["vectors"]] == [given]

    assert {"other tenant": (0, False), "admin": (1, True) if shape == "unit" else (0, False)} == kept


def test_lists_of_users_and_projects_show_what_a_key_is_good_for(asking: Keyed) -> None:
    """Users to administrators of their tenant, and to keys of some users theirs; projects to keys of some projects theirs."""
    user = f"bob-{uuid.uuid4()}"
    with asking.stubs("writer") as writer:
        for name in ("ada", user):
            for project in ("", "web", "other"):
                create(writer, types_pb.Scope(user_id=name, project_id=project, agent_id="bot"), f"A {uuid.uuid4()}.")
        refusal = refused(writer.admin.ListUsers, admin_pb.ListUsersRequest())
        assert (refusal.code, refusal.metadata["needed"]) == (DENIED, "ADMIN")
        every = writer.admin.ListProjects(admin_pb.ListProjectsRequest(user_id=user), timeout=TIMEOUT).projects
        assert [one.project_id for one in every] == ["", "other", "web"]
    with asking.stubs("ada") as ada:
        users = ada.admin.ListUsers(admin_pb.ListUsersRequest(), timeout=TIMEOUT).users
        assert [one.user_id for one in users] == ["ada"]
        for call, request in (
            (ada.admin.ListProjects, admin_pb.ListProjectsRequest(user_id=user)),
            (ada.admin.ListAgents, admin_pb.ListAgentsRequest(user_id=user)),
            (ada.memory.ListScopes, memory_pb.ListScopesRequest(user_id=user)),
        ):
            assert refused(call, request).metadata["needed"] == "user_id"
    with asking.stubs("web") as web:
        projects = web.admin.ListProjects(admin_pb.ListProjectsRequest(user_id=user), timeout=TIMEOUT).projects
        agents = web.admin.ListAgents(admin_pb.ListAgentsRequest(user_id=user), timeout=TIMEOUT).agents
        scopes = web.memory.ListScopes(memory_pb.ListScopesRequest(user_id=user), timeout=TIMEOUT).scopes
        assert [one.project_id for one in projects] == ["web"]
        assert [(one.project_id, one.agent_id) for one in agents] == [("web", "bot")]
        assert [one.scope.project_id for one in scopes] == ["web"]
        elsewhere = memory_pb.ListScopesRequest(user_id=user, project_id="other")
        assert refused(web.memory.ListScopes, elsewhere).metadata["needed"] == "project_id"
        assert refused(web.admin.ListUsers, admin_pb.ListUsersRequest()).code is DENIED
    with asking.stubs("other tenant") as stranger:
        assert stranger.admin.ListProjects(admin_pb.ListProjectsRequest(user_id=user), timeout=TIMEOUT).projects == []
    with asking.stubs("admin") as admin:
        assert user not in {
            one.user_id for one in admin.admin.ListUsers(admin_pb.ListUsersRequest(), timeout=TIMEOUT).users
        }


def test_a_key_of_some_projects_gets_no_totals_of_a_user(asking: Keyed) -> None:
    """Neither of memories nor of reports, even of its own user; a key of the whole user gets both."""
    totals = (
        ("ListUsers", admin_pb.ListUsersRequest()),
        ("GetUseFeedback", search_pb.GetUseFeedbackRequest(scope=WEB)),
    )
    with asking.stubs("ada's web") as web, asking.stubs("ada") as ada:
        for method, request in totals:
            refusal = refused(METHODS[method].call(web), request)
            assert (refusal.code, refusal.metadata["needed"]) == (DENIED, "project_id")
            assert method in refusal.message
            METHODS[method].responses(ada, request, timeout=TIMEOUT)


def test_a_reader_sees_what_a_deletion_would_delete(asking: Keyed) -> None:
    """The dry run is a read; the deletion needs a key that writes, and one of some users is good for those alone."""
    scope = types_pb.Scope(user_id="ada", project_id=f"p-{uuid.uuid4()}")
    with asking.stubs("writer") as writer:
        create(writer, scope, "Soon gone.")
    here = filters_pb.Filter(project_visibility=filters_pb.PROJECT_VISIBILITY_PROJECT)
    request = memory_pb.DeleteMemoriesRequest(scope=scope, filter=here, dry_run=True)
    with asking.stubs("reader") as reader:
        [event] = reader.memory.DeleteMemories(request, timeout=TIMEOUT)
        token = event.preview.selection_token
        real = memory_pb.DeleteMemoriesRequest(scope=scope, filter=here, selection_token=token)
        assert event.preview.matched_count == 1
        assert _refused_stream(reader.memory.DeleteMemories, real).metadata["needed"] == "READ_WRITE"
    with asking.stubs("web") as web:
        assert _refused_stream(web.memory.DeleteMemories, real).metadata["needed"] == "project_id"
    with asking.stubs("ada") as ada:
        *_, last = ada.memory.DeleteMemories(real, timeout=TIMEOUT)
        assert last.summary.changed_count == 1


def _refused_stream(call: Any, request: Any) -> Refusal:
    return refused(lambda *args, **kwargs: list(call(*args, **kwargs)), request)


def test_a_key_is_held_to_its_rate(asking: Keyed) -> None:
    """RESOURCE_EXHAUSTED says when to come back; other keys go on."""
    request = memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id="ada"))
    with asking.stubs("slow") as stubs, asking.stubs("writer") as writer:
        stubs.memory.ListMemories(request, timeout=TIMEOUT)
        refusal = refused(stubs.memory.ListMemories, request)
        writer.memory.ListMemories(request, timeout=TIMEOUT)

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
    assert refusal.retry_seconds == pytest.approx(100, abs=60)


def test_calls_under_way_are_counted_by_key(asking: Keyed) -> None:
    """A stream counts as long as it is open."""
    watch = memory_pb.WatchMemoriesRequest(scope=types_pb.Scope(user_id="ada"), start=memory_pb.WATCH_START_OLDEST)
    listing = memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id="ada"))
    with asking.stubs("narrow") as stubs:
        stream = stubs.memory.WatchMemories(watch, timeout=TIMEOUT)
        next(stream)
        refusal = refused(stubs.memory.ListMemories, listing)
        stream.cancel()
        with pytest.raises(grpc.RpcError):
            list(stream)
        answered = _until_answered(lambda: stubs.memory.ListMemories(listing, timeout=TIMEOUT))

    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.retry_seconds is not None
    assert answered


def _until_answered(call: Any) -> bool:
    """Call until the service has seen that the stream was cancelled."""
    for _ in range(10_000):
        try:
            call()
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        else:
            return True
    return False


def test_a_revoked_key_opens_nothing_more_and_its_streams_end(asking: Keyed) -> None:
    """The next call is refused, and a watch that is open is ended."""
    key = asking.keys["to be revoked"].key
    watch = memory_pb.WatchMemoriesRequest(scope=types_pb.Scope(user_id="ada"), start=memory_pb.WATCH_START_OLDEST)
    with asking.stubs("admin") as admin, asking.stubs("to be revoked") as stubs:
        stream = stubs.memory.WatchMemories(watch, timeout=TIMEOUT)
        next(stream)
        revoked = admin.admin.RevokeApiKey(admin_pb.RevokeApiKeyRequest(id=key.id), timeout=TIMEOUT).api_key
        refusal = refused(stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id="ada")))
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)

    assert revoked.state == admin_pb.API_KEY_STATE_REVOKED
    for one in (refusal, Refusal.from_error(ended.value)):
        assert (one.code, one.reason) == (grpc.StatusCode.UNAUTHENTICATED, "API_KEY_INVALID")


def test_an_admin_makes_lists_and_revokes_keys(asking: Keyed) -> None:
    """The secret is told once; the key works at once, and is listed without it."""
    request = admin_pb.CreateApiKeyRequest(
        name="机器人", tenant_id="acme", user_ids=["ada", "ada"], project_ids=["web"], request_id=str(uuid.uuid4()),
        role=admin_pb.API_KEY_ROLE_READ_ONLY, expire_time=Timestamp(seconds=4_000_000_000), concurrent_calls=3,
        calls_per_second=2.5,
    )  # fmt: skip
    with asking.stubs("admin") as admin:
        made = admin.admin.CreateApiKey(request, timeout=TIMEOUT)
        again = admin.admin.CreateApiKey(request, timeout=TIMEOUT)
        listed, token = {}, ""
        while True:
            page = admin.admin.ListApiKeys(
                admin_pb.ListApiKeysRequest(page_size=3, page_token=token, include_ended=True), timeout=TIMEOUT
            )
            listed |= {key.id: key for key in page.api_keys}
            token = page.next_page_token
            if not token:
                break
        alive = admin.admin.ListApiKeys(admin_pb.ListApiKeysRequest(page_size=1_000), timeout=TIMEOUT).api_keys
        with asking.bringing(f"Bearer {made.secret}") as stubs:
            stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=WEB), timeout=TIMEOUT)

    assert (again.api_key, again.secret) == (made.api_key, "")
    assert listed[made.api_key.id] == made.api_key
    assert (made.api_key.name, list(made.api_key.user_ids), made.api_key.expire_time) == (
        "机器人", ["ada"], request.expire_time,
    )  # fmt: skip
    assert {made_key.key.id for made_key in asking.keys.values()} <= listed.keys()
    assert list(listed) == sorted(listed)
    ended = {asking.keys[name].key.id for name in ("revoked", "expired")}
    assert not ended & {key.id for key in alive}
    assert made.secret not in str(listed)


WRONG: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("CreateApiKey", {"name": "x" * 129, "role": 4, "tenant_id": "a\nb"}, ("name", "role", "tenant_id")),
    ("CreateApiKey", {"user_ids": ["a", "", "x" * 129], "project_ids": ["\x00"]}, (
        "user_ids[1]", "user_ids[2]", "project_ids[0]",
    )),
    ("CreateApiKey", {"user_ids": ["a"] * 101, "request_id": "x" * 129}, ("user_ids", "request_id")),
    ("CreateApiKey", {"role": 3, "user_ids": ["a"], "project_ids": ["p"]}, ("user_ids", "project_ids")),
    ("CreateApiKey", {"expire_time": {"seconds": 253_402_300_800}}, ("expire_time",)),
    ("CreateApiKey", {"expire_time": {"seconds": 1}}, ("expire_time",)),
    ("CreateApiKey", {"ttl": {"seconds": 0}}, ("ttl",)),
    ("CreateApiKey", {"ttl": {"seconds": 36_500 * 86_400 + 1}}, ("ttl",)),
    ("CreateApiKey", {"calls_per_second": float("nan"), "concurrent_calls": -1}, ("calls_per_second", "concurrent_calls")),
    ("CreateApiKey", {"calls_per_second": -0.5, "concurrent_calls": 1_000_001}, ("calls_per_second", "concurrent_calls")),
    ("ListApiKeys", {"page_size": 1_001}, ("page_size",)),
    ("ListApiKeys", {"page_size": -1}, ("page_size",)),
    *(("ListApiKeys", {"page_token": token}, ("page_token",)) for token in ("x", "é" * 9_000, "AQAAAAAAAAAE")),
    ("RevokeApiKey", {"id": "", "request_id": "x" * 129}, ("id", "request_id")),
    *(("RevokeApiKey", {"id": name}, ("id",)) for name in ("F" * 20, "f" * 21, "../../etc/passwd", "x" * 20)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "fields", "paths"), WRONG)
def test_wrong_requests_are_refused_by_their_paths(
    asking: Keyed, method: str, fields: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """Everything that is wrong, at once; nothing is made."""
    request = getattr(admin_pb, f"{method}Request")(**fields)
    everything = admin_pb.ListApiKeysRequest(page_size=1_000, include_ended=True)
    with asking.stubs("admin") as admin:
        before = admin.admin.ListApiKeys(everything, timeout=TIMEOUT)
        refusal = refused(getattr(admin.admin, method), request)

        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, paths)
        assert before == admin.admin.ListApiKeys(everything, timeout=TIMEOUT)


def test_what_is_changed_and_refused_is_noted_without_content(asking: Keyed, audit_file: Path) -> None:
    """Who, what, in which scope, with what outcome; what only reads is not noted."""
    words = f"walrus {uuid.uuid4()}"
    with asking.stubs("writer") as writer, asking.stubs("reader") as reader:
        memory = create(writer, WEB, words, title=words, tags=["tag"])
        get(writer, WEB, memory.id)
        denied = memory_pb.DeleteMemoryRequest(scope=WEB, id=memory.id)
        refused(reader.memory.DeleteMemory, denied)
        with pytest.raises(grpc.RpcError):
            writer.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=WEB, id=str(uuid.uuid4())), timeout=TIMEOUT)
        refused(reader.admin.Diagnose, admin_pb.DiagnoseRequest())
        lines = _lines_with(audit_file, memory.id, "Diagnose")
    writer_id, reader_id = asking.keys["writer"].key.id, asking.keys["reader"].key.id
    noted = [
        (line["method"], line["code"], line["key_id"]) for line in lines if line["key_id"] in (writer_id, reader_id)
    ]
    made = next(line for line in lines if line["ids"] == [memory.id] and line["code"] == "OK")

    assert noted[-4:] == [
        ("CreateMemory", "OK", writer_id), ("DeleteMemory", "PERMISSION_DENIED", reader_id),
        ("DeleteMemory", "NOT_FOUND", writer_id), ("Diagnose", "PERMISSION_DENIED", reader_id),
    ]  # fmt: skip
    assert (made["tenant_id"], made["user_ids"], made["project_ids"]) == ("acme", ["ada"], ["web"])
    assert (made["role"], made["request_id"] != "", made["peer"].startswith("ipv4:127.0.0.1")) == (
        "READ_WRITE", True, True,
    )  # fmt: skip
    assert "walrus" not in audit_file.read_text()
    assert not any(asking.keys[name].text in audit_file.read_text() for name in asking.keys)


def _lines_with(file: Path, memory_id: str, method: str) -> list[dict[str, Any]]:
    """Return all lines, once one of that method comes after one of that memory: a thread writes them."""
    lines: list[dict[str, Any]] = []

    def are_there() -> bool:
        whole = file.read_text().rpartition("\n")[0]
        lines[:] = map(json.loads, whole.splitlines())
        return bool(lines) and lines[-1]["method"] == method and any(memory_id in line["ids"] for line in lines)

    until(are_there)
    return lines


@pytest.mark.parametrize(
    ("older", "newer"), [("I live in Lisbon.", "I live in Porto."), ("我住在杭州。", "我住在深圳。")]
)
def test_conflicts_are_found_within_a_tenant_only(asking: Keyed, older: str, newer: str) -> None:
    """The same user and project in two tenants; each has one half of a contradiction, and one has both."""
    scope = types_pb.Scope(user_id=str(uuid.uuid4()), project_id="p")
    request = lifecycle_pb.DetectConflictsRequest(scope=scope)

    def found(stubs: Stubs) -> list[lifecycle_pb.DetectConflictsResponse]:
        return list(stubs.lifecycle.DetectConflicts(request, timeout=TIMEOUT))

    with asking.stubs("writer") as here, asking.stubs("other tenant") as there:
        create(here, scope, older)
        create(there, scope, newer)
        assert [reply.conflict_count for reply in (found(here)[-1], found(there)[-1])] == [0, 0]
        batch = memory_pb.ImportBatch(memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=newer))])
        messages = [memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope))]
        list(here.memory.ImportMemories(iter([*messages, memory_pb.ImportMemoriesRequest(batch=batch)])))
        assert [reply.conflict_count for reply in (found(here)[-1], found(there)[-1])] == [1, 0]
        listed = memory_pb.ListConflictsRequest(scope=scope)
        assert len(here.memory.ListConflicts(listed, timeout=TIMEOUT).conflicts) == 1
        assert not there.memory.ListConflicts(listed, timeout=TIMEOUT).conflicts


def test_amounts_of_the_whole_service_are_for_administrators(asking: Keyed) -> None:
    """Users would see in them how much others store and write; their own counts they see."""
    scope = types_pb.Scope(user_id="ada")
    with asking.stubs("ada") as stubs:
        create(stubs, scope, f"Tea {uuid.uuid4()} 茶")
    request = admin_pb.GetStatsRequest(scope=scope)
    told = {}
    for name in ("admin", "ada", "writer", "reader"):
        with asking.stubs(name) as stubs:
            told[name] = stubs.admin.GetStats(request, timeout=TIMEOUT)

    assert told["admin"].storage_bytes > 0
    assert [told[name].storage_bytes for name in ("ada", "writer", "reader")] == [0, 0, 0]
    assert all(told[name].memory_count > 0 and told[name].content_bytes > 0 for name in ("ada", "writer", "reader"))
