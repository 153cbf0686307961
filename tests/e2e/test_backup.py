"""Backups: made while the service is used, verified, restored, found again."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.command_line import invoke
from tests.support.rpc import TIMEOUT, create, create_all, found, list_all, refused
from tests.support.server_process import ServerProcess, Stubs
from tests.support.server_thread import served
from tests.support.until import until
from tests.support.user_data import erase, export, furnish, records

DONE = admin_pb.BACKUP_PHASE_DONE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of this module, whose backups are its own."""
    with ServerProcess(tmp_path_factory.mktemp("backups") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of this module's server."""
    with server.stubs() as stubs:
        yield stubs


def back_up(stubs: Stubs, name: str = "") -> admin_pb.CreateBackupResponse:
    """Make a backup and return the last response."""
    *_, last = stubs.admin.CreateBackup(admin_pb.CreateBackupRequest(name=name), timeout=TIMEOUT)
    assert DONE == last.phase
    return last


def test_a_backup_made_while_writing_is_restored(
    server: ServerProcess, stubs: Stubs, user: str, tmp_path: Path
) -> None:
    """Everything acknowledged before it is there; a server that starts from it finds it; the original goes on."""
    furnish(stubs, user, "quagga")
    scope = types_pb.Scope(user_id=f"{user}-busy")
    create_all(stubs, scope, [f"walrus {number}" for number in range(300)])
    stopping = threading.Event()
    written: list[str] = []

    def writing() -> None:
        while not stopping.is_set():
            request = memory_pb.CreateMemoryRequest(
                scope=scope,
                memory=types_pb.Memory(content=f"meanwhile {len(written)}"),
                wait_for=types_pb.WAIT_FOR_STORED,
            )
            written.append(stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory.id)

    thread = threading.Thread(target=writing)
    thread.start()
    until(lambda: len(written) >= 3)
    before = list(written)
    last = back_up(stubs, "busy")
    stopping.set()
    thread.join()
    file = export(stubs, user, include_vectors=True)

    folder = server.data_dir / "backups" / "busy"
    manifest = (folder / "manifest.json").read_bytes()
    assert hashlib.sha256(manifest).hexdigest() == last.manifest_sha256
    assert dict(last.row_counts) == json.loads(manifest)["counts"]
    told = invoke("restore", str(folder), "--data-dir", str(tmp_path / "new"), "--json")
    assert 0 == told.exit_code, told.output
    assert dict(last.row_counts) == json.loads(told.stdout)["row_counts"]
    with ServerProcess(tmp_path / "new") as restored, restored.stubs() as there:
        assert file.splitlines()[1:-1] == export(there, user, include_vectors=True).splitlines()[1:-1]
        ids = {memory.id for memory in list_all(there, scope)}
        assert {*before} <= ids
        assert len(ids) < 300 + len(written) + 1
        assert _eventually_found(there, types_pb.Scope(user_id=user, project_id="p"), "小王住在哪里？", "波尔图")
        assert _eventually_found(there, types_pb.Scope(user_id=user), "where does Anna live?", "Porto")
        assert create(there, scope, "after the restore").content


def _eventually_found(stubs: Stubs, scope: types_pb.Scope, query: str, word: str) -> bool:
    """Return whether a search finds a word once the indexes are built."""

    def is_found() -> bool:
        try:
            return any(word in text for text in found(stubs, scope, query))
        except grpc.RpcError as error:
            assert grpc.StatusCode.UNAVAILABLE == error.code()
            return False

    return until(is_found)


def test_names_are_checked_and_taken_once(stubs: Stubs) -> None:
    """Without a name it is called by the time."""
    assert back_up(stubs).name.startswith("backup-20")
    back_up(stubs, "twice")
    refusal = refused(stubs.admin.CreateBackup, admin_pb.CreateBackupRequest(name="twice"))
    assert (grpc.StatusCode.ALREADY_EXISTS, "BACKUP_EXISTS") == (refusal.code, refusal.reason)
    for name in ("../x", "a/b", ".", "-a", "x" * 65, "a.unfinished", "a\0", "ä"):
        refusal = refused(stubs.admin.CreateBackup, admin_pb.CreateBackupRequest(name=name))
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("name",)) == (refusal.code, refusal.fields)


