"""A whole server whose truth is in PostgreSQL, and whose indexes are its own: it writes, finds, watches and survives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.test_crash import SCOPE as WRITTEN
from tests.e2e.test_crash import Writer
from tests.support.postgres_server import down, schema
from tests.support.rpc import MODES, Refusal, create, create_all, search, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.watch import watching

SCOPE = types_pb.Scope(user_id="ada", project_id="p")
HARBOUR, TEA = "The harbour opens at dawn.", "她每天早上喝绿茶。"
WRITERS, UNTIL = 4, 40


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server over a schema of its own, which the tests restart and kill."""
    with schema() as url:
        environment = {**FAST, "MEMSVC_METADATA__OPTIONS__URL": url}
        with ServerProcess(tmp_path_factory.mktemp("postgres") / "data", environment) as running:
            yield running


def _hits(stubs: Stubs, query: str, scope: types_pb.Scope = SCOPE) -> list[list[str]]:
    return [[hit.memory.id for hit in search(stubs, scope, query, mode=mode).hits][:1] for mode in MODES]


def test_what_is_written_is_found_watched_and_there_after_a_restart(place: ServerProcess) -> None:
    """In both languages, by every retriever; a repeated request is answered as before, and a watch goes on."""
    with place.stubs() as stubs, watching(stubs, SCOPE) as reader:
        harbour, tea = (create(stubs, SCOPE, content) for content in (HARBOUR, TEA))
        first = write(stubs, SCOPE, "once only", request_id="r1")
        told = reader.read(3)
        cursor = reader.cursor
        assert [one.memory_id for one in told] == [harbour.id, tea.id, first.memory.id]
        assert _hits(stubs, "harbour dawn") == [[harbour.id]] * len(MODES)
        assert _hits(stubs, "绿茶") == [[tea.id]] * len(MODES)

    assert place.stop() == 0
    place.start()

    with place.stubs() as stubs, watching(stubs, SCOPE, cursor=cursor) as reader:
        assert write(stubs, SCOPE, "once only", request_id="r1").memory.id == first.memory.id
        later = create(stubs, SCOPE, "written later")
        assert [one.memory_id for one in reader.read(1)] == [later.id]
        assert _hits(stubs, "harbour dawn") == [[harbour.id]] * len(MODES)


def test_acknowledged_writes_survive_kill_9(place: ServerProcess) -> None:
    """What was acknowledged is stored and found, and the indexes hold what the store holds."""
    writer = Writer()
    with place.stubs() as stubs, ThreadPoolExecutor(WRITERS) as pool:
        runs = [pool.submit(writer.run, stubs, random.Random(seed)) for seed in range(WRITERS)]
        while len(writer.acknowledged) < UNTIL and not wait(runs, timeout=0.05, return_when=FIRST_COMPLETED).done:
            pass
        place.kill()
        for run in runs:
            run.result()
    place.start()

    with place.stubs() as stubs:
        found = {
            word: [hit.memory.id for hit in search(stubs, WRITTEN, word, mode=MODES[2]).hits]
            for word in writer.acknowledged
        }
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=120)
    assert all(memory_id in found[word] for word, memory_id in writer.acknowledged.items())
    assert [(0, 0, 0)] * 2 == [
        (index.missing_count, index.stale_count, index.orphaned_count) for index in diagnosis.indexes
    ]


def test_a_database_that_goes_away_is_unavailable_and_found_again(place: ServerProcess) -> None:
    """While it is down every call says UNAVAILABLE and when to come back; after it is back they work, at once."""
    with place.stubs() as stubs:
        kept = create_all(stubs, SCOPE, ["kept one", "kept two"])
        with down():
            for attempt in (lambda: create(stubs, SCOPE, "lost"), lambda: search(stubs, SCOPE, "kept")):
                with pytest.raises(grpc.RpcError) as caught:
                    attempt()
                refusal = Refusal.from_error(caught.value)
                assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE")
                assert refusal.retry_seconds

        again = create(stubs, SCOPE, "zebra again")
        assert _hits(stubs, "zebra again") == [[again.id]] * len(MODES)
        assert {hit.memory.id for hit in search(stubs, SCOPE, "kept").hits} >= {one.id for one in kept}
