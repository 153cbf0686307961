"""Moving a service from its data directory to PostgreSQL while it is used, and back: nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.test_crash import SCOPE as WRITTEN
from tests.e2e.test_crash import Writer
from tests.support.command_line import invoke
from tests.support.postgres_server import schema
from tests.support.rpc import MODES, TIMEOUT, Refusal, create, create_all, found, list_all, refused, search, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.sessions import append, open_session, place, said
from tests.support.until import until
from tests.support.watch import watching

SCOPE = types_pb.Scope(user_id="ada", project_id="p")
HARBOUR, TEA = "The harbour opens at dawn.", "她每天早上喝绿茶。"
URL = "MEMSVC_METADATA__OPTIONS__URL"
HIDDEN = "tellme"
WRITERS, BEFORE = 3, 60


@pytest.fixture
def url() -> Iterator[str]:
    """The address of an empty schema, with a password that nobody asks for."""
    with schema() as address:
        yield address.replace("postgres:@", f"postgres:{HIDDEN}@")


def run(*arguments: str, exit_code: int = 0) -> str:
    """Run `memsvc migrate-backend` and return all that it says: never the password."""
    told = invoke("migrate-backend", *arguments)
    assert told.exit_code == exit_code, told.output
    assert HIDDEN not in told.output
    return told.output


class Talker:
    """Appends to a session until the service refuses, and remembers what was acknowledged."""

    def __init__(self, user: str) -> None:
        self.scope = place(user)
        self.acknowledged: list[str] = []

    def run(self, stubs: Stubs) -> None:
        """Append until the service takes no writes."""
        open_session(stubs, self.scope)
        while True:
            text = f"line {len(self.acknowledged)} 第{len(self.acknowledged)}句"
            try:
                append(stubs, self.scope, [text])
            except grpc.RpcError as error:
                assert Refusal.from_error(error).reason == "STORE_MOVED"
                return
            self.acknowledged.append(text)


def test_a_service_moves_to_postgresql_and_back_while_it_is_written_to(tmp_path: Path, url: str) -> None:
    """Memories, deletions, sessions, keys and reads of that time arrive; requests, cursors and searches go on."""
    place_ = tmp_path / "data"
    writer, talker = Writer(), Talker("talker")
    with ServerProcess(place_) as server, server.stubs() as stubs:
        with watching(stubs, SCOPE) as reader:
            harbour, tea = (create(stubs, SCOPE, content) for content in (HARBOUR, TEA))
            first = write(stubs, SCOPE, "once only", request_id="r1")
            reader.read(3)
            cursor = reader.cursor
        key = stubs.admin.CreateApiKey(admin_pb.CreateApiKeyRequest(name="k", role=3), timeout=TIMEOUT).api_key
        with ThreadPoolExecutor(WRITERS + 1) as pool:
            runs = [pool.submit(writer.run, stubs, random.Random(seed)) for seed in range(WRITERS)]
            runs.append(pool.submit(talker.run, stubs))
            while len(writer.acknowledged) < BEFORE and not wait(runs, 0.05, return_when=FIRST_COMPLETED).done:
                pass
            told = run("--url", url, "--address", server.bound)
            for each in runs:
                each.result()
        assert "memories\t" in told
        assert "writes waited for" in told
        assert ":PASSWORD@" in told
        refusal = refused(stubs.memory.DeleteMemory, _deletion(harbour.id))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_MOVED")
        assert refusal.retry_seconds
        assert found(stubs, SCOPE, "harbour dawn")[0] == HARBOUR
        _assert_moved(server, stubs)
        assert server.stop() == 0
        assert HIDDEN not in server.log.read_text()
    assert len(writer.acknowledged) > BEFORE
    with pytest.raises(RuntimeError, match=r"were moved to postgresql://postgres@.*migrate-backend --undo"):
        ServerProcess(place_).start()
    checked = invoke("check", "--data-dir", str(place_))
    assert checked.exit_code == 1
    assert "were moved to postgresql://postgres@" in checked.output

    with ServerProcess(place_, {**FAST, URL: url}) as server, server.stubs() as stubs:
        _assert_all(stubs, writer, talker)
        assert search(stubs, SCOPE, "绿茶", mode=MODES[0]).hits[0].memory.id == tea.id
        assert write(stubs, SCOPE, "once only", request_id="r1").memory.id == first.memory.id
        keys = stubs.admin.ListApiKeys(admin_pb.ListApiKeysRequest(), timeout=TIMEOUT).api_keys
        assert [each.id for each in keys] == [key.id]
        with watching(stubs, SCOPE, cursor=cursor) as reader:
            later = create(stubs, SCOPE, "written to PostgreSQL")
            assert [one.memory_id for one in reader.read(1)] == [later.id]
            cursor = reader.cursor
        run("--to", "embedded", "--address", server.bound)
        assert refused(stubs.memory.DeleteMemory, _deletion(tea.id)).reason == "STORE_MOVED"

    with ServerProcess(place_) as server, server.stubs() as stubs:
        _assert_all(stubs, writer, talker)
        assert found(stubs, SCOPE, "written to PostgreSQL")[0] == "written to PostgreSQL"
        with watching(stubs, SCOPE, cursor=cursor) as reader:
            last = create(stubs, SCOPE, "back again")
            assert [one.memory_id for one in reader.read(1)] == [last.id]


def test_a_move_goes_on_after_kill_9_and_is_taken_back(tmp_path: Path, url: str) -> None:
    """By the service again or, while none runs, by the command itself; a dry run says what there is to do."""
    folder = tmp_path / "data"
    at = ("--data-dir", str(folder))
    with ServerProcess(folder) as server:
        with server.stubs() as stubs:
            create_all(stubs, SCOPE, [f"walrus {number}" for number in range(300)])
            request = admin_pb.MigrateBackendRequest(target=admin_pb.MigrationTarget(postgresql_url=url))
            steps = stubs.admin.MigrateBackend(request, timeout=TIMEOUT)
            while next(steps).phase != admin_pb.MIGRATION_PHASE_COPYING:
                pass
            server.kill()
        server.start()
        with server.stubs() as stubs:
            create(stubs, SCOPE, "written after the kill")
        server.kill()
    checked = json.loads(run("--dry-run", "--json", "--url", url, *at).splitlines()[-1])
    assert "goes on where it was" in checked["message"]
    assert {one["name"]: one["rowCount"] for one in checked["tables"]}["memories"] == 301
    *_, last = (json.loads(line) for line in run("--json", "--url", url, *at).splitlines() if line.startswith("{"))
    assert last["phase"] == "MIGRATION_PHASE_DONE"
    assert all(len(one["digest"]) == 32 for one in last["tables"])

    with ServerProcess(folder, {**FAST, URL: url}) as server, server.stubs() as stubs:
        assert _count(stubs) == 301
    assert "takes writes" not in run("--undo", "--url", url, *at)
    with ServerProcess(folder) as server, server.stubs() as stubs:
        assert _count(stubs) == 301
        assert create(stubs, SCOPE, "here again").id
        assert invoke("health", "--address", server.bound, "--service", "writes").exit_code == 0
    with pytest.raises(RuntimeError, match="were moved to the embedded store"):
        ServerProcess(tmp_path / "other", {**FAST, URL: url}).start()


def test_wrong_input_is_told_by_the_field(stubs: Stubs) -> None:
    """All of it at once, and never the address, which may hold a password."""
    wrong: list[tuple[Any, tuple[str, ...]]] = [
        (admin_pb.MigrateBackendRequest(), ("target.store",)),
        (
            admin_pb.MigrateBackendRequest(action=99, discard_changes=True),
            ("target.store", "action", "discard_changes"),
        ),  # type: ignore[arg-type] # no value of the enum
        (_to(f"mysql://u:{HIDDEN}@h/d"), ("target.postgresql_url",)),
        (_to(f"postgresql://u:{HIDDEN}@h/d\n"), ("target.postgresql_url",)),
        (_to(f"postgresql://u:{HIDDEN}@h/" + "x" * 2048), ("target.postgresql_url",)),
    ]
    for request, fields in wrong:
        refusal = refused(stubs.admin.MigrateBackend, request)
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, fields)
        assert HIDDEN not in refusal.message


def test_what_cannot_be_done_is_refused_with_advice(stubs: Stubs) -> None:
    """Nobody answers there, nothing was moved, the store is there already: and the service goes on."""
    embedded = admin_pb.MigrationTarget(embedded=admin_pb.EmbeddedStore())
    nowhere = _to(f"postgresql://u:{HIDDEN}@127.0.0.1:1/d")
    undo = admin_pb.MigrateBackendRequest(target=embedded, action=admin_pb.MIGRATION_ACTION_UNDO, discard_changes=True)
    for request in (nowhere, admin_pb.MigrateBackendRequest(target=embedded), undo):
        refusal = refused(stubs.admin.MigrateBackend, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MIGRATION_REFUSED")
        assert HIDDEN not in refusal.message
    assert create(stubs, types_pb.Scope(user_id="goes on"), "still written").id


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "MEMSVC_MIGRATE_URL"),
        (("--to", "embedded", "--url", "postgresql://h/d"), "--url goes with"),
        (("--url", "postgresql://h/d", "--undo", "--abort"), "Say one of"),
    ],
)
def test_the_command_says_what_is_missing(arguments: tuple[str, ...], word: str) -> None:
    """Before it looks for a service or a directory."""
    assert word in run(*arguments, exit_code=1)


def test_the_variable_of_the_database_does_not_stop_the_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays set in the shell in which the move there was made."""
    monkeypatch.setenv("MEMSVC_MIGRATE_URL", "postgresql://h/d")

    said = run("--to", "embedded", "--data-dir", str(tmp_path), exit_code=1)

    assert "--url" not in said


