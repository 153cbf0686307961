"""Two servers over one PostgreSQL: what one acknowledged the other knows, also when the first is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr

from memsvc.domain.scope import Scope
from memsvc.ports.plugin import BackendContext
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.write_session import QUOTA_SECONDS
from tests.e2e.access.support import ASKING, Keyed
from tests.support.postgres_server import schema
from tests.support.rpc import TIMEOUT, get, list_all, refused, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until
from tests.support.watch import watching

STORED = types_pb.WAIT_FOR_STORED
COUNT = 12
WRITES = 80
WAITING, HELD = 100, 12
RATE = 25


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers that share a schema. Each has indexes of its own, which these tests do not ask."""
    folder = tmp_path_factory.mktemp("replicas")
    with schema() as url, ExitStack() as stack:
        environment = {
            **FAST,
            "MEMSVC_METADATA__OPTIONS__URL": url,
            "MEMSVC_METADATA__OPTIONS__WAIT_SECONDS": str(TIMEOUT),
        }
        one, other = (stack.enter_context(ServerProcess(folder / name, environment)) for name in ("one", "other"))
        yield one, other


@pytest.fixture
def both(replicas: tuple[ServerProcess, ServerProcess]) -> Iterator[tuple[Stubs, Stubs]]:
    """The stubs of both."""
    with replicas[0].stubs() as one, replicas[1].stubs() as other:
        yield one, other


