"""A user is forgotten: by every store, index, cache and file, with a receipt that was checked."""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
import tantivy

from memsvc.domain.scope import Scope
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.tantivy.schema import owner_mark, term_key
from tests.support.disk_scan import contents
from tests.support.rpc import TIMEOUT, WAYS, create, create_all, found, list_all, refused, write
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until
from tests.support.user_data import erase, export, furnish, records, removed, take_in

SECRET, OTHER = "quaggasecret", "okapiword"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of this module, whose files nobody else writes to."""
    with ServerProcess(tmp_path_factory.mktemp("erasing") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of this module's server."""
    with server.stubs() as stubs:
        yield stubs


def files_with(directory: Path, word: str) -> set[str]:
    """Return the top folders of the data directory that have a file with a word in it."""
    return {path.relative_to(directory).parts[0] for path, held in contents(directory) if word.encode() in held}


def lexical_terms(directory: Path, user: str, word: str) -> int:
    """Return how many documents of a user have a word, in all generations of the index of words.

    Their files are compressed.
    """
    schema = None
    count = 0
    for folder in (directory / "lexical").glob("gen-*"):
        index = tantivy.Index.open(str(folder))
        schema = index.schema
        query = tantivy.Query.term_query(schema, "body", term_key(owner_mark(Scope(user).owner), word))
        count += index.searcher().search(query, 10).count
    return count


def test_nothing_is_left_in_any_file(server: ServerProcess, stubs: Stubs) -> None:
    """The secret was in the store and in both indexes; after the erasure no file has it, and the witness is whole."""
    # One is the beginning of the other.
    user, other = f"a{SECRET}", "a"
    furnish(stubs, other, OTHER)
    furnish(stubs, user, SECRET)
    watching = stubs.memory.WatchMemories(
        memory_pb.WatchMemoriesRequest(scope=types_pb.Scope(user_id=user), start=memory_pb.WATCH_START_OLDEST),
        timeout=TIMEOUT,
    )
    assert next(watching)
    watching.cancel()
    assert {"metadata", "vectors"} <= files_with(server.data_dir, SECRET)
    assert lexical_terms(server.data_dir, user, SECRET)
    before = export(stubs, other, include_vectors=True)
    dry = erase(stubs, user)
    assert (True, False, 0) == (dry.dry_run, dry.clean, dry.searched_file_count)
    assert removed(dry)["metadata"]["memories"] == len(records(export(stubs, user), "memory"))

    receipt = erase(stubs, user, confirm=True, request_id="once")
    assert (False, True) == (receipt.dry_run, receipt.clean)
    assert {"metadata": 0, "vectors": 0, "lexical": 0, "blobs": 0, "files": 0} == {
        store.store: store.remaining_count for store in receipt.stores
    }
    assert receipt.searched_file_count > 3
    counts = removed(receipt)
    assert removed(dry)["vectors"] == counts["vectors"]
    assert {
        "memories",
        "revisions",
        "sessions",
        "messages",
        "checkpoints",
        "tombstones",
        "requests",
        "embeddings",
        "outbox",
        "files",
        "use_calls",
        "use_reports",
        "use_counts",
        "use_feedback",
    } <= set(counts["metadata"])
    assert receipt == erase(stubs, user, confirm=True, request_id="once")
    assert set() == files_with(server.data_dir, SECRET)
    assert 0 == lexical_terms(server.data_dir, user, SECRET)
    assert lexical_terms(server.data_dir, other, OTHER)
    assert before.splitlines()[1:-1] == export(stubs, other, include_vectors=True).splitlines()[1:-1]
    scope = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    assert [] == list_all(stubs, scope, filter=filters_pb.Filter(include_expired=True, statuses=[1, 2, 6]))
    for way in WAYS.values():
        assert [] == found(stubs, scope, SECRET, **way)
    assert {} == {name: counts for name, counts in removed(erase(stubs, user)).items() if counts}
    witness = types_pb.Scope(user_id=other, project_id="p")
    assert any(OTHER in text for text in found(stubs, witness, "小王住在哪里？"))