def _assert_moved(server: ServerProcess, stubs: Stubs) -> None:
    """The old service is not ready, names the reason, and serves searches; the probe of the process stays well."""
    until(lambda: invoke("health", "--address", server.bound).exit_code == 1)
    said = invoke("health", "--address", server.bound, "--service", "writes")
    assert said.exit_code == 1
    assert "memsvc diagnose" in said.output
    for name in ("liveness", "backend.metadata", "memsvc.v1.SearchService"):
        assert invoke("health", "--address", server.bound, "--service", name).exit_code == 0, name
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    [warning] = [one for one in diagnosis.warnings if one.code == types_pb.WARNING_CODE_STORE_MOVED]
    assert not diagnosis.healthy
    assert warning.message.startswith("The data of this store were moved to postgresql://postgres@")
    assert HIDDEN not in warning.message


def _to(url: str) -> admin_pb.MigrateBackendRequest:
    return admin_pb.MigrateBackendRequest(target=admin_pb.MigrationTarget(postgresql_url=url))


def _deletion(memory_id: str) -> Any:

    return memory_pb.DeleteMemoryRequest(scope=SCOPE, id=memory_id)


def _count(stubs: Stubs) -> int:
    request = admin_pb.GetStatsRequest(scope=SCOPE)
    return int(stubs.admin.GetStats(request, timeout=TIMEOUT).memory_count)


def _assert_all(stubs: Stubs, writer: Writer, talker: Talker) -> None:
    """What was acknowledged is stored and found, and the indexes hold what the store holds."""
    stored = {memory.id for memory in list_all(stubs, WRITTEN)}
    assert set(writer.acknowledged.values()) <= stored
    for word, memory_id in list(writer.acknowledged.items())[-3:]:
        hits = search(stubs, WRITTEN, word, mode=search_pb.SEARCH_MODE_KEYWORD, limit=5).hits
        assert memory_id in [hit.memory.id for hit in hits]
    for word in list(writer.deleted)[-3:]:
        assert not any(word in text for text in found(stubs, WRITTEN, word, mode=search_pb.SEARCH_MODE_KEYWORD))
    assert [one.content for one in said(stubs, talker.scope)] == talker.acknowledged
    assert search(stubs, SCOPE, "harbour dawn", mode=MODES[0]).hits[0].memory.content == HARBOUR
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=120)
    assert [(0, 0, 0)] * 2 == [
        (index.missing_count, index.stale_count, index.orphaned_count) for index in diagnosis.indexes
    ]
