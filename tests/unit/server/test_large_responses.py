"""Responses that are larger than a message may be."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import structlog

from memsvc.bootstrap.app import running
from memsvc.server.options import HttpOptions, ServerOptions
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.connect_channel import ConnectChannel
from tests.support.rpc import Refusal, create, list_all, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE
from tests.support.until import until

SCOPE = types_pb.Scope(user_id="ann")
LIMIT = 64 * 1024


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServerThread]:
    """Serve messages of at most 64 KiB."""
    chosen = BackendChoice(backend="in-memory")
    settings = Settings(
        data_dir=tmp_path,
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
    )
    options = ServerOptions(
        addresses=("127.0.0.1:0",), max_message_bytes=LIMIT, http=HttpOptions(address="127.0.0.1:0")
    )
    with running(settings) as application:
        server = ServerThread(application, options)
        with server.serving():
            yield server


@pytest.fixture
def stubs(served: ServerThread) -> Iterator[Stubs]:
    """Return the stubs, after three memories were stored that no response can hold together."""
    with grpc.insecure_channel(served.addresses[0]) as channel:
        stubs = Stubs(channel)
        for number in range(3):
            create(stubs, SCOPE, f"Whale {number}. " + "The whale sings. " * 1_500)
        yield stubs


def check(refusal: Refusal) -> None:
    """Compare the error with what errors.proto says of it."""
    assert (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESPONSE_TOO_LARGE") == (refusal.code, refusal.reason)
    assert refusal.metadata["limit_bytes"] == str(LIMIT)
    assert int(refusal.metadata["size_bytes"]) > LIMIT
    assert "page_size" in refusal.message
    assert refusal.retry_seconds is None


def test_a_large_page_is_refused_with_a_reason_and_a_smaller_one_is_not(stubs: Stubs) -> None:
    """By gRPC itself it would be refused without a reason, with a traceback in the log, and be logged as OK."""
    request = memory_pb.ListMemoriesRequest(scope=SCOPE)

    with structlog.testing.capture_logs() as logs:
        check(refused(stubs.memory.ListMemories, request))
        # The line is written after the response.
        until(lambda: logs)

    assert [("call ended", "RESOURCE_EXHAUSTED")] == [(line["event"], line.get("code")) for line in logs]
    assert 3 == len(list_all(stubs, SCOPE, page_size=2))
    assert 3 == len(list_all(stubs, SCOPE, read_mask={"paths": ["id"]}))


def test_a_large_response_of_a_stream_is_refused_with_the_same_reason(stubs: Stubs) -> None:
    """The stream ends by it."""
    search = search_pb.SearchRequest(scope=SCOPE, query="whale")

    check(refused(stubs.search.StreamSearch, search_pb.StreamSearchRequest(search=search)))


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize("form", ["json", "proto"])
def test_large_responses_over_connect_are_refused_with_the_same_reason(served: ServerThread, form: str) -> None:
    """The one response of a call, and those of a stream."""
    search = search_pb.SearchRequest(scope=SCOPE, query="whale")
    with ConnectChannel(served.addresses[1], form=form) as channel:
        stubs = Stubs(channel)

        check(refused(stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=SCOPE)))
        check(refused(stubs.search.StreamSearch, search_pb.StreamSearchRequest(search=search)))


def test_a_large_response_over_http_is_refused_as_well(served: ServerThread, stubs: Stubs) -> None:
    """The setting is that of both protocols."""
    url = f"{served.addresses[1]}/memsvc.v1.MemoryService/ListMemories"
    request = urllib.request.Request(  # noqa: S310 - of this machine
        url, b'{"scope": {"userId": "ann"}}', {"Content-Type": "application/json"}
    )

    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)  # noqa: S310 - of this machine

    with caught.value as answer:
        assert 429 == answer.status
        assert "page_size" in json.load(answer)["message"]
