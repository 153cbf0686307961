"""The text of files in a service of its own: kills, hostile files, export, erasure, backup and missing libraries."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from memsvc.bootstrap.offline import restore
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_file_texts import context_of, found, indexed, settled
from tests.e2e.test_files_export_erase_backup import exported, imported
from tests.e2e.test_profile_postgres import _environment
from tests.support import documents, postgres_server
from tests.support.disk_scan import contents
from tests.support.files import upload
from tests.support.rpc import TIMEOUT
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

ADA = types_pb.Scope(user_id="ada")
MB = 1_000_000
ENDLESS = documents.pdf([], streams=[zlib.compress(b"q Q " * 10 * MB)] * 60)
"""Some 40 seconds of processor time, of which no page needs much memory."""
SMALL_LIMITS = FAST | {
    "MEMSVC_FILES__TEXT__CPU_SECONDS": "4",
    "MEMSVC_FILES__TEXT__MEMORY_BYTES": str(1 << 29),
    "MEMSVC_FILES__TEXT__MAX_EXPANDED_BYTES": str(20 * MB),
}


def reason_of(file: file_pb.File) -> str:
    """Return why a file has no text."""
    return file_pb.FileTextReason.Name(file.text.reason).removeprefix("FILE_TEXT_REASON_")


def names_found(stubs: Stubs, query: str, scope: types_pb.Scope = ADA) -> list[str]:
    """Return the names of the files with passages that match."""
    return [hit.file.file.name for hit in found(stubs, scope, query).files if hit.passages]


def test_hostile_files_harm_nobody(tmp_path: Path) -> None:
    """Each fails with its reason, those after it are indexed, and the service answers throughout."""
    body = b'<w:document xmlns:w="w"><w:p><w:t>' + b"a" * 100 * MB
    hostile = {
        "bomb.docx": (documents.docx([], body=body), "EXPANDED_TOO_LARGE"),
        "entities.docx": (documents.docx([], body='<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>'), "MALFORMED"),
        "huge.pdf": (documents.pdf([], streams=[zlib.compress(b"q " * 400 * MB)]), "MEMORY_EXCEEDED"),
        "endless.pdf": (ENDLESS, "TIME_EXCEEDED"),
        "deep.html": (b"<div>" * 100_000 + b"a", "NESTED_TOO_DEEPLY"),
        "wide.csv": (b"," * MB, "MALFORMED"),
    }
    with ServerProcess(tmp_path / "data", environment=SMALL_LIMITS) as server, server.stubs() as stubs:
        files = {name: upload(stubs, ADA, content, name=name) for name, (content, _) in hostile.items()}
        last = upload(stubs, ADA, b"The walrus sleeps.", name="last.txt")

        assert names_found(stubs, "nothing") == []
        assert {name: reason_of(settled(stubs, ADA, file.id)) for name, file in files.items()} == {
            name: reason for name, (_, reason) in hostile.items()
        }
        settled(stubs, ADA, last.id)
        assert names_found(stubs, "walrus") == ["last.txt"]
        for name, (content, _) in hostile.items():
            assert get_size(stubs, files[name]) == len(content)


def get_size(stubs: Stubs, file: file_pb.File) -> int:
    """Return the size of a file as its download has it."""
    request = file_pb.DownloadFileRequest(scope=ADA, id=file.id)
    return sum(len(part.data) for part in stubs.files.DownloadFile(request, timeout=TIMEOUT))


def test_a_killed_service_goes_on_with_texts(tmp_path: Path) -> None:
    """Those under way and those that waited, after the next start."""
    data = tmp_path / "data"
    slow = FAST | {"MEMSVC_FILES__TEXT__MEMORY_BYTES": str(1 << 31), "MEMSVC_FILES__TEXT__CPU_SECONDS": "4"}
    server = ServerProcess(data, environment=slow)
    with server, server.stubs() as stubs:
        first = upload(stubs, ADA, ENDLESS, name="endless.pdf")
        waiting = upload(stubs, ADA, b"The walrus sleeps.", name="waiting.txt")
        until(lambda: attempts_of(data, first.id))
        server.kill()

    with ServerProcess(data, environment=slow) as server, server.stubs() as stubs:
        assert reason_of(settled(stubs, ADA, first.id)) == "TIME_EXCEEDED"
        settled(stubs, ADA, waiting.id)
        assert names_found(stubs, "walrus") == ["waiting.txt"]


def database_of(data: Path) -> Path:
    """Return the database in a data directory."""
    [database] = [path for path in data.rglob("*") if path.is_file() and path.read_bytes()[:13] == b"SQLite format"]
    return database


def attempts_of(data: Path, file_id: str) -> int:
    """Return how many extractions of a file were begun."""
    with closing(sqlite3.connect(database_of(data))) as connection:
        [(attempts,)] = connection.execute("SELECT text_attempts FROM files WHERE id = ?", [file_id])
    return int(attempts)


def test_a_file_that_kills_the_service_is_given_up(tmp_path: Path) -> None:
    """After three attempts, so that the service does not die of it at each start."""
    data = tmp_path / "data"
    with ServerProcess(data) as server, server.stubs() as stubs:
        file = indexed(stubs, ADA, b"The walrus sleeps.", name="a.txt")
    with closing(sqlite3.connect(database_of(data))) as connection:
        connection.execute("UPDATE files SET text_state = 'PENDING', text_attempts = 3, text_time = 0")
        connection.commit()

    with ServerProcess(data) as server, server.stubs() as stubs:
        assert reason_of(settled(stubs, ADA, file.id)) == "CRASHED"
        assert names_found(stubs, "walrus") == []


def test_an_erased_user_leaves_no_text(tmp_path: Path) -> None:
    """In no table and in no file of the data directory; the receipt says what was removed."""
    text = "The walrus pool of Tromsø leaks on Fridays, says Mia Lindqvist."
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        indexed(stubs, ADA, text.encode(), name="a.txt")
        bob = types_pb.Scope(user_id="bob")
        indexed(stubs, bob, b"The otter sleeps.", name="b.txt")
        request = lifecycle_pb.EraseUserRequest(scope=ADA, confirm=True, request_id="e")
        receipt = stubs.lifecycle.EraseUser(request, timeout=TIMEOUT).receipt

        removed = {store.store: dict(store.removed_counts) for store in receipt.stores}["metadata"]
        assert receipt.clean
        assert removed["file_passages"] == 1
        assert removed["file_words"] > 5
        assert names_found(stubs, "walrus") == []
        assert names_found(stubs, "otter", bob) == ["b.txt"]
    assert [path.name for path, data in contents(tmp_path / "data") if b"Lindqvist" in data] == []


def test_texts_are_carried_and_restored(tmp_path: Path) -> None:
    """An imported file gets its text with its content; a backup holds the text of its moment."""
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        indexed(stubs, ADA, b"The walrus sleeps.", name="a.txt")
        other = types_pb.Scope(user_id="other")
        imported(stubs, "other", exported(stubs, "ada"))
        assert names_found(stubs, "walrus", other) == []
        upload(stubs, other, b"The walrus sleeps.", name="again.txt")
        until(lambda: sorted(names_found(stubs, "walrus", other)) == ["a.txt", "again.txt"])
        *_, _ = stubs.admin.CreateBackup(admin_pb.CreateBackupRequest(name="b"), timeout=TIMEOUT)

    restore(tmp_path / "data" / "backups" / "b", tmp_path / "again", lambda *_: None)
    shutil.rmtree(tmp_path / "data")
    with ServerProcess(tmp_path / "again") as server, server.stubs() as stubs:
        assert names_found(stubs, "walrus") == ["a.txt"]


def test_settings_of_texts(tmp_path: Path) -> None:
    """Turned off, no text is extracted; the next start with it extracts them. Contexts can leave files out."""
    data = tmp_path / "data"
    with ServerProcess(data, environment=FAST | {"MEMSVC_FILES__TEXT__ENABLED": "false"}) as server:
        with server.stubs() as stubs:
            file = indexed(stubs, ADA, b"The walrus sleeps.", name="a.txt")
            assert reason_of(file) == "DISABLED"
    few = FAST | {"MEMSVC_FILES__TEXT__MAX_CHARS": "1000", "MEMSVC_CONTEXT__FILES": "false"}
    with ServerProcess(data, environment=few) as server, server.stubs() as stubs:
        settled(stubs, ADA, file.id)
        until(lambda: names_found(stubs, "walrus") == ["a.txt"])
        long = indexed(stubs, ADA, b"The otter sleeps.\n" * 500, name="b.txt")
        assert long.text.truncated
        assert long.text.char_count < 3_000
        assert not context_of(stubs, ADA, "walrus sleeps").citations
        alone: Any = {"sections": [search_pb.CONTEXT_SECTION_FILES]}
        assert context_of(stubs, ADA, "walrus sleeps", **alone).citations


def test_texts_on_postgresql(tmp_path: Path) -> None:
    """In two languages; two services share the work, and one takes over what the other one left."""
    with postgres_server.schema() as url:
        environment = _environment(url) | {"MEMSVC_BLOBS__OPTIONS__URL": (tmp_path / "blobs").as_uri()}
        with ServerProcess(tmp_path / "one", environment) as one, ServerProcess(tmp_path / "two", environment) as two:
            with one.stubs() as stubs, two.stubs() as others:
                files = [
                    upload(stubs, ADA, f"The walrus {at} sleeps. 海象池漏水。".encode(), name=f"{at}.txt")
                    for at in range(6)
                ]
                assert {reason_of(settled(others, ADA, file.id)) for file in files} == {"UNSPECIFIED"}
                assert sorted(names_found(others, "walrus sleeps")) == sorted(names_found(stubs, "海象 漏水"))
                assert len(names_found(stubs, "walrus sleeps")) == 6
                assert len(context_of(others, ADA, "walrus sleeps").citations) == 6
                assert names_found(others, "walrus", types_pb.Scope(user_id="ada-2")) == []
                assert not list(_faults(others))
                request = lifecycle_pb.EraseUserRequest(scope=ADA, confirm=True, request_id="e")
                assert stubs.lifecycle.EraseUser(request, timeout=TIMEOUT).receipt.clean
                assert names_found(others, "walrus") == []


def test_passages_without_a_file_are_noticed(tmp_path: Path) -> None:
    """CheckIntegrity reports them, and removes them with repair."""
    data = tmp_path / "data"
    with ServerProcess(data) as server, server.stubs() as stubs:
        indexed(stubs, ADA, b"The walrus sleeps.", name="a.txt")
    with closing(sqlite3.connect(database_of(data))) as connection:
        connection.execute("UPDATE file_passages SET file = file + 1000")
        connection.commit()
    with ServerProcess(data) as server, server.stubs() as stubs:
        [fault] = _faults(stubs)
        assert (fault.fault, fault.repaired) == (admin_pb.INTEGRITY_FAULT_REMAINS, False)
        [fault] = _faults(stubs, repair=True)
        assert fault.repaired
        assert not list(_faults(stubs))


def _faults(stubs: Stubs, **request: Any) -> Iterator[admin_pb.IntegrityFinding]:
    """Check the whole store."""
    asked = admin_pb.CheckIntegrityRequest(all=True, ignore_files=True, **request)
    for event in stubs.admin.CheckIntegrity(asked, timeout=TIMEOUT):
        if event.HasField("finding"):
            yield event.finding
