"""Whole servers on PostgreSQL alone, truth and both indexes: they write, find, rebuild, share and survive."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack

import grpc
import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from memsvc.cli.app import app
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.postgres_index.postings import ENTRIES
from tests.e2e.test_crash import SCOPE as WRITTEN
from tests.e2e.test_crash import Writer
from tests.support.postgres_server import down, schema
from tests.support.rpc import (
    KEYWORD,
    MODES,
    SEMANTIC,
    TIMEOUT,
    Refusal,
    at_rest,
    create,
    create_all,
    found,
    rebuilt,
    search,
    write,
)
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

SCOPE = types_pb.Scope(user_id="ada", project_id="p")
HARBOUR, TEA = "The harbour opens at dawn.", "她每天早上喝绿茶。"
WRITERS, UNTIL = 4, 40
COUNT = 300


def _environment(url: str) -> dict[str, str]:
    return {
        **FAST,
        "MEMSVC_METADATA__OPTIONS__URL": url,
        "MEMSVC_VECTORS__BACKEND": "pgvector",
        "MEMSVC_LEXICAL__BACKEND": "pg-fulltext",
    }


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers over one schema, started at the same time; the tests kill and restart them."""
    folder = tmp_path_factory.mktemp("alone")
    with schema() as url, ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        places = [ServerProcess(folder / name, _environment(url)) for name in ("one", "other")]
        one, other = pool.map(stack.enter_context, places)
        yield one, other


@pytest.fixture
def both(replicas: tuple[ServerProcess, ServerProcess]) -> Iterator[tuple[Stubs, Stubs]]:
    """The stubs of both."""
    with replicas[0].stubs() as one, replicas[1].stubs() as other:
        yield one, other


def _first(stubs: Stubs, query: str, scope: types_pb.Scope, **more: object) -> list[str]:
    return [search(stubs, scope, query, mode=mode, **more).hits[0].memory.id for mode in MODES]


def _reports(stubs: Stubs) -> list[tuple[int, int, int]]:
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    assert [bool(index.generation) for index in diagnosis.indexes] == [True, True]
    return [(index.missing_count, index.stale_count, index.orphaned_count) for index in diagnosis.indexes]


def test_what_one_writes_both_find(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """In both languages, by every retriever, filtered, and no more once it is deleted."""
    one, other = both
    harbour = create(one, scope, HARBOUR, tags=["sea"], importance=5)
    tea = create(other, scope, TEA, tags=["drink"])
    sea = filters_pb.Filter(tags_any=["sea"], min_importance=5)
    for stubs in both:
        assert _first(stubs, "harbour dawn", scope) == [harbour.id] * len(MODES)
        assert _first(stubs, "绿茶", scope) == [tea.id] * len(MODES)
        assert _first(stubs, "绿茶 harbour", scope, filter=sea) == [harbour.id] * len(MODES)
        assert found(stubs, types_pb.Scope(user_id="somebody else"), "harbour") == []
    assert found(other, scope, "harbuor", mode=KEYWORD) == [HARBOUR]
    one.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=harbour.id), timeout=TIMEOUT)
    assert [found(stubs, scope, "harbour dawn", mode=KEYWORD) for stubs in both] == [[], []]


def test_searches_and_writes_on_both_go_on_during_a_rebuild(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """Every search is whole, every acknowledged write is found by both at once and after the switch."""
    create_all(both[0], scope, [f"Walrus number{number} swims." for number in range(COUNT)])
    done = threading.Event()

    def searching(stubs: Stubs) -> int:
        turns = 0
        while not done.is_set():
            for mode in MODES:
                reply = search(stubs, scope, "number77", mode=mode)
                assert not reply.degraded
                assert mode == SEMANTIC or reply.hits[0].memory.content == "Walrus number77 swims."
            turns += 1
        return turns

    def writing(stubs: Stubs, name: str) -> list[str]:
        contents = []
        while not done.is_set():
            contents.append(f"Gannet {name}{len(contents)}x dives.")
            create(stubs, scope, contents[-1])
            for other in both:
                assert found(other, scope, contents[-1].split()[1], mode=KEYWORD, limit=1) == contents[-1:]
        return contents

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(searching, stubs) for stubs in both]
        writes = [pool.submit(writing, stubs, name) for stubs, name in zip(both, ("uno", "dos"), strict=True)]
        try:
            for stubs in both:
                *_, last = rebuilt(stubs)
                assert last.phase == admin_pb.REINDEX_PHASE_DONE
        finally:
            done.set()
        assert all(one.result(TIMEOUT) for one in work)
        written = [content for one in writes for content in one.result(TIMEOUT)]

    assert len(written) > 2
    for stubs in both:
        assert [found(stubs, scope, content.split()[1], mode=KEYWORD, limit=1) for content in written] == [
            [content] for content in written
        ]
        assert _reports(stubs) == [(0, 0, 0)] * 2


