"""The maintenance step PURGE: memories that were deleted for longer than a setting are removed for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_maintenance import changes, restore, run
from tests.support.rpc import TIMEOUT, create, list_all, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.until import until

PURGE = lifecycle_pb.MAINTENANCE_STEP_PURGE
AT_ONCE_DAYS = 1e-9
TEXTS = pytest.mark.parametrize("content", ["My safe code is 4711.", "我的保险箱密码是4711。"])


@pytest.fixture(scope="module")
def purging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service that purges what was deleted less than a millisecond ago."""
    settings = {"purge_deleted_days": AT_ONCE_DAYS}
    with served(tmp_path_factory.mktemp("purging") / "data", maintenance=settings) as opened:
        yield opened


def delete(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> None:
    """Delete a memory."""
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT)


def deleted(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    """Return the ids of the deleted memories."""
    chosen = filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_DELETED])
    return [one.id for one in list_all(stubs, scope, filter=chosen)]


@TEXTS
def test_what_was_deleted_long_ago_is_purged(purging: Stubs, user: str, content: str) -> None:
    """Of every layer; a dry run says so before. What was restored stays, and so does what is in use."""
    scope = types_pb.Scope(user_id=user)
    gone, core, back, used = (
        create(purging, scope, f"{content} {name}", layer=layer)
        for name, layer in (
            ("a", types_pb.MEMORY_LAYER_LONG_TERM),
            ("b", types_pb.MEMORY_LAYER_CORE),
            ("c", types_pb.MEMORY_LAYER_LONG_TERM),
            ("d", types_pb.MEMORY_LAYER_LONG_TERM),
        )
    )
    for memory in (gone, core, back):
        delete(purging, scope, memory.id)
    restore(purging, scope, back.id)
    due = [(gone.id, "DELETED_LONG_AGO"), (core.id, "DELETED_LONG_AGO")]

    assert (
        until(lambda: len(found := changes(run(purging, scope=scope, steps=[PURGE], dry_run=True))) == 2 and found)
        == due
    )
    assert set(deleted(purging, scope)) == {gone.id, core.id}
    assert changes(run(purging, scope=scope, steps=[PURGE])) == due

    assert deleted(purging, scope) == changes(run(purging, scope=scope, steps=[PURGE])) == []
    assert {one.id for one in list_all(purging, scope)} == {back.id, used.id}
    for method in (purging.memory.RestoreMemory, purging.memory.ListRevisions):
        request = (
            memory_pb.RestoreMemoryRequest if method is purging.memory.RestoreMemory else memory_pb.ListRevisionsRequest
        )
        assert refused(method, request(scope=scope, id=gone.id)).reason == "MEMORY_NOT_FOUND"


def test_other_users_and_projects_are_left_alone(purging: Stubs, user: str) -> None:
    """A run for one project purges nothing else."""
    here, there = types_pb.Scope(user_id=user, project_id="here"), types_pb.Scope(user_id=user, project_id="there")
    ids = [create(purging, scope, "It was so.").id for scope in (here, there)]
    for scope, memory_id in zip((here, there), ids, strict=True):
        delete(purging, scope, memory_id)

    until(lambda: changes(run(purging, scope=here, steps=[PURGE])))

    assert (deleted(purging, here), deleted(purging, there)) == ([], ids[1:])


def test_nothing_is_purged_by_default(stubs: Stubs, user: str) -> None:
    """Deleted memories can be restored for as long as their user exists."""
    scope = types_pb.Scope(user_id=user)
    memory = create(stubs, scope, "It was so.")
    delete(stubs, scope, memory.id)

    assert changes(run(stubs, scope=scope, steps=[PURGE])) == []
    assert restore(stubs, scope, memory.id).content == "It was so."
