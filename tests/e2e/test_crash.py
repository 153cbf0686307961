"""kill -9 at random moments of a stream of writes: what was acknowledged is there afterwards, found, once."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until

KILLS = int(os.environ.get("MEMSVC_TEST_KILLS", "6"))
"""Rounds of writing and killing. Thirty and more are for a longer run: MEMSVC_TEST_KILLS=30."""
WRITERS = 6
DELETED_SHARE = 0.1
SCOPE = types_pb.Scope(user_id="crash", project_id="test")


class Writer:
    """Writes memories one after another, and remembers which were acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.deleted: set[str] = set()
        self._lock = threading.Lock()
        self._number = 0

    def run(self, stubs: Stubs, chance: random.Random) -> None:
        """Write until the server is gone."""
        while True:
            try:
                self._write(stubs, chance)
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), error
                return

    def _write(self, stubs: Stubs, chance: random.Random) -> None:
        with self._lock:
            self._number += 1
            word = f"zebra{self._number}word"
        reply = stubs.memory.CreateMemory(
            memory_pb.CreateMemoryRequest(
                scope=SCOPE,
                memory=types_pb.Memory(content=f"The {word} was seen 在动物园 today.", layer=chance.choice((0, 1, 4))),
                request_id=word,
                wait_for=chance.choice((types_pb.WAIT_FOR_STORED, types_pb.WAIT_FOR_INDEXED)),
            ),
            timeout=30,
        )
        self.acknowledged[word] = reply.memory.id
        if chance.random() < DELETED_SHARE:
            # Whether an unanswered deletion took place is not known; so the memory counts for neither side.
            del self.acknowledged[word]
            stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=SCOPE, id=reply.memory.id), timeout=30)
            self.deleted.add(word)