def test_a_forgotten_user_may_come_back(stubs: Stubs, user: str) -> None:
    """As somebody new: the same key and content are free, the same request_id is not known."""
    scope = types_pb.Scope(user_id=user)
    request = {"request_id": "r"}
    first = write(stubs, scope, types_pb.Memory(content="The walrus sings.", key="k"), **request).memory
    erase(stubs, user, confirm=True)
    second = write(stubs, scope, types_pb.Memory(content="The walrus sings.", key="k"), **request).memory

    assert first.id != second.id
    assert ["The walrus sings."] == found(stubs, scope, "walrus")


def test_what_was_erased_can_be_taken_in_again(stubs: Stubs, user: str) -> None:
    """From a file that was exported before."""
    create_all(stubs, types_pb.Scope(user_id=user), ["one", "two"])
    file = export(stubs, user)
    erase(stubs, user, confirm=True)
    take_in(stubs, user, file)
    assert records(file) == records(export(stubs, user))


def test_a_copy_for_another_user_keeps_its_vectors(server: ServerProcess, stubs: Stubs, user: str) -> None:
    """Embeddings that somebody else's texts have too stay; those of the user alone go."""
    create_all(stubs, types_pb.Scope(user_id=user), [f"shared {number}" for number in range(5)])
    take_in(stubs, f"{user}-2", export(stubs, user), wait_for=types_pb.WAIT_FOR_INDEXED)
    create(stubs, types_pb.Scope(user_id=user), "of the first one alone")
    receipt = erase(stubs, user, confirm=True)

    assert (True, 1) == (receipt.clean, removed(receipt)["metadata"]["embeddings"])
    assert 5 == sum("vectors" in line for line in records(export(stubs, f"{user}-2", include_vectors=True)))
    assert server.process is not None


def test_a_user_whose_name_begins_with_another_is_forgotten(stubs: Stubs, user: str) -> None:
    """What the files hold of the other user, before values such as hashes, is no residue."""
    longer = f"{user}2"
    create_all(stubs, types_pb.Scope(user_id=user), [f"Stone {number} is heavy." for number in range(80)])
    create_all(stubs, types_pb.Scope(user_id=longer), ["A short stay."])

    receipt = erase(stubs, longer, confirm=True)

    assert (True, 0) == (receipt.clean, sum(store.remaining_count for store in receipt.stores))


def test_an_unknown_user_is_forgotten_at_once(stubs: Stubs, user: str) -> None:
    """Nothing was there, nothing is removed, and the indexes stay as they are."""
    receipt = erase(stubs, user, confirm=True)
    assert receipt.clean
    assert {} == {name: counts for name, counts in removed(receipt).items() if counts}


def test_writers_cannot_bring_a_user_back_half_way(stubs: Stubs, user: str) -> None:
    """While others write without a pause, what was acknowledged after the receipt is there, and nothing else."""
    scope = types_pb.Scope(user_id=user)
    create_all(stubs, scope, [f"walrus {number}" for number in range(100)])
    stopping = threading.Event()
    acknowledged: list[tuple[float, str]] = []
    refusals: list[grpc.StatusCode] = []

    def run(writer: int) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            began = time.monotonic()
            request = memory_pb.CreateMemoryRequest(
                scope=scope,
                memory=types_pb.Memory(content=f"writer {writer} {number}"),
                wait_for=types_pb.WAIT_FOR_STORED,
            )
            try:
                acknowledged.append((began, stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory.id))
            except grpc.RpcError as error:
                refusals.append(error.code())

    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    receipt = erase(stubs, user, confirm=True)
    ended = time.monotonic()
    stopping.set()
    for thread in threads:
        thread.join()

    assert receipt.clean
    left = {memory.id for memory in list_all(stubs, scope)}
    after = {name for _, name in acknowledged}
    assert left <= after
    assert set(refusals) <= {grpc.StatusCode.FAILED_PRECONDITION}
    assert {name for began, name in acknowledged if began > ended} <= left
    assert refusals


