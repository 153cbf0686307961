"""Slots over the wire: a caller who is silent, or reads nothing, keeps no other one out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import ASKING, Keyed, keyed
from tests.support.rpc import TIMEOUT, Refusal, create
from tests.support.server_process import Stubs
from tests.support.until import PATIENCE_SECONDS, until

EXHAUSTED, LATE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED
ADA, EVE = types_pb.Scope(user_id="ada"), types_pb.Scope(user_id="eve")
SLOTS = 8


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A service with few slots and short limits."""
    environment = ASKING | {
        "MEMSVC_FILES__MAX_STREAMS": str(SLOTS),
        "MEMSVC_WATCH__MAX_STREAMS": str(SLOTS),
        "MEMSVC_SERVER__FIRST_MESSAGE_SECONDS": "1.5",
        "MEMSVC_SERVER__NEXT_MESSAGE_SECONDS": "1.5",
        "MEMSVC_SERVER__READER_SECONDS": "1.5",
    }
    directory: Path = tmp_path_factory.mktemp("narrow") / "data"
    with keyed(directory, environment) as narrow:
        yield narrow


class Silent:
    """Messages of a client that stops after the first ones, until it is released."""

    def __init__(self, *messages: Any) -> None:
        self._messages = messages
        self.end = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        yield from self._messages
        self.end.wait(PATIENCE_SECONDS)


def begin_uploads(narrow: Keyed, channel: grpc.Channel, silent: Silent, count: int) -> list[Any]:
    """Begin uploads with the key "writer"."""
    metadata = (("authorization", f"Bearer {narrow.keys['writer'].text}"),)
    return [Stubs(channel).files.UploadFile.future(iter(silent), metadata=metadata) for _ in range(count)]


def header(scope: types_pb.Scope) -> file_pb.UploadFileRequest:
    return file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(scope=scope, name="note.txt"))


def upload(stubs: Stubs) -> file_pb.File:
    """Store a small file."""
    parts = [header(ADA), file_pb.UploadFileRequest(data=b"text")]
    return stubs.files.UploadFile(iter(parts), timeout=TIMEOUT).file


def code_of(call: Any) -> grpc.StatusCode:
    """Return the code that a call ends with."""
    with pytest.raises(grpc.RpcError) as failed:
        call.result(timeout=PATIENCE_SECONDS)
    return Refusal.from_error(failed.value).code


def test_silent_uploads_hold_no_slot_and_end(narrow: Keyed) -> None:
    """Three times as many as there are slots send nothing; others upload at once, and the silent ones are ended."""
    silent = Silent()
    with narrow.server.channel() as channel, narrow.stubs("other tenant") as ada:
        calls = begin_uploads(narrow, channel, silent, 3 * SLOTS)

        assert upload(ada).size_bytes == 4
        assert {code_of(call) for call in calls} == {LATE}
        silent.end.set()


def test_uploads_that_stop_leave_slots_to_another_tenant(narrow: Keyed) -> None:
    """After their header they hold the share of their key; another tenant uploads, and in time they are ended."""
    silent = Silent(header(EVE))
    with narrow.server.channel() as channel, narrow.stubs("ada") as same, narrow.stubs("other tenant") as ada:
        calls = begin_uploads(narrow, channel, silent, SLOTS)
        until(lambda: sum(call.done() for call in calls) >= SLOTS - SLOTS // 2)

        assert upload(ada).size_bytes == 4
        assert upload(same).size_bytes == 4
        codes = [code_of(call) for call in calls]
        assert codes.count(EXHAUSTED) == SLOTS - SLOTS // 2
        assert codes.count(LATE) == SLOTS // 2
        with narrow.stubs("writer") as eve:
            assert upload(eve).size_bytes == 4
        silent.end.set()


def test_watches_of_one_tenant_leave_some_to_another(narrow: Keyed) -> None:
    """The keys of a tenant have three quarters of the watches."""
    with narrow.stubs("writer") as eve, narrow.stubs("reader") as too, narrow.stubs("other tenant") as ada:
        request = memory_pb.WatchMemoriesRequest(scope=ADA)
        opened = [stubs.memory.WatchMemories(request) for stubs in (eve, too) for _ in range(SLOTS)]
        refused = 0
        for watch in opened:
            try:
                next(watch)
            except grpc.RpcError as error:
                assert Refusal.from_error(error).code is EXHAUSTED
                refused += 1

        assert refused == 2 * SLOTS - SLOTS * 3 // 4
        assert next(ada.memory.WatchMemories(request)).HasField("heartbeat")
        for watch in opened:
            watch.cancel()


def test_exports_that_are_not_read_are_ended(narrow: Keyed) -> None:
    """Readers who read one message each hold the share of their key, and lose it; others export meanwhile."""
    with narrow.stubs("writer") as eve, narrow.stubs("other tenant") as ada:
        for number in range(12):
            create(eve, EVE, f"{number} " + "x" * 900_000)
        create(ada, ADA, "Anna works as a nurse.")
        stalled = [eve.lifecycle.ExportUser(lifecycle_pb.ExportUserRequest(scope=EVE)) for _ in range(2)]
        for call in stalled:
            next(call)

        assert list(ada.lifecycle.ExportUser(lifecycle_pb.ExportUserRequest(scope=ADA), timeout=TIMEOUT))
        until(lambda: _can_export(eve))
        for call in stalled:
            with pytest.raises(grpc.RpcError) as failed:
                list(call)
            assert Refusal.from_error(failed.value).code is LATE


def _can_export(stubs: Stubs) -> bool:
    try:
        return bool(list(stubs.lifecycle.ExportUser(lifecycle_pb.ExportUserRequest(scope=EVE), timeout=TIMEOUT)))
    except grpc.RpcError as error:
        assert Refusal.from_error(error).code is EXHAUSTED
        return False