def test_a_folder_that_cannot_be_written_is_named_by_its_setting(tmp_path: Path) -> None:
    """Why, and what to change."""
    tmp_path.joinpath("file").write_text("no folder")
    with served(tmp_path / "data", backup={"directory": str(tmp_path / "file" / "backups")}) as stubs:
        refusal = refused(stubs.admin.CreateBackup, admin_pb.CreateBackupRequest())

    assert (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE") == (refusal.code, refusal.reason)
    assert "(Not a directory): see the setting backup.directory" in refusal.message


def test_a_damaged_backup_is_not_restored(server: ServerProcess, stubs: Stubs, user: str, tmp_path: Path) -> None:
    """Nor one into a directory that holds anything, nor a folder that is none; nothing is left behind."""
    create(stubs, types_pb.Scope(user_id=user), "An egret.")
    back_up(stubs, "whole")
    folder = server.data_dir / "backups" / "whole"
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x")
    assert "not empty" in _refusal(folder, full)
    assert "is not a backup" in _refusal(tmp_path, tmp_path / "new")
    damages = {
        "metadata/memsvc.db": "damaged",
        "manifest.json": "cannot be read",
    }
    for number, (name, word) in enumerate(damages.items()):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(folder, copy)
        with (copy / name).open("r+b") as file:
            file.seek(20)
            file.write(b"\0\0\0\0")
        assert word in _refusal(copy, tmp_path / "new")
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"version": 2}))
    assert "version 2" in _refusal(other, tmp_path / "new")
    (other / "manifest.json").write_text(json.dumps(manifest | {"counts": {}}))
    assert "its manifest says" in _refusal(other, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.restoring"))


def test_a_backup_is_restored_into_an_empty_volume(
    server: ServerProcess, stubs: Stubs, user: str, tmp_path: Path
) -> None:
    """By its own path, after a restore that was killed, and by a link; a directory with the files of another is not."""
    create(stubs, types_pb.Scope(user_id=user), "A heron.")
    back_up(stubs, "volume")
    folder = server.data_dir / "backups" / "volume"
    volume, linked, link = (tmp_path / name for name in ("volume", "linked", "link"))
    (volume / "lost+found").mkdir(parents=True)
    (volume / ".restoring" / "metadata").mkdir(parents=True)
    linked.mkdir()
    link.symlink_to(linked)
    for place in (volume, link):
        told = invoke("restore", str(folder), "--data-dir", str(place))
        assert 0 == told.exit_code, told.output
        assert (place / "metadata").is_dir()
        assert not (place / ".restoring").exists()
        assert "not empty" in _refusal(folder, place)
    assert link.is_symlink()
    with ServerProcess(volume) as restored, restored.stubs() as there:
        assert ["A heron."] == [one.content for one in list_all(there, types_pb.Scope(user_id=user))]


def _refusal(backup: Path, data_dir: Path) -> str:
    told = invoke("restore", str(backup), "--data-dir", str(data_dir))
    assert 1 == told.exit_code
    return told.stderr


def test_receipts_name_the_backups(server: ServerProcess, stubs: Stubs, user: str, tmp_path: Path) -> None:
    """An erasure leaves them alone; whoever restores one has the user again."""
    create(stubs, types_pb.Scope(user_id=user), "The quagga sleeps.")
    back_up(stubs, "before")
    receipt = erase(stubs, user, confirm=True)

    assert receipt.clean
    assert "before" in receipt.backups
    folder = server.data_dir / "backups" / "before"
    told = invoke("restore", str(folder), "--data-dir", str(tmp_path / "new"))
    assert 0 == told.exit_code
    with ServerProcess(tmp_path / "new") as restored, restored.stubs() as there:
        assert 1 == len(records(export(there, user)))


def test_the_commands_carry_and_forget_a_user(server: ServerProcess, stubs: Stubs, user: str, tmp_path: Path) -> None:
    """export, import-user, erase and backup."""
    create(stubs, types_pb.Scope(user_id=user), "The walrus sings. 海象在唱歌。")
    at, file = ["--address", server.bound, "--user", user], str(tmp_path / "user.jsonl")

    def run(*arguments: str) -> str:
        told = invoke(*arguments, *at)
        assert 0 == told.exit_code, told.output
        return told.stdout

    assert "1 records" in run("export", file, "--vectors")
    assert 1 == invoke("export", file, *at).exit_code
    assert 0o600 == Path(file).stat().st_mode & 0o777
    assert "1 already there" in run("import-user", file)
    assert "Nothing was changed" in run("erase")
    assert "nothing is left" in run("erase", "--confirm")
    assert "1 memory" in run("import-user", file, "--wait")
    assert 1 == json.loads(run("import-user", file, "--json"))["unchangedCount"]
    assert "named: " in run("backup", "named")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(Path(file).read_bytes()[:-50])
    told = invoke("import-user", str(cut), *at)
    assert (1, True) == (told.exit_code, "Line 3 of cut.jsonl cannot be imported: it has no end" in told.stderr)
    cut.write_bytes(b"".join([*Path(file).read_bytes().splitlines(keepends=True)[:1], b"garbage\n"]))
    told = invoke("import-user", str(cut), *at)
    assert told.stderr.startswith("memsvc: Line 2 of cut.jsonl cannot be imported: it must be one JSON object in UTF-8")
    assert b'"record":"header"' in invoke("export", *at).stdout_bytes