def test_what_a_killed_one_acknowledged_the_other_finds(replicas: tuple[ServerProcess, ServerProcess]) -> None:
    """One of two is killed in the middle of writes to both: nothing acknowledged is lost, and nothing is there twice."""
    writer = Writer()
    with replicas[0].stubs() as one, replicas[1].stubs() as other, ThreadPoolExecutor(WRITERS) as pool:
        runs = [pool.submit(writer.run, one, random.Random(seed)) for seed in range(WRITERS)]
        while len(writer.acknowledged) < UNTIL and not wait(runs, timeout=0.05, return_when=FIRST_COMPLETED).done:
            write(other, WRITTEN, f"written on the other {len(writer.acknowledged)}", wait_for=types_pb.WAIT_FOR_STORED)
        replicas[0].kill()
        for run in runs:
            run.result()
        # What the dead one had taken is lent anew; a write that waits for its index waits for what came before it, too.
        create(other, WRITTEN, "the last one")
        _all_found(other, writer)
        assert _reports(other) == [(0, 0, 0)] * 2
    replicas[0].start()
    with replicas[0].stubs() as one:
        _all_found(one, writer)
        assert _reports(one) == [(0, 0, 0)] * 2


def _all_found(stubs: Stubs, writer: Writer) -> None:
    hits = {word: search(stubs, WRITTEN, word, mode=KEYWORD, limit=100).hits for word in writer.acknowledged}
    for word, memory_id in writer.acknowledged.items():
        assert [hit.memory.id for hit in hits[word] if word in hit.memory.content] == [memory_id]


def test_an_index_of_a_newer_version_is_reported_and_one_that_lacks_entries_too(
    replicas: tuple[ServerProcess, ServerProcess],
) -> None:
    """Without a comparison of every entry. A start serves the index of the newer version, and does not rebuild it."""
    with (
        psycopg.connect(replicas[0].environment["MEMSVC_METADATA__OPTIONS__URL"], autocommit=True) as database,
        replicas[0].stubs() as one,
    ):
        create_all(one, SCOPE, [HARBOUR, TEA])
        at_rest(one)
        assert _lexical_notices(one) == {}

        made = "UPDATE index_generations SET manifest = regexp_replace(manifest, %s, %s) WHERE kind = 'index_terms'"
        database.execute(made, ('"analysis": "[0-9]+"', '"analysis": "999"'))
        replicas[1].kill()
        replicas[1].start()
        with replicas[1].stubs() as other:
            until(lambda: found(other, SCOPE, "harbour dawn", mode=KEYWORD) == [HARBOUR])
            assert found(other, SCOPE, "绿茶", mode=KEYWORD) == [TEA]
            assert "analysis 999" in _lexical_notices(other)[types_pb.WARNING_CODE_INDEX_STATE]

            live = database.execute("SELECT base FROM index_generations WHERE kind = 'index_terms' AND is_live")
            [(base,)] = live.fetchall()
            database.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(f"{base}{ENTRIES}")))
            assert "no change is pending" in _lexical_notices(other)[types_pb.WARNING_CODE_INDEX_DIFFERS]

            list(rebuilt(other))
            assert _lexical_notices(other) == {}


def _lexical_notices(stubs: Stubs) -> dict[types_pb.WarningCode.ValueType, str]:
    warnings = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).warnings
    return {one.code: one.message for one in warnings if "lexical" in one.message.lower()}


def test_a_database_that_goes_away_is_found_again(both: tuple[Stubs, Stubs]) -> None:
    """While it is down calls say UNAVAILABLE and when to come back; after it is back they work, on both, at once."""
    kept = create_all(both[0], SCOPE, ["kept one", "kept two"])
    with down():
        for stubs in both:
            with pytest.raises(grpc.RpcError) as caught:
                search(stubs, SCOPE, "kept")
            refusal = Refusal.from_error(caught.value)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE")
            assert refusal.retry_seconds

    again = create(both[1], SCOPE, "zebra again")
    for stubs in both:
        assert _first(stubs, "zebra again", SCOPE) == [again.id] * len(MODES)
        assert {hit.memory.id for hit in search(stubs, SCOPE, "kept").hits} >= {one.id for one in kept}


def test_a_database_that_goes_away_is_diagnosed(replicas: tuple[ServerProcess, ServerProcess]) -> None:
    """While it is down Diagnose names it, and says nothing of what only the store could tell; after it all is told."""
    with replicas[0].stubs() as stubs:
        create(stubs, SCOPE, "kept three")
        with down():
            away = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
            written = CliRunner().invoke(app, ["diagnose", "--address", replicas[0].bound])
        assert not away.healthy
        assert {each.port: each.healthy for each in away.backends}["metadata"] is False
        assert any(
            each.code == types_pb.WARNING_CODE_BACKEND_DOWN and "metadata" in each.message for each in away.warnings
        )
        assert not away.HasField("outbox")
        assert not away.indexes
        assert written.exit_code == 1
        assert "not known while the store is away" in written.stdout

        create(stubs, SCOPE, "kept four")
        back = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
        assert back.HasField("outbox")
        assert [each.port for each in back.backends if not each.healthy] == []
