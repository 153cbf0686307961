"""The bytes of what was attached to a memory go with it at once."""

from __future__ import annotations

from pathlib import Path

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create
from tests.support.server_process import ServerProcess


def test_bytes_of_a_memory_that_is_deleted_for_good_go_at_once(tmp_path: Path) -> None:
    """Those that another user has too stay; a soft deletion takes none."""
    scope, other = types_pb.Scope(user_id="u"), types_pb.Scope(user_id="o")
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs:
        kept = upload(stubs, other, b"of both")
        for content in (b"of one", b"of both"):
            holder = create(stubs, scope, f"holds {content.decode()}")
            attached = {"category": types_pb.FILE_CATEGORY_MEMORY, "metadata": {"memory_id": holder.id}}
            upload(stubs, scope, content, **attached)
            for hard in (False, True):
                assert len(blobs(server)) == (2 if content == b"of one" else 1)
                asked = memory_pb.DeleteMemoryRequest(
                    scope=scope, id=holder.id, purge=hard, request_id=f"{holder.id} {hard}"
                )
                stubs.memory.DeleteMemory(asked, timeout=TIMEOUT)
        assert blobs(server) == {kept.sha256}


def blobs(server: ServerProcess) -> set[str]:
    """Return the names of the files that hold the bytes of files."""
    return {path.name for path in (server.data_dir / "blobs" / "content").rglob("*") if path.is_file()}
