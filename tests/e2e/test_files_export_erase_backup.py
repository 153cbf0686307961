"""Files when users are carried elsewhere or forgotten, and when the service is copied or killed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.bootstrap.offline import restore
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.test_files import blobs_of, staged_in
from tests.support.files import delete, digest_of, download, listed, messages, upload
from tests.support.files import get as get_file
from tests.support.rpc import TIMEOUT, create, get, list_all, refused
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until


def exported(stubs: Stubs, user: str) -> bytes:
    """Return all of a user as a file."""
    request = lifecycle_pb.ExportUserRequest(scope=types_pb.Scope(user_id=user))
    return b"".join(part.data for part in stubs.lifecycle.ExportUser(request, timeout=TIMEOUT))


def imported(stubs: Stubs, user: str, data: bytes) -> lifecycle_pb.ImportUserResponse:
    """Take a user in, and return the last answer."""
    header = lifecycle_pb.ImportUserHeader(scope=types_pb.Scope(user_id=user))
    requests = [lifecycle_pb.ImportUserRequest(header=header), lifecycle_pb.ImportUserRequest(data=data)]
    *_, last = stubs.lifecycle.ImportUser(iter(requests), timeout=TIMEOUT)
    return last


def test_an_import_brings_what_is_known_and_no_bytes(stubs: Stubs, user: str) -> None:
    """Who knows a hash has no claim to the bytes; who uploads them has them in all their files."""
    content = os.urandom(500)
    owner, other = types_pb.Scope(user_id=user), types_pb.Scope(user_id=f"{user}-2")
    file = upload(stubs, owner, content, name="图.png")
    memory = create(
        stubs, owner, "See the chart.", file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_UPLOAD, id=file.id)]
    )
    data = exported(stubs, user)

    assert imported(stubs, user, data).unchanged_count == 2
    assert imported(stubs, other.user_id, data).stored_counts["file"] == 1
    assert imported(stubs, other.user_id, data).unchanged_count == 2
    [brought] = stubs.files.ListFiles(file_pb.ListFilesRequest(scope=other), timeout=TIMEOUT).files
    assert (brought.name, brought.sha256, brought.content_missing) == ("图.png", file.sha256, True)
    assert brought.id != file.id
    # What speaks of the file speaks of the one that is here.
    ids = [stored.id for stored in list_all(stubs, other)]
    assert get(stubs, other, ids[0]).file_refs[0].id == brought.id
    assert get(stubs, owner, memory.id).file_refs[0].id == file.id
    refusal = refused(stubs.files.DownloadFile, file_pb.DownloadFileRequest(scope=other, id=brought.id))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FILE_CONTENT_MISSING")

    upload(stubs, other, content)
    assert download(stubs, other, brought.id) == content
    assert not get_file(stubs, other, brought.id).content_missing


def test_an_erased_user_leaves_no_bytes(tmp_path: Path) -> None:
    """But those that others have, too; the receipt tells of both."""
    own, shared = os.urandom(700), os.urandom(700)
    ada, bob = types_pb.Scope(user_id="ada"), types_pb.Scope(user_id="bob")
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        for scope, content in ((ada, own), (ada, shared), (bob, shared)):
            file = upload(stubs, scope, content)
        request = lifecycle_pb.EraseUserRequest(scope=ada, confirm=True, request_id="e")
        receipt = stubs.lifecycle.EraseUser(request, timeout=TIMEOUT).receipt

        removed = {store.store: dict(store.removed_counts) for store in receipt.stores}
        assert receipt.clean
        assert (removed["blobs"], removed["metadata"]["files"]) == ({"blobs": 1}, 2)
        assert set(blobs_of(server)) == {digest_of(shared)}
        assert listed(stubs, ada) == []
        assert download(stubs, bob, file.id) == shared


def test_a_backup_holds_the_bytes(tmp_path: Path) -> None:
    """Those of its moment; a service that is started on it gives them out."""
    content, scope = os.urandom(2000), types_pb.Scope(user_id="ada")
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        file = upload(stubs, scope, content)
        *_, done = stubs.admin.CreateBackup(admin_pb.CreateBackupRequest(name="b"), timeout=TIMEOUT)
        assert done.row_counts["files"] == 1
        delete(stubs, scope, file.id)
        assert blobs_of(server) == {}

    restore(tmp_path / "data" / "backups" / "b", tmp_path / "again", lambda *_: None)
    shutil.rmtree(tmp_path / "data")
    with ServerProcess(tmp_path / "again") as server, server.stubs() as stubs:
        assert download(stubs, scope, file.id) == content


def test_a_killed_service_leaves_nothing_half_written(tmp_path: Path) -> None:
    """What was acknowledged is there; what was on its way is gone after the next start, and can be sent again."""
    content, scope = os.urandom(3 << 20), types_pb.Scope(user_id="ada")
    server = ServerProcess(tmp_path / "data")
    with server, server.stubs() as stubs:
        kept = upload(stubs, scope, b"kept", request_id="kept")
        never = threading.Event()

        def halting() -> Iterator[file_pb.UploadFileRequest]:
            yield from messages(scope, content, request_id="r")
            never.wait(TIMEOUT)

        call = stubs.files.UploadFile.future(halting(), timeout=TIMEOUT)
        until(lambda: any(path.stat().st_size >= 2 << 20 for path in staged_in(server)))
        server.kill()
        never.set()
        with pytest.raises(grpc.RpcError):
            call.result()
        assert staged_in(server) != []

        server.start(until="memsvc.v1.FileService")
        with server.stubs() as again:
            assert staged_in(server) == []
            assert listed(again, scope) == ["a.bin"]
            assert download(again, scope, kept.id) == b"kept"
            assert upload(again, scope, b"kept", request_id="kept") == kept
            assert download(again, scope, upload(again, scope, content, request_id="r").id) == content