def _core(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    request = search_pb.LoadCoreRequest(scope=scope)
    return [memory.id for memory in stubs.search.LoadCore(request, timeout=TIMEOUT).core]


def test_each_reads_and_watches_what_the_other_writes(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """A watch on one is told the changes made by both, once and in the order of commits."""
    one, other = both
    with watching(other, scope) as reader, ThreadPoolExecutor(4) as pool:
        written = list(
            pool.map(
                lambda number: write(both[number % 2], scope, f"no {number}", wait_for=STORED).memory, range(COUNT)
            )
        )
        told = [change.memory_id for change in reader.read(COUNT)]

    assert sorted(told) == sorted(memory.id for memory in written)
    assert {get(one, scope, memory.id).content for memory in written} == {f"no {number}" for number in range(COUNT)}


def test_what_is_loaded_at_a_start_follows_the_other(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """It is kept in memory by each, and is as new as the store all the same."""
    one, other = both
    core = types_pb.Memory(content="我叫阿达。", layer=types_pb.MEMORY_LAYER_CORE)
    assert _core(other, scope) == []
    first = write(one, scope, core, wait_for=STORED).memory.id
    assert _core(one, scope) == _core(other, scope) == [first]

    second = write(
        other, scope, types_pb.Memory(content="My name is Ada.", layer=core.layer), wait_for=STORED
    ).memory.id

    assert set(_core(one, scope)) == set(_core(other, scope)) == {first, second}


@pytest.mark.parametrize("content", ["My safe code is 4711.", "我的保险箱密码是4711。"])
def test_a_context_of_one_ends_with_an_erasure_by_the_other(
    both: tuple[Stubs, Stubs], scope: types_pb.Scope, content: str
) -> None:
    """The rest of a stream that was interrupted, which a server keeps for an hour, shows nothing of the user."""
    one, other = both
    write(one, scope, types_pb.Memory(content=content, layer=types_pb.MEMORY_LAYER_CORE), wait_for=STORED)
    call = other.search.BuildContext(search_pb.BuildContextRequest(scope=scope), timeout=TIMEOUT)
    cursor = next(call).cursor
    call.cancel()
    resumption = search_pb.BuildContextRequest(scope=scope, cursor=cursor)
    assert content in next(other.search.BuildContext(resumption, timeout=TIMEOUT)).items.items[0].text

    erasure = lifecycle_pb.EraseUserRequest(scope=types_pb.Scope(user_id=scope.user_id), confirm=True)
    one.lifecycle.EraseUser(erasure, timeout=TIMEOUT)

    assert all(not event.items.items for event in other.search.BuildContext(resumption, timeout=TIMEOUT))


def test_a_request_sent_to_both_is_done_once(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """Whoever is asked, and however often, the answer is the first one."""
    with ThreadPoolExecutor(6) as pool:
        ids = set(
            pool.map(
                lambda number: write(both[number % 2], scope, "once", request_id="r", wait_for=STORED).memory.id,
                range(6),
            )
        )
    assert len(ids) == 1


def test_a_quota_holds_in_both(both: tuple[Stubs, Stubs], user: str) -> None:
    """What one stores counts in the other, and a quota that one sets holds there: no more is stored than it allows.

    Writers side by side may exceed it by what is under way in the other, which is not seen.
    """
    one, other = both
    scopes = [types_pb.Scope(user_id=f"{user}-{number}") for number in range(4)]
    before = one.admin.GetQuota(admin_pb.GetQuotaRequest(tenant_id=""), timeout=TIMEOUT).quota.use.memory_count
    limit = before + 20
    one.admin.SetQuota(
        admin_pb.SetQuotaRequest(quota=admin_pb.Quota(tenant_id="", memory_count=limit)), timeout=TIMEOUT
    )

    def try_to_write(number: int) -> bool:
        try:
            return bool(write(both[number % 2], scopes[number % 4], f"第 {number} 条", wait_for=STORED).memory.id)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            return False

    try:
        until(lambda: other.admin.GetQuota(admin_pb.GetQuotaRequest(tenant_id="")).quota.memory_count == limit)
        # The other process may have looked for quotas up to two seconds ago.
        looked = time.monotonic()
        until(lambda: time.monotonic() > looked + QUOTA_SECONDS)
        with ThreadPoolExecutor(8) as pool:
            stored = sum(pool.map(try_to_write, range(60)))
        [used] = {stubs.admin.GetQuota(admin_pb.GetQuotaRequest(tenant_id="")).quota.use.memory_count for stubs in both}
        alone = [try_to_write(number) for number in (100, 101)]
    finally:
        one.admin.SetQuota(admin_pb.SetQuotaRequest(quota=admin_pb.Quota(tenant_id="")), timeout=TIMEOUT)
        removed = time.monotonic()
    # The other process knows the quota for up to two seconds more, which the next test must not meet.
    until(lambda: time.monotonic() > removed + QUOTA_SECONDS)

    assert used == before + stored
    assert 20 <= stored <= 20 + 8
    assert alone == [False, False]


def test_what_a_killed_one_acknowledged_is_there(
    replicas: tuple[ServerProcess, ServerProcess], scope: types_pb.Scope
) -> None:
    """The other goes on at once, and repeats the answers of the dead one."""
    with replicas[0].stubs() as one:
        written = [write(one, scope, f"kept {number}", request_id=f"r{number}", wait_for=STORED) for number in range(5)]
    replicas[0].kill()
    with replicas[1].stubs() as other:
        again = [write(other, scope, f"kept {number}", request_id=f"r{number}", wait_for=STORED) for number in range(5)]
        later = write(other, scope, "later", wait_for=STORED)
        assert [reply.memory.id for reply in again] == [reply.memory.id for reply in written]
        assert len(list_all(other, scope)) == 6
    replicas[0].start()
    with replicas[0].stubs() as one:
        assert get(one, scope, later.memory.id).content == "later"


def test_watches_lose_and_double_nothing_when_a_writer_is_killed(
    replicas: tuple[ServerProcess, ServerProcess], user: str
) -> None:
    """Both write for two users when one is killed: each user's watch has what was acknowledged, once and in order."""
    scopes = [types_pb.Scope(user_id=f"{user}-{name}") for name in ("ada", "ben")]
    acknowledged: dict[str, str] = {}
    with replicas[1].stubs() as other, ExitStack() as stack:
        readers = [stack.enter_context(watching(other, scope)) for scope in scopes]
        with replicas[0].stubs() as one, ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(
                    _acknowledge, (one, other)[number % 2], scopes[number // 2 % 2], f"no {number}", acknowledged
                )
                for number in range(WRITES)
            ]
            until(lambda: len(acknowledged) > WRITES // 4)
            replicas[0].kill()
            for call in asked:
                call.result()
        replicas[0].start()
        ends = [write(other, scope, "the end", wait_for=STORED).memory.id for scope in scopes]
        told = [[change.memory_id for change in reader.until(end)] for reader, end in zip(readers, ends, strict=True)]
        stored = [{memory.id for memory in list_all(other, scope)} for scope in scopes]

    for scope, seen, kept, end in zip(scopes, told, stored, ends, strict=True):
        assert len(seen) == len(set(seen))
        assert {*seen, end} == kept
        assert {memory for memory, owner in acknowledged.items() if owner == scope.user_id} <= kept


def _acknowledge(stubs: Stubs, scope: types_pb.Scope, content: str, acknowledged: dict[str, str]) -> None:
    with suppress(grpc.RpcError):
        acknowledged[write(stubs, scope, content, wait_for=STORED).memory.id] = scope.user_id


def test_a_write_that_stalls_on_one_holds_up_its_user_alone(
    replicas: tuple[ServerProcess, ServerProcess], scope: types_pb.Scope
) -> None:
    """A few writes of the user wait, more are refused; those of other users are stored, and reads are answered."""
    url = SecretStr(replicas[0].environment["MEMSVC_METADATA__OPTIONS__URL"])
    owner, other_scope = Scope(scope.user_id).owner, types_pb.Scope(user_id=f"{scope.user_id} beside")
    context = BackendContext(replicas[0].data_dir, lambda: datetime.now(UTC))
    with SQL.open(SqlSettings(url=url), context) as store, replicas[0].stubs() as stubs:
        with store.transaction(owners={owner}):
            requests = [
                memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content=f"no {number}"))
                for number in range(WAITING)
            ]
            calls = [stubs.memory.CreateMemory.future(request, timeout=TIMEOUT) for request in requests]
            until(lambda: sum(not call.done() for call in calls) == HELD)
            for number in range(COUNT):
                memory = write(stubs, other_scope, f"no {number}", wait_for=STORED).memory
                assert get(stubs, other_scope, memory.id) == memory
            assert list_all(stubs, scope) == []
            assert sum(not call.done() for call in calls) == HELD
        stored = [call.result().memory.content for call in calls if call.code() is grpc.StatusCode.OK]
        refused = [call.details() for call in calls if call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert (len(stored), len(refused)) == (HELD, WAITING - HELD)
        assert all("wait for another server to end its write of the user" in text for text in refused)
        assert sorted(memory.content for memory in list_all(stubs, scope)) == sorted(stored)


def test_servers_share_the_rates_of_keys_and_tenants(tmp_path: Path) -> None:
    """However the calls of a key spread over the servers; a refusal says when the next one may begin."""
    with schema() as url, ExitStack() as stack:
        environment = ASKING | {"MEMSVC_METADATA__OPTIONS__URL": url}
        servers = [stack.enter_context(ServerProcess(tmp_path / name, environment)) for name in ("one", "other")]
        first = admin_pb.CreateApiKeyRequest(role=admin_pb.API_KEY_ROLE_ADMIN)
        with servers[0].stubs() as local:
            secret = local.admin.CreateApiKey(first, timeout=TIMEOUT).secret
        admin = stack.enter_context(Keyed(servers[0]).bringing(f"Bearer {secret}"))
        new = [admin_pb.CreateApiKeyRequest(tenant_id="acme", calls_per_second=rate) for rate in (0.01, RATE)]
        texts = [admin.admin.CreateApiKey(one, timeout=TIMEOUT).secret for one in new]
        slow, fast = ([stack.enter_context(Keyed(one).bringing(f"Bearer {text}")) for one in servers] for text in texts)
        listed = admin_pb.GetStatsRequest(scope=types_pb.Scope(user_id="ada"))

        slow[0].admin.GetStats(listed, timeout=TIMEOUT)
        refusal = refused(slow[1].admin.GetStats, listed)
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 90 < refusal.retry_seconds <= 100

        def begin(number: int) -> bool:
            try:
                fast[number % 2].admin.GetStats(listed, timeout=TIMEOUT)
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
                return False
            return True

        began = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            count = sum(pool.map(begin, range(8 * RATE)))
        assert RATE <= count <= RATE * (1 + time.monotonic() - began) + 1
