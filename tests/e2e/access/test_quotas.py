"""Quotas of tenants and keys over the wire: what they keep out, what they let in, and who may set them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import Keyed
from tests.e2e.access.test_key_commands import memsvc
from tests.support.rpc import TIMEOUT, Refusal, create, list_all, refused
from tests.support.server_process import Stubs
from tests.support.until import until

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Tenant:
    """A tenant of its own with a key, and its quota."""

    def __init__(self, admin: Stubs, asking: Keyed) -> None:
        self.id = f"tenant-{uuid.uuid4()}"
        self.scope = types_pb.Scope(user_id="ada")
        self.admin = admin
        self._asking = asking
        self.keys = [self.make_key() for _ in range(2)]

    def make_key(self) -> admin_pb.CreateApiKeyResponse:
        return self.admin.admin.CreateApiKey(admin_pb.CreateApiKeyRequest(tenant_id=self.id), timeout=TIMEOUT)

    def stubs(self, number: int = 0) -> Any:
        return self._asking.bringing(f"Bearer {self.keys[number].secret}")

    def limit(self, *, key: bool = False, reset_use: bool = False, **limits: float) -> admin_pb.Quota:
        """Set the quota of the tenant, or of its first key."""
        quota = admin_pb.Quota(**limits)  # type: ignore[arg-type]  # names of limits
        if key:
            quota.api_key_id = self.keys[0].api_key.id
        else:
            quota.tenant_id = self.id
        request = admin_pb.SetQuotaRequest(quota=quota, reset_use=reset_use)
        return self.admin.admin.SetQuota(request, timeout=TIMEOUT).quota

    def used(self, *, key: bool = False) -> admin_pb.QuotaUse:
        named = {"api_key_id": self.keys[0].api_key.id} if key else {"tenant_id": self.id}
        return self.admin.admin.GetQuota(admin_pb.GetQuotaRequest(**named), timeout=TIMEOUT).quota.use  # type: ignore[arg-type]  # either


@pytest.fixture
def tenant(asking: Keyed) -> Iterator[Tenant]:
    """Return a tenant that has stored nothing."""
    with asking.stubs("admin") as admin:
        yield Tenant(admin, asking)


def _create(scope: types_pb.Scope, content: str, **fields: Any) -> memory_pb.CreateMemoryRequest:
    return memory_pb.CreateMemoryRequest(
        scope=scope, memory=types_pb.Memory(content=content, **fields), wait_for=types_pb.WAIT_FOR_STORED
    )


def _batch(scope: types_pb.Scope, *contents: str) -> memory_pb.BatchCreateMemoriesRequest:
    memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=content)) for content in contents]
    return memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=memories, wait_for=types_pb.WAIT_FOR_STORED)


def _details(call: Any, request: Any) -> tuple[grpc.StatusCode, list[str], error_details_pb2.QuotaFailure]:
    """Return the code of a refusal, the names of its details, and the quota that it names."""
    with pytest.raises(grpc.RpcError) as raised:
        call(request, timeout=TIMEOUT)
    error: Any = raised.value
    [packed] = [value for name, value in error.trailing_metadata() if name == "grpc-status-details-bin"]
    parts = status_pb2.Status.FromString(packed).details
    failure = error_details_pb2.QuotaFailure()
    for part in parts:
        part.Unpack(failure)
    return error.code(), [part.TypeName().rpartition(".")[2] for part in parts], failure


def test_memories_beyond_the_quota_are_not_stored(tenant: Tenant) -> None:
    """The refusal names the quota, its limit and what is stored, and asks nobody to retry. A batch counts as a whole."""
    tenant.limit(memory_count=3)
    with tenant.stubs() as stubs:
        create(stubs, tenant.scope, "Anna lives in Lisbon.")
        refusal = refused(stubs.memory.BatchCreateMemories, _batch(tenant.scope, "一。", "二。", "三。"))
        left = tenant.used().memory_count
        stubs.memory.BatchCreateMemories(_batch(tenant.scope, "一。", "二。"), timeout=TIMEOUT)
        code, names, failure = _details(stubs.memory.CreateMemory, _create(tenant.scope, "Four."))

        assert (refusal.code, refusal.reason) == (EXHAUSTED, "QUOTA_EXCEEDED")
        assert {name: refusal.metadata[name] for name in ("quota", "holder", "name", "limit", "used", "added")} == {
            "quota": "memories", "holder": "tenant", "name": tenant.id, "limit": "3", "used": "1", "added": "3",
        }  # fmt: skip
        assert left == 1
        assert (code, names) == (EXHAUSTED, ["ErrorInfo", "QuotaFailure"])
        assert failure.violations[0].subject == f"tenant:{tenant.id}"
        assert failure.violations[0].quota_value == 3
        assert len(list_all(stubs, tenant.scope)) == 3


def test_what_is_removed_for_good_makes_room(tenant: Tenant) -> None:
    """A memory that is deleted for now still takes its place; an update may shrink beyond the quota, and not grow."""
    with tenant.stubs() as stubs:
        first = create(stubs, tenant.scope, "茶" * 30)
        second = create(stubs, tenant.scope, "Tea.")
        tenant.limit(memory_count=2, content_bytes=50)
        delete = memory_pb.DeleteMemoryRequest(scope=tenant.scope, id=second.id)
        stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)
        grown = types_pb.Memory(id=first.id, content="茶" * 31)
        shrunk = types_pb.Memory(id=first.id, content="茶" * 5)
        codes = [
            refused(stubs.memory.CreateMemory, _create(tenant.scope, "Other.")).code,
            refused(stubs.memory.UpdateMemory, _update(tenant.scope, grown)).code,
        ]
        stubs.memory.UpdateMemory(_update(tenant.scope, shrunk), timeout=TIMEOUT)
        delete.purge = True
        stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)
        create(stubs, tenant.scope, "Other.")

    assert codes == [EXHAUSTED, EXHAUSTED]
    assert (tenant.used().memory_count, tenant.used().content_bytes) == (2, 15 + 6)


def _update(scope: types_pb.Scope, memory: types_pb.Memory) -> memory_pb.UpdateMemoryRequest:
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=memory)
    request.update_mask.paths.append("content")
    return request


def test_an_import_stops_at_the_quota(tenant: Tenant) -> None:
    """The batches before are stored, the first memory that is not is named, and the import goes on when there is room."""
    tenant.limit(memory_count=5)
    header = memory_pb.ImportHeader(scope=tenant.scope, request_id="r", wait_for=types_pb.WAIT_FOR_STORED)

    def parts() -> Iterator[memory_pb.ImportMemoriesRequest]:
        yield memory_pb.ImportMemoriesRequest(header=header)
        for first in range(0, 9, 3):
            memories = [
                memory_pb.BatchMemory(memory=types_pb.Memory(content=f"第{first + one}条。")) for one in range(3)
            ]
            yield memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=first, memories=memories))

    with tenant.stubs() as stubs:
        failures: dict[int, str] = {}
        with pytest.raises(grpc.RpcError) as raised:
            for reply in stubs.memory.ImportMemories(parts(), timeout=TIMEOUT):
                failures.update({one.index: one.status.message for one in reply.failures})
        stored = len(list_all(stubs, tenant.scope))
        tenant.limit(memory_count=9)
        *_, last = stubs.memory.ImportMemories(parts(), timeout=TIMEOUT)

        assert Refusal.from_error(raised.value).reason == "QUOTA_EXCEEDED"
        assert list(failures) == [3]
        assert "quota" in failures[3]
        assert stored == 3
        assert len(list_all(stubs, tenant.scope)) == 9
        assert last.done


def test_messages_and_files_count(tenant: Tenant) -> None:
    """Of sessions, and of uploads by their bytes; bytes that are refused are not kept."""
    tenant.limit(memory_count=2, file_bytes=10)
    scope = types_pb.Scope(user_id="ada", session_id="s")
    with tenant.stubs() as stubs:
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content="你好。")
        append = session_pb.AppendMessagesRequest(scope=scope, messages=[message, message])
        stubs.session.AppendMessages(append, timeout=TIMEOUT)
        refusals = [refused(stubs.session.AppendMessages, append).reason]
        kept = stubs.files.UploadFile(_upload(tenant.scope, b"12345678"), timeout=TIMEOUT).file
        refusals.append(refused(stubs.files.UploadFile, _upload(tenant.scope, b"abc")).reason)
        used = tenant.used()
        stubs.files.DeleteFile(file_pb.DeleteFileRequest(scope=tenant.scope, id=kept.id), timeout=TIMEOUT)
        stubs.files.UploadFile(_upload(tenant.scope, b"abc"), timeout=TIMEOUT)

    assert refusals == ["QUOTA_EXCEEDED"] * 2
    assert (used.memory_count, used.file_bytes) == (2, 8)
    assert tenant.used().file_bytes == 3


def _upload(scope: types_pb.Scope, data: bytes) -> Iterator[file_pb.UploadFileRequest]:
    header = file_pb.UploadFileHeader(scope=scope, name="note.txt")
    return iter([file_pb.UploadFileRequest(header=header), file_pb.UploadFileRequest(data=data)])


def test_a_key_has_a_quota_of_its_own(tenant: Tenant) -> None:
    """Another key of the tenant writes on; what the key removes makes room, and its use can be set to 0."""
    tenant.limit(key=True, memory_count=1)
    with tenant.stubs(0) as limited, tenant.stubs(1) as other:
        mine = create(limited, tenant.scope, "Mine.")
        refusal = refused(limited.memory.CreateMemory, _create(tenant.scope, "More."))
        create(other, tenant.scope, "Of the other key.")
        delete = memory_pb.DeleteMemoryRequest(scope=tenant.scope, id=mine.id, purge=True)
        limited.memory.DeleteMemory(delete, timeout=TIMEOUT)
        create(limited, tenant.scope, "Again.")
        full = tenant.used(key=True).memory_count
        reset = tenant.limit(key=True, memory_count=1, reset_use=True)
        create(limited, tenant.scope, "Once more.")

    assert (refusal.code, refusal.metadata["holder"]) == (EXHAUSTED, "API key")
    assert (full, reset.use.memory_count, tenant.used(key=True).memory_count) == (1, 0, 1)
    assert tenant.used().memory_count == 3


def test_the_keys_of_a_tenant_share_its_rate(tenant: Tenant) -> None:
    """Calls of one leave none to the other; a new rate counts from the next call on."""
    tenant.limit(calls_per_second=0.001)
    request = memory_pb.ListMemoriesRequest(scope=tenant.scope)
    with tenant.stubs(0) as one, tenant.stubs(1) as other:
        one.memory.ListMemories(request, timeout=TIMEOUT)
        refusal = refused(other.memory.ListMemories, request)
        tenant.limit(calls_per_second=1_000)
        until(lambda: _answers(other, request))

    assert (refusal.code, refusal.metadata["kind"]) == (EXHAUSTED, "RATE")
    assert tenant.id in refusal.metadata["limit"]


def _answers(stubs: Stubs, request: memory_pb.ListMemoriesRequest) -> bool:
    with suppress(grpc.RpcError):
        return bool(stubs.memory.ListMemories(request, timeout=TIMEOUT))
    return False


def test_maintenance_is_not_held_to_a_quota(tenant: Tenant) -> None:
    """It tidies up a full tenant; erasing a user gives back all that it took."""
    with tenant.stubs() as stubs:
        create(stubs, tenant.scope, "Anna lives in Lisbon.")
        tenant.limit(memory_count=1)
        run = lifecycle_pb.RunMaintenanceRequest(scope=tenant.scope)
        assert list(stubs.lifecycle.RunMaintenance(run, timeout=TIMEOUT))
        erase = lifecycle_pb.EraseUserRequest(scope=tenant.scope, confirm=True)
        stubs.lifecycle.EraseUser(erase, timeout=TIMEOUT)

    assert tenant.used() == admin_pb.QuotaUse()


@pytest.mark.parametrize(
    ("quota", "field"),
    [
        ({}, "quota.tenant_id"),
        ({"tenant_id": "x" * 129}, "quota.tenant_id"),
        ({"api_key_id": "key"}, "quota.api_key_id"),
        ({"tenant_id": "t", "memory_count": -1}, "quota.memory_count"),
        ({"tenant_id": "t", "content_bytes": 10**16}, "quota.content_bytes"),
        ({"tenant_id": "t", "file_bytes": -5}, "quota.file_bytes"),
        ({"tenant_id": "t", "calls_per_second": float("nan")}, "quota.calls_per_second"),
    ],
)
def test_wrong_quotas_are_named(tenant: Tenant, quota: dict[str, Any], field: str) -> None:
    """Each violation names its field."""
    request = admin_pb.SetQuotaRequest(quota=admin_pb.Quota(**quota))
    refusal = refused(tenant.admin.admin.SetQuota, request)
    assert (refusal.code, list(refusal.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, [field])


def test_quotas_are_of_administrators(tenant: Tenant) -> None:
    """Other keys can neither set nor read them; those of unknown keys are not found; lists have pages."""
    tenant.limit(memory_count=7)
    with tenant.stubs() as stubs:
        named = admin_pb.Quota(tenant_id=tenant.id)
        codes = {
            refused(stubs.admin.SetQuota, admin_pb.SetQuotaRequest(quota=named)).code,
            refused(stubs.admin.GetQuota, admin_pb.GetQuotaRequest(tenant_id=tenant.id)).code,
            refused(stubs.admin.ListQuotas, admin_pb.ListQuotasRequest()).code,
        }
    admin = tenant.admin.admin
    unknown = refused(admin.GetQuota, admin_pb.GetQuotaRequest(api_key_id="f" * 20))
    tenant.limit(key=True, memory_count=8)
    names, token = [], ""
    while not names or token:
        page = admin.ListQuotas(admin_pb.ListQuotasRequest(page_size=1, page_token=token), timeout=TIMEOUT)
        names += [quota.tenant_id or quota.api_key_id for quota in page.quotas]
        token = page.next_page_token
    foreign = refused(admin.ListQuotas, admin_pb.ListQuotasRequest(page_token="none"))  # noqa: S106
    tenant.limit()

    assert codes == {grpc.StatusCode.PERMISSION_DENIED}
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.NOT_FOUND, "API_KEY_NOT_FOUND")
    assert {tenant.id, tenant.keys[0].api_key.id} <= set(names)
    assert len(names) == len(set(names))
    assert foreign.code is grpc.StatusCode.INVALID_ARGUMENT
    assert not admin.GetQuota(admin_pb.GetQuotaRequest(tenant_id=tenant.id), timeout=TIMEOUT).quota.memory_count


def test_quotas_by_commands(tenant: Tenant, asking: Keyed) -> None:
    """Set, get and list, as a table or as JSON."""
    here = ("--address", asking.server.bound, "--api-key", asking.keys["admin"].text)
    done = memsvc("quotas", "set", "--tenant", tenant.id, "--memories", "1000", "--calls-per-second", "2.5", *here)
    got = memsvc("quotas", "get", "--tenant", tenant.id, "--json", *here)
    listed = memsvc("quotas", "list", *here)
    neither = memsvc("quotas", "get", *here)

    assert done[0] == 0, done
    assert "0 of 1,000" in done[1]
    assert json.loads(got[1])["memoryCount"] == "1000"
    assert tenant.id in listed[1]
    assert neither[0] == 1
    assert "--tenant or a --key" in neither[2]