def test_a_stream_that_was_begun_before_is_refused(stubs: Stubs, user: str) -> None:
    """An import that sends its second half after the erasure stores none of it."""
    scope = types_pb.Scope(user_id=user)
    go_on = threading.Event()

    def sending() -> Iterator[memory_pb.ImportMemoriesRequest]:
        yield memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope))
        for first, content in enumerate(("before", "after")):
            memory = memory_pb.BatchMemory(memory=types_pb.Memory(content=content))
            yield memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=first, memories=[memory]))
            go_on.wait(TIMEOUT)

    call = stubs.memory.ImportMemories(sending(), timeout=TIMEOUT)
    for response in call:
        if response.created_count:
            break
    erase(stubs, user, confirm=True)
    go_on.set()
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert grpc.StatusCode.FAILED_PRECONDITION == caught.value.code()
    assert [] == list_all(stubs, scope)


def test_an_erasure_that_broke_off_is_finished(tmp_path: Path) -> None:
    """kill -9 in its middle: after the next start it is done by itself, and meanwhile nothing can be written."""
    user, other = f"gone-{uuid.uuid4()}", f"kept-{uuid.uuid4()}"
    with ServerProcess(tmp_path / "data") as server:
        with server.stubs() as stubs:
            for part in range(3):
                create_all(stubs, types_pb.Scope(user_id=user), [f"{SECRET} {part} {number}" for number in range(400)])
            create(stubs, types_pb.Scope(user_id=other), "kept")
            asked = threading.Thread(target=_erase_quietly, args=(stubs, user))
            asked.start()
            _wait_until_begun(server.data_dir)
            server.kill()
            asked.join()
        server.start()
        with server.stubs() as stubs:
            receipt = erase(stubs, user, confirm=True, request_id="again")
            assert receipt.clean
            assert set() == files_with(server.data_dir, SECRET)
            assert ["kept"] == [memory.content for memory in list_all(stubs, types_pb.Scope(user_id=other))]


def _erase_quietly(stubs: Stubs, user: str) -> None:
    try:
        erase(stubs, user, confirm=True, request_id="first")
    except grpc.RpcError:
        return


def _wait_until_begun(data_dir: Path) -> None:
    """Return once the first memories are gone."""
    with closing(sqlite3.connect(data_dir / "metadata" / "memsvc.db")) as database:
        until(lambda: database.execute("SELECT count(*) FROM memories").fetchone()[0] <= 1_100)


def test_while_an_erasure_runs_the_reason_is_told(stubs: Stubs, server: ServerProcess, user: str) -> None:
    """As it is noted in the store: ERASURE_RUNNING."""
    from memsvc.domain.scope import Scope  # noqa: PLC0415
    from memsvc.domain.user_data import owner_digest  # noqa: PLC0415 - here alone

    scope = types_pb.Scope(user_id=user)
    old = create(stubs, scope, "old")
    owner = Scope(user).owner
    with closing(sqlite3.connect(server.data_dir / "metadata" / "memsvc.db", timeout=TIMEOUT)) as database:
        values = (owner_digest(owner), owner, "r", 1, None, '[""]', "")
        database.execute("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        database.commit()
    refusal = refused(
        stubs.memory.CreateMemory, memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="new"))
    )
    changed = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=old.id, content="changed"))
    for one in (refusal, refused(stubs.memory.UpdateMemory, changed)):
        assert (grpc.StatusCode.FAILED_PRECONDITION, "ERASURE_RUNNING") == (one.code, one.reason)
    assert ["old"] == [memory.content for memory in list_all(stubs, scope)]
    assert erase(stubs, user, confirm=True).clean
    assert "new" == create(stubs, scope, "new").content
