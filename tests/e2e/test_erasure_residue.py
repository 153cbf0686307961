"""What an erasure would overlook if it went by what it still knows of a user: bytes without a file, copies in pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.disk_scan import contents
from tests.support.files import download, upload
from tests.support.rpc import TIMEOUT, create, found, write
from tests.support.server_process import ServerProcess, Stubs
from tests.support.user_data import erase, removed

MEMORIES = 150


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of this module, whose files nobody else writes to."""
    with ServerProcess(tmp_path_factory.mktemp("leaving") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of this module's server."""
    with server.stubs() as stubs:
        yield stubs


def words_in(directory: Path, word: str) -> set[str]:
    """Return what begins with a word, in any file of the data directory."""
    pattern = re.compile(word.encode() + rb"[0-9a-z]*")
    return {one.decode() for _, held in contents(directory) for one in pattern.findall(held)}


def attached(stubs: Stubs, scope: types_pb.Scope, memory_id: str, content: bytes) -> None:
    """Upload a file that belongs to a memory."""
    upload(stubs, scope, content, category=types_pb.FILE_CATEGORY_MEMORY, metadata={"memory_id": memory_id})


def planted(stubs: Stubs, user: str, word: str, number: int) -> None:
    """Store a memory that says a word everywhere, in a project of its own, and at times a session and a checkpoint."""
    full = types_pb.Memory(content=f"Thing {word}content is number {number} in the drawer.", key=f"{word}key")
    full.title, full.summary, full.category = f"{word}title", f"{word}sum", f"{word}cat"
    full.source, full.speaker = f"{word}src", f"{word}spk"
    full.tags.append(f"{word}tag")
    full.metadata.update({f"m{word}": f"{word}meta"})
    write(stubs, types_pb.Scope(user_id=user, project_id=f"prj{word}"), full, wait_for=types_pb.WAIT_FOR_STORED)
    home = types_pb.Scope(user_id=user, project_id="p", session_id=f"{word}sess")
    if number % 4 == 0:
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=home, title=f"{word}st"), timeout=TIMEOUT)
        home.session_id = ""
        asked = lifecycle_pb.CreateCheckpointRequest(scope=home, name=f"{word}cp", note=f"{word}cpn")
        stubs.lifecycle.CreateCheckpoint(asked, timeout=TIMEOUT)


def test_bytes_of_memories_that_were_deleted_for_good_go(server: ServerProcess, stubs: Stubs) -> None:
    """Although no file names them any more; those that another user has too stay."""
    scope, other = types_pb.Scope(user_id="leaving-user"), types_pb.Scope(user_id="staying-user")
    kept = upload(stubs, other, b"tapirbytes of both")
    for content in (b"tapirbytes of one", b"tapirbytes of both"):
        holder = create(stubs, scope, f"holds {content.decode()[-4:]}")
        attached(stubs, scope, holder.id, content)
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=holder.id, purge=True), timeout=TIMEOUT)
    dry = removed(erase(stubs, scope.user_id))["blobs"]
    receipt = erase(stubs, scope.user_id, confirm=True)

    assert receipt.clean
    assert dry == removed(receipt)["blobs"]
    holding = [path for path, held in contents(server.data_dir) if b"tapirbytes" in held]
    assert [kept.sha256] == [path.name for path in holding]
    assert b"tapirbytes of both" == download(stubs, other, kept.id)


def test_no_page_of_the_database_keeps_a_copy(server: ServerProcess, stubs: Stubs) -> None:
    """Of no id, key, tag, project, session or checkpoint: pages keep what was moved out of them until it is overwritten."""
    user = "quollish-user"
    for number in range(MEMORIES):
        # Between the entries of others, so that pages are divided and joined.
        planted(stubs, user, f"numbat{number:04d}z", number)
        planted(stubs, f"witness{number % 7}", f"bilby{number:04d}z", number)
    receipt = erase(stubs, user, confirm=True)

    assert receipt.clean
    assert set() == words_in(server.data_dir, "quollish")
    assert set() == words_in(server.data_dir, "numbat")


@pytest.mark.parametrize(("user", "other"), [("bo", "bob"), ("bandicoot-1", "bandicoot-10"), ("long-tailed", "vole")])
def test_names_that_are_like_others_raise_no_alarm(stubs: Stubs, user: str, other: str) -> None:
    """A short one, and one with which another's begins; what the other has is as it was."""
    for one in (user, other):
        create(stubs, types_pb.Scope(user_id=one), f"The wombat of {one} digs.")
    receipt = erase(stubs, user, confirm=True)

    assert receipt.clean
    assert [f"The wombat of {other} digs."] == found(stubs, types_pb.Scope(user_id=other), "wombat")
    assert erase(stubs, user, confirm=True).clean
