"""Stray copies of vault files: the deletion of their memory holds, and an edit of a copy counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.until import until
from tests.support.user_data import erase

INVALID, RESTORED = admin_pb.VAULT_ACTION_INVALID, admin_pb.VAULT_ACTION_RESTORED


@contextmanager
def serving(folder: Path) -> Iterator[Stubs]:
    """Serve a vault that is only read when it is synchronised."""
    with served(folder / "data", vault={"directory": str(folder / "notes"), "watch": "off"}) as stubs:
        yield stubs


def sync(stubs: Stubs) -> list[tuple[str, int]]:
    """Synchronise the vault; return the names of files and what was done with them."""
    responses = stubs.admin.SyncVault(admin_pb.SyncVaultRequest(all=True), timeout=TIMEOUT)
    changes = [one.change for one in responses if one.HasField("change")]
    return [(change.path.rsplit("/", maxsplit=1)[-1], change.action) for change in changes]


def delete(stubs: Stubs, memory: types_pb.Memory, path: Path, *, purge: bool = False) -> None:
    """Delete a memory, and wait until its file is removed."""
    request = memory_pb.DeleteMemoryRequest(scope=memory.scope, id=memory.id, purge=purge)
    stubs.memory.DeleteMemory(request, timeout=TIMEOUT)
    until(lambda: not path.exists())


def stored_with_copy(stubs: Stubs, folder: Path) -> tuple[types_pb.Memory, Path, Path]:
    """Store a memory with a key; return it, its file, and a copy that a synchronisation rejected."""
    memory = create(stubs, types_pb.Scope(user_id="ada"), "The heron nests.", key="heron")
    [path] = until(lambda: list(folder.rglob("*heron*.md")))
    copy = path.with_name("copy.md")
    shutil.copy(path, copy)
    assert sync(stubs) == [("copy.md", INVALID)]
    return memory, path, copy


@pytest.mark.parametrize("purge", [False, True])
def test_a_deletion_holds_although_a_copy_of_the_file_remains(tmp_path: Path, *, purge: bool) -> None:
    """After a restart, too; the copy is left alone and reported."""
    with serving(tmp_path) as stubs:
        memory, path, copy = stored_with_copy(stubs, tmp_path)
        delete(stubs, memory, path, purge=purge)

        assert sync(stubs) == [("copy.md", INVALID)]
        assert list_all(stubs, memory.scope) == []
    with serving(tmp_path) as stubs:
        assert sync(stubs) == [("copy.md", INVALID)]
        assert list_all(stubs, memory.scope) == []
    assert copy.exists()


def test_a_copy_without_an_id_holds_no_deleted_text(tmp_path: Path) -> None:
    """It says the same under the same key."""
    with serving(tmp_path) as stubs:
        memory, path, copy = stored_with_copy(stubs, tmp_path)
        lines = path.read_text().splitlines(keepends=True)
        copy.write_text("".join(line for line in lines if not line.startswith("id:")))
        assert sync(stubs) == [("copy.md", INVALID)]
        delete(stubs, memory, path)

        assert sync(stubs) == [("copy.md", INVALID)]
        assert list_all(stubs, memory.scope) == []


def test_an_edited_copy_counts(tmp_path: Path) -> None:
    """With the id the memory is restored with the new text, and the next deletion takes the file with it."""
    with serving(tmp_path) as stubs:
        memory, path, copy = stored_with_copy(stubs, tmp_path)
        delete(stubs, memory, path)
        copy.write_text(copy.read_text().replace("nests", "flies"))

        assert sync(stubs) == [("copy.md", RESTORED)]
        [restored] = list_all(stubs, memory.scope)
        assert (restored.id, restored.content) == (memory.id, "The heron flies.")
        delete(stubs, restored, copy)
        assert sync(stubs) == []


def test_a_copy_takes_the_place_of_a_file_that_was_removed(tmp_path: Path) -> None:
    """The two together are a move; the file is no copy from then on, and its return restores its memory."""
    with serving(tmp_path) as stubs:
        memory, path, copy = stored_with_copy(stubs, tmp_path)
        path.unlink()
        assert sync(stubs) == [("copy.md", admin_pb.VAULT_ACTION_RENAMED)]
        away = shutil.move(copy, tmp_path / "away.md")
        (copy.parent / "other.md").write_text("Another note.\n")
        assert ("copy.md", admin_pb.VAULT_ACTION_DELETED) in sync(stubs)
        shutil.move(away, copy)

        assert sync(stubs) == [("copy.md", RESTORED)]
        assert memory.id in [one.id for one in list_all(stubs, memory.scope)]


def test_an_erasure_leaves_nothing_of_a_copy(tmp_path: Path) -> None:
    """Neither the file nor its path."""
    with serving(tmp_path) as stubs:
        memory, _, copy = stored_with_copy(stubs, tmp_path)
        assert erase(stubs, memory.scope.user_id, confirm=True).clean
        assert not copy.exists()
    assert not any(b"copy.md" in path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