@pytest.fixture
def killed_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test may kill."""
    with ServerProcess(tmp_path / "data") as running:
        yield running


def _write_and_kill(server: ServerProcess, writer: Writer, chance: random.Random) -> None:
    with server.stubs() as stubs, ThreadPoolExecutor(WRITERS) as pool:
        runs = [pool.submit(writer.run, stubs, random.Random(chance.random())) for _ in range(WRITERS)]
        acknowledged = len(writer.acknowledged) + chance.randrange(5, 150)
        until(lambda: len(writer.acknowledged) >= acknowledged)
        server.kill()
        for run in runs:
            run.result()


def _found(stubs: Stubs, word: str) -> list[str]:
    reply = stubs.search.Search(
        search_pb.SearchRequest(scope=SCOPE, query=word, mode=search_pb.SEARCH_MODE_KEYWORD, limit=5),
        timeout=30,
    )
    return [hit.memory.id for hit in reply.hits if word in hit.memory.content.split()]


@pytest.mark.timeout(1800)
def test_acknowledged_writes_survive_kill_9_and_are_found_once(killed_server: ServerProcess) -> None:
    """After every kill -9 all acknowledged memories are stored and found once, and both indexes equal the store."""
    seed = int(os.environ.get("MEMSVC_TEST_SEED", str(random.randrange(10**6))))
    chance = random.Random(seed)
    writer = Writer()
    for kill in range(KILLS):
        _write_and_kill(killed_server, writer, chance)
        killed_server.start()
        with killed_server.stubs() as stubs:
            checked = chance.sample(sorted(writer.acknowledged), min(40, len(writer.acknowledged)))
            for word in checked:
                assert [writer.acknowledged[word]] == _found(stubs, word), f"{word}, kill {kill}, seed {seed}"

    with killed_server.stubs() as stubs:
        stored = _all_contents(stubs)
        assert len(stored) == len(set(stored.values())), f"seed {seed}"
        for word, memory_id in writer.acknowledged.items():
            assert stored[memory_id].split()[1] == word, f"{word}, seed {seed}"
        for word in writer.deleted:
            assert not _found(stubs, word), f"{word} was deleted, seed {seed}"
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=120)
    assert len(writer.acknowledged) > KILLS
    assert [(0, 0, 0)] * 2 == [
        (index.missing_count, index.stale_count, index.orphaned_count) for index in diagnosis.indexes
    ]
    assert [len(stored)] * 2 == [index.present_count for index in diagnosis.indexes]


def _all_contents(stubs: Stubs) -> dict[str, str]:
    stored, token = {}, ""
    while True:
        page = stubs.memory.ListMemories(
            memory_pb.ListMemoriesRequest(scope=SCOPE, page_size=1000, page_token=token), timeout=30
        )
        stored.update((memory.id, memory.content) for memory in page.memories)
        token = page.next_page_token
        if not token:
            return stored


@pytest.mark.timeout(600)
def test_acknowledged_reports_of_use_survive_kill_9(killed_server: ServerProcess) -> None:
    """Each is stored and counted once after a kill in the middle of them, also if it is repeated afterwards."""
    sent = iter(range(10**6))
    acknowledged: list[search_pb.ReportUseRequest] = []
    with killed_server.stubs() as stubs:
        written = memory_pb.CreateMemoryRequest(scope=SCOPE, memory=types_pb.Memory(content="The walrus sings."))
        memory_id = stubs.memory.CreateMemory(written, timeout=30).memory.id
        report = search_pb.UseReport(memory_id=memory_id, outcome=search_pb.USE_OUTCOME_USED)

        def run() -> None:
            for number in sent:
                name = f"walrus {number}"
                request = search_pb.ReportUseRequest(scope=SCOPE, query=name, reports=[report], request_id=name)
                try:
                    stubs.search.ReportUse(request, timeout=30)
                except grpc.RpcError:
                    return
                acknowledged.append(request)

        with ThreadPoolExecutor(WRITERS) as pool:
            runs = [pool.submit(run) for _ in range(WRITERS)]
            until(lambda: len(acknowledged) >= 100)
            killed_server.kill()
            for one in runs:
                one.result()
    killed_server.start()
    with killed_server.stubs() as stubs:
        for request in acknowledged[-20:]:
            stubs.search.ReportUse(request, timeout=30)
        listing = search_pb.ListUseReportsRequest(scope=SCOPE, memory_id=memory_id, page_size=1_000)
        queries = [one.query for one in stubs.search.ListUseReports(listing, timeout=30).reports]
        asked = memory_pb.GetMemoryRequest(scope=SCOPE, id=memory_id, include_use_counts=True)
        counts = stubs.memory.GetMemory(asked, timeout=30).use_counts
    assert len(queries) == len(set(queries)) == min(1_000, counts.used_count)
    assert counts.used_count > 1_000 or {request.query for request in acknowledged} <= set(queries)
    assert counts.used_count >= len(acknowledged)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_deletion_by_filter_leaves_whole_memories(killed_server: ServerProcess, seed: int) -> None:
    """A kill -9 in the middle leaves each memory deleted or as it was, in whole batches; a new dry run completes it."""
    chance = random.Random(seed)
    chosen = filters_pb.Filter(tags_any=["doomed"])
    with killed_server.stubs() as stubs:
        for start in range(0, 600, 200):
            drafts = [
                memory_pb.BatchMemory(memory=types_pb.Memory(content=f"Doomed 注定 {number}.", tags=["doomed"]))
                for number in range(start, start + 200)
            ]
            request = memory_pb.BatchCreateMemoriesRequest(scope=SCOPE, memories=drafts)
            stubs.memory.BatchCreateMemories(request, timeout=60)
        token = _preview(stubs, chosen).selection_token
        request = memory_pb.DeleteMemoriesRequest(scope=SCOPE, filter=chosen, selection_token=token)
        done, least = 0, chance.choice((50, 150, 300))
        try:
            for event in stubs.memory.DeleteMemories(request, timeout=60):
                done = max(done, event.progress.changed_count)
                if done >= least:
                    killed_server.kill()
                    break
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE
    killed_server.start()
    with killed_server.stubs() as stubs:
        deleted = _all_of(stubs, filters_pb.Filter(tags_any=["doomed"], statuses=[types_pb.MEMORY_STATUS_DELETED]))
        living = _all_of(stubs, chosen)
        assert done <= len(deleted) < 600
        assert len(deleted) % 50 == 0
        assert len(deleted) + len(living) == 600
        assert {one.revision for one in deleted} == {2}
        assert {one.revision for one in living} == {1}
        stale = memory_pb.DeleteMemoriesRequest(scope=SCOPE, filter=chosen, selection_token=token)
        with pytest.raises(grpc.RpcError, match="changed since the dry run"):
            list(stubs.memory.DeleteMemories(stale, timeout=60))
        preview = _preview(stubs, chosen)
        assert preview.matched_count == len(living)
        rest = memory_pb.DeleteMemoriesRequest(scope=SCOPE, filter=chosen, selection_token=preview.selection_token)
        *_, last = stubs.memory.DeleteMemories(rest, timeout=60)
        assert last.summary.changed_count == len(living)
        assert _all_of(stubs, chosen) == []


def _preview(stubs: Stubs, chosen: filters_pb.Filter) -> memory_pb.SelectionPreview:
    request = memory_pb.DeleteMemoriesRequest(scope=SCOPE, filter=chosen, dry_run=True)
    [event] = stubs.memory.DeleteMemories(request, timeout=60)
    return event.preview


def _all_of(stubs: Stubs, chosen: filters_pb.Filter) -> list[types_pb.Memory]:
    request = memory_pb.ListMemoriesRequest(scope=SCOPE, filter=chosen, page_size=1_000)
    return list(stubs.memory.ListMemories(request, timeout=60).memories)
