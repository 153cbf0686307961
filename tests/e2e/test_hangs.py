"""Dependencies that hang: the rest answers within a bounded time, what was acknowledged stays, and they recover."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.campaign.environment import Control
from tests.support import openai_chat_stub, openai_embeddings_stub, postgres_server
from tests.support.child_processes import edge_pids
from tests.support.files import download, messages, upload
from tests.support.postgres_server import schema
from tests.support.qdrant_fake import Keeper, served
from tests.support.rpc import (
    HYBRID,
    KEYWORD,
    TIMEOUT,
    Refusal,
    create,
    create_all,
    found,
    list_all,
    refused,
    search,
    write,
)
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.tcp_proxy import proxy
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("hangs")
DENSE, BM25 = search_pb.RETRIEVER_DENSE, search_pb.RETRIEVER_BM25
SCOPE = types_pb.Scope(user_id="u")
ANIMALS = ("walrus", "gannet", "badger", "ibex", "marmot")
CHINESE = "海象在冰上吃鱼。"
RECOVERY_SECONDS = 5.0
"""Within this time of its disk's return a server takes writes again and says so."""
SEARCH_SECONDS = 15.0
"""A bound of every search, far above what it takes and far below the default deadline."""


class Load:
    """Searchers and a writer that run until the context ends; a call that fails fails the test."""

    def __init__(
        self, server: ServerProcess, modes: tuple[search_pb.SearchMode, ...] = (HYBRID, HYBRID, KEYWORD)
    ) -> None:
        self._server = server
        self._modes = modes
        self._done = threading.Event()
        self._pool = ThreadPoolExecutor()
        self.degraded: list[search_pb.DegradedRetriever] = []
        self.contents: list[str] = []
        self.searches = 0
        self.token = ""

    def __enter__(self) -> Load:
        self._work = [self._pool.submit(self._search, mode) for mode in self._modes]
        self._work.append(self._pool.submit(self._write))
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for one in self._work:
            one.result(TIMEOUT)
        self._pool.shutdown()

    def check(self) -> None:
        """Raise what a call raised."""
        for one in self._work:
            if one.done():
                one.result()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition while every call succeeds."""

        def holds() -> object:
            self.check()
            return condition()

        until(holds)

    def _search(self, mode: search_pb.SearchMode) -> None:
        with self._server.stubs() as stubs:
            while not self._done.is_set():
                for query, content in (("Which walrus eats?", "The walrus eats."), ("海象吃什么", CHINESE)):
                    # Queries that were never asked: the vectors of earlier ones are cached.
                    text = f"{query} xq{self.searches}"
                    request = search_pb.SearchRequest(scope=SCOPE, query=text, mode=mode)
                    reply = stubs.search.Search(request, timeout=SEARCH_SECONDS)
                    assert content in {hit.memory.content for hit in reply.hits}
                    self.degraded.extend(reply.degraded)
                    self.searches += 1

    def _write(self) -> None:
        with self._server.stubs() as stubs:
            while not self._done.is_set():
                content = f"Note {len(self.contents)} about zebras."
                self.token = write(stubs, SCOPE, content).consistency_token
                self.contents.append(content)


@contextmanager
def stocked(directory: Path, **environment: str) -> Iterator[ServerProcess]:
    """Run a server with a few memories."""
    with ServerProcess(directory / "data", environment={**FAST, **environment}) as running:
        with running.stubs() as stubs:
            create_all(stubs, SCOPE, [*(f"The {animal} eats." for animal in ANIMALS), CHINESE])
        yield running


def check_indexes(stubs: Stubs, stored: int) -> None:
    """Assert that both indexes hold exactly what is stored."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    assert diagnosis.healthy
    assert [(stored, stored, 0, 0, 0)] * 2 == [
        (one.expected_count, one.present_count, one.missing_count, one.stale_count, one.orphaned_count)
        for one in diagnosis.indexes
    ]


def diagnosed_backend(stubs: Stubs, port: str) -> admin_pb.BackendHealth:
    """Return what the diagnosis says of a backend."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    return next(backend for backend in diagnosis.backends if backend.port == port)


def due(stubs: Stubs) -> list[tuple[str, int]]:
    """Return the ids and the currencies of the reminders of a day in March."""
    moment = Timestamp()
    moment.FromDatetime(datetime(2027, 3, 5, 9, tzinfo=UTC))
    request = lifecycle_pb.ListDueRemindersRequest(scope=SCOPE, time=moment)
    found = stubs.lifecycle.ListDueReminders(request, timeout=TIMEOUT).reminders
    return [(one.memory.id, one.currency) for one in found]


def search_after(stubs: Stubs, token: str) -> None:
    """Wait until the indexes have followed a write."""
    stubs.search.Search(search_pb.SearchRequest(scope=SCOPE, query="walrus", consistency_token=token), timeout=TIMEOUT)


def test_a_stopped_vector_process_is_replaced_and_the_others_answer(tmp_path: Path) -> None:
    """Stopped under load: searches are degraded and never fail, writes are all there, it is replaced and counted."""
    with stocked(tmp_path) as server, server.stubs() as stubs:
        with Load(server) as load:
            before = set(edge_pids(server))
            for pid in before:
                os.kill(pid, signal.SIGSTOP)
            load.until(lambda: load.degraded)
            load.until(lambda: set(edge_pids(server)) - before)
            load.until(lambda: not search(stubs, SCOPE, "walrus").degraded)
            load.until(lambda: server.is_serving("backend.vectors"))
            done = len(load.contents)
            load.until(lambda: len(load.contents) > done)
            assert {DENSE} == {one.retriever for one in load.degraded}
        search_after(stubs, load.token)
        check_indexes(stubs, len(load.contents) + len(ANIMALS) + 1)


def test_a_qdrant_server_that_swallows_every_packet_leaves_the_keyword_table(tmp_path: Path) -> None:
    """Both its indexes hang at once: searches are degraded and never fail, writes are indexed later."""
    with schema() as postgres, served(Keeper()) as port, proxy(port) as between:
        settings = {
            "MEMSVC_PROFILE": "cluster",
            "MEMSVC_METADATA__OPTIONS__URL": postgres,
            "MEMSVC_VECTORS__OPTIONS__URL": f"http://127.0.0.1:{between.port}",
            "MEMSVC_VECTORS__OPTIONS__WRITE_TIMEOUT_SECONDS": "3",
            "MEMSVC_LEXICAL__OPTIONS__WRITE_TIMEOUT_SECONDS": "3",
        }
        with stocked(tmp_path, **settings) as server, server.stubs() as stubs:
            between.hold()
            with Load(server) as load:
                load.until(lambda: {one.retriever for one in load.degraded} >= {DENSE, BM25})
                load.until(lambda: load.contents)
                load.until(lambda: not server.is_serving("backend.vectors"))
                between.release()
                load.until(lambda: not search(stubs, SCOPE, "walrus").degraded)
            until(lambda: stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).healthy)
            search_after(stubs, load.token)
            check_indexes(stubs, len(load.contents) + len(ANIMALS) + 1)


def test_an_embedder_that_hangs_leaves_the_words(tmp_path: Path) -> None:
    """Its endpoint takes requests and answers none: writes are found by words, and by meaning later."""
    with openai_embeddings_stub.serving() as endpoint:
        options = {"base_url": endpoint.url, "model": "m", "timeout_seconds": "1", "retries": "0"}
        named = {f"MEMSVC_EMBEDDER__OPTIONS__{name.upper()}": value for name, value in options.items()}
        with (
            stocked(tmp_path, MEMSVC_EMBEDDER__BACKEND="openai", **named) as server,
            server.stubs() as stubs,
        ):
            reminder = types_pb.Reminder(date=types_pb.CalendarDate(month=3, day=5))
            birthday = create(stubs, SCOPE, "The walrus has its birthday.", reminder=reminder)
            endpoint.held.clear()
            with Load(server) as load:
                load.until(lambda: {one.retriever for one in load.degraded} == {DENSE})
                assert due(stubs) == [(birthday.id, types_pb.CURRENCY_UNSPECIFIED)]
                load.until(lambda: load.contents)
                assert load.contents[0] in found(stubs, SCOPE, load.contents[0], mode=KEYWORD, limit=20)
                endpoint.held.set()
                load.until(lambda: not search(stubs, SCOPE, f"walrus xq{load.searches}").degraded)
            search_after(stubs, load.token)
            until(lambda: server.is_serving("backend.embedder"))
            check_indexes(stubs, len(load.contents) + len(ANIMALS) + 2)


def test_a_store_that_hangs_ends_calls_and_loses_nothing(tmp_path: Path) -> None:
    """PostgreSQL is stopped: calls end by their deadlines, health reports it, and all goes on when it continues."""
    with schema() as postgres, stocked(tmp_path, MEMSVC_METADATA__OPTIONS__URL=postgres) as server:
        with server.stubs() as stubs:
            kept = [write(stubs, SCOPE, f"Note {number} about zebras.") for number in range(5)]
            with postgres_server.stopped():
                request = search_pb.SearchRequest(scope=SCOPE, query="walrus")
                refusal = refused(stubs.search.Search, request, timeout=2.0)
                assert refusal.code in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
                until(lambda: not server.is_serving("backend.metadata"))
                # The circuit breaker is open: far before the deadline of the call.
                refusal = refused(stubs.search.Search, request, timeout=10 * TIMEOUT)
                assert (grpc.StatusCode.UNAVAILABLE, {"backend": "sql"}) == (refusal.code, refusal.metadata)
                sick = diagnosed_backend(stubs, "metadata")
                assert "The circuit breaker of 'sql' is open" in sick.message
                assert not server.is_serving("memsvc.v1.SearchService")
                assert server.is_serving("liveness")
            until(lambda: server.is_serving("memsvc.v1.SearchService"))
            until(lambda: server.is_serving("backend.metadata"))
            assert not search(stubs, SCOPE, "walrus").degraded
            create(stubs, SCOPE, "The store is back.")
            check_indexes(stubs, len(kept) + len(ANIMALS) + 2)


def test_a_store_that_hangs_under_load_ends_no_write_for_good(tmp_path: Path) -> None:
    """A writer that repeats its calls, with their request ids, has each memory stored once when it continues."""
    with schema() as postgres, stocked(tmp_path, MEMSVC_METADATA__OPTIONS__URL=postgres) as server:
        done, contents = threading.Event(), list[str]()

        def write_on() -> None:
            with server.stubs() as stubs:
                while not done.is_set():
                    content = f"Note {len(contents)} about zebras."
                    request = memory_pb.CreateMemoryRequest(
                        scope=SCOPE, memory=types_pb.Memory(content=content), request_id=content
                    )
                    repeat(stubs.memory.CreateMemory, request)
                    contents.append(content)

        with server.stubs() as stubs, ThreadPoolExecutor() as pool:
            writing = pool.submit(write_on)
            until(lambda: len(contents) > 3)
            with postgres_server.stopped():
                until(lambda: not server.is_serving("backend.metadata"))
            whole = len(contents)
            until(lambda: len(contents) > whole + 3)
            with one_session_stopped():
                single = len(contents)
                until(lambda: len(contents) > single + 3)
            done.set()
            writing.result(TIMEOUT)
            stored = [memory.content for memory in list_all(stubs, SCOPE)]
            assert sorted(stored) == sorted([*contents, *(f"The {animal} eats." for animal in ANIMALS), CHINESE])


def repeat(call: Callable[..., Any], request: Any) -> None:
    """Make a call until it succeeds, as clients do."""

    def succeeds() -> bool:
        try:
            call(request, timeout=10.0)
        except grpc.RpcError as error:
            assert error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
            return False
        return True

    until(succeeds)


@contextmanager
def one_session_stopped() -> Iterator[None]:
    """Stop the process of PostgreSQL that served the last statement and holds no lock; the others go on.

    One that is stopped with the lock of a user would keep the writes of that user until it continues.
    """
    statement = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'memsvc' AND state = 'idle' "
        "AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory') "
        "ORDER BY state_change DESC NULLS LAST LIMIT 1"
    )
    with psycopg.connect(postgres_server.server().get_uri(), autocommit=True) as connection:
        [(pid,)] = connection.execute(statement).fetchall()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler, for a disk that hangs")
def test_a_disk_that_hangs_under_the_words_leaves_searches_whole(tmp_path: Path) -> None:
    """No write of the lexical index ends: searches go on, writes are STORED with a notice and found after it."""
    control = Control(tmp_path)
    settings = {**FAST, **control.environment, "MEMSVC_LEXICAL__OPTIONS__WRITE_TIMEOUT_SECONDS": "1"}
    with ServerProcess(tmp_path / "data", settings, module=("memsvc",)) as server, server.stubs() as stubs:
        create_all(stubs, SCOPE, [*(f"The {animal} eats." for animal in ANIMALS), CHINESE])
        control.switch(hangs=True, path="/lexical/")
        with Load(server) as load:
            load.until(lambda: not server.is_serving("backend.lexical"))
            late = write(stubs, SCOPE, "The pelican eats.")
            assert "Stored" in late.notice
            assert "The circuit breaker of 'tantivy'" in diagnosed_backend(stubs, "lexical").message
            control.switch()
            load.until(lambda: server.is_serving("backend.lexical"))
            done = len(load.contents)
            load.until(lambda: len(load.contents) > done)
        assert [] == load.degraded
        search_after(stubs, load.token)
        check_indexes(stubs, len(load.contents) + len(ANIMALS) + 2)


@contextmanager
def with_disk(tmp_path: Path, **environment: str) -> Iterator[tuple[ServerProcess, Control]]:
    """Run a server with a few memories, and the switches of its disk."""
    control = Control(tmp_path)
    settings = {**FAST, **control.environment, **environment}
    with ServerProcess(tmp_path / "data", settings, module=("memsvc",)) as server, server.stubs() as stubs:
        create_all(stubs, SCOPE, [*(f"The {animal} eats." for animal in ANIMALS), CHINESE])
        try:
            yield server, control
        finally:
            control.switch()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler, for a disk that hangs")
def test_a_disk_that_hangs_under_the_store_ends_writes_in_time(tmp_path: Path) -> None:
    """Writes fail with its name by their deadlines, reads and searches go on, and nothing acknowledged is lost."""
    with with_disk(tmp_path, MEMSVC_METADATA__OPTIONS__WAIT_SECONDS="4") as (server, control), server.stubs() as stubs:
        file = upload(stubs, SCOPE, b"walrus")
        kept = [write(stubs, SCOPE, f"Note {number} about zebras.").memory.content for number in range(5)]
        control.switch(hangs=True, path="/metadata/")
        pending = memory_pb.CreateMemoryRequest(scope=SCOPE, memory=types_pb.Memory(content="Begun."), request_id="r")
        late = refused(stubs.memory.CreateMemory, pending, timeout=3.0)
        assert (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED") == (late.code, late.reason)
        assert {"waiting_for": "the commit of the write"} == late.metadata
        until(lambda: not server.is_serving("backend.metadata"))
        refusal = refused(stubs.memory.CreateMemory, new("Refused."), timeout=10 * TIMEOUT)
        assert (grpc.StatusCode.UNAVAILABLE, {"backend": "sql"}) == (refusal.code, refusal.metadata)
        assert "waits for its disk" in diagnosed_backend(stubs, "metadata").message
        assert server.is_serving("liveness")
        for mode in (HYBRID, KEYWORD):
            reply = search(stubs, SCOPE, "Which walrus eats?", mode=mode)
            assert "The walrus eats." in {hit.memory.content for hit in reply.hits}
            assert not reply.degraded
        assert {memory.content for memory in list_all(stubs, SCOPE)} >= set(kept)
        assert download(stubs, SCOPE, file.id) == b"walrus"

        control.switch()
        began = time.monotonic()
        until(lambda: server.is_serving("backend.metadata") and server.is_serving("memsvc.v1.MemoryService"))
        create(stubs, SCOPE, "The disk is back.")
        assert time.monotonic() - began < RECOVERY_SECONDS
        stubs.memory.CreateMemory(pending, timeout=TIMEOUT)
        stored = [memory.content for memory in list_all(stubs, SCOPE)]
        expected = [*kept, *(f"The {animal} eats." for animal in ANIMALS), CHINESE, "Begun.", "The disk is back."]
        assert sorted(stored) == sorted(expected)
        check_indexes(stubs, len(expected))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler, for a disk that hangs")
def test_a_disk_that_hangs_under_the_blobs_ends_uploads_alone(tmp_path: Path) -> None:
    """Downloads and memories go on, the downloads do not make it look well, and uploads go on with the disk."""
    with with_disk(tmp_path, MEMSVC_BLOBS__OPTIONS__TIMEOUT_SECONDS="4") as (server, control), server.stubs() as stubs:
        file = upload(stubs, SCOPE, b"walrus")
        control.switch(hangs=True, path="/blobs/")
        late = upload_refused(stubs, b"marmot", timeout=3.0)
        assert (grpc.StatusCode.DEADLINE_EXCEEDED, {"waiting_for": "the backend 'blobs'"}) == (late.code, late.metadata)
        refusal = upload_refused(stubs, b"gannet")
        assert (grpc.StatusCode.UNAVAILABLE, {"backend": "blobs"}) == (refusal.code, refusal.metadata)
        until(lambda: not server.is_serving("backend.blobs"))
        for number in range(5):
            assert download(stubs, SCOPE, file.id) == b"walrus"
            create(stubs, SCOPE, f"Note {number} about zebras.")
            refusal = upload_refused(stubs, b"badger")
            assert (grpc.StatusCode.UNAVAILABLE, {"backend": "blobs"}) == (refusal.code, refusal.metadata)
        assert "The circuit breaker of 'blobs-commits'" in diagnosed_backend(stubs, "blobs").message
        assert server.is_serving("memsvc.v1.MemoryService")

        control.switch()
        began = time.monotonic()
        until(lambda: server.is_serving("backend.blobs"))
        later = upload(stubs, SCOPE, b"ibex")
        assert time.monotonic() - began < RECOVERY_SECONDS
        assert (download(stubs, SCOPE, file.id), download(stubs, SCOPE, later.id)) == (b"walrus", b"ibex")


def new(content: str) -> memory_pb.CreateMemoryRequest:
    """Return a request for a new memory."""
    return memory_pb.CreateMemoryRequest(scope=SCOPE, memory=types_pb.Memory(content=content))


def upload_refused(stubs: Stubs, content: bytes, *, timeout: float = TIMEOUT, **header: Any) -> Refusal:
    """Upload, which must fail, and return why it did."""
    return refused(stubs.files.UploadFile, messages(SCOPE, content, **header), timeout=timeout)


def test_a_blob_that_cannot_be_read_keeps_no_thread_and_no_memory_waiting(tmp_path: Path) -> None:
    """Its file never answers, as on a file system of a network: downloads fail in time, everything else goes on."""
    with stocked(tmp_path, MEMSVC_BLOBS__OPTIONS__TIMEOUT_SECONDS="0.5") as server, server.stubs() as stubs:
        file = upload(stubs, SCOPE, b"walrus")
        [blob] = [path for path in server.data_dir.joinpath("blobs", "content").rglob("*") if path.is_file()]
        blob.unlink()
        os.mkfifo(blob)
        with Load(server) as load:
            for _ in range(20):
                request = file_pb.DownloadFileRequest(scope=SCOPE, id=file.id)
                assert refused(stubs.files.DownloadFile, request).code is grpc.StatusCode.UNAVAILABLE
            done = len(load.contents)
            load.until(lambda: len(load.contents) > done)
            writer = os.open(blob, os.O_RDWR)
            blob.unlink()
            blob.write_bytes(b"walrus")

            def is_back() -> bool:
                try:
                    return download(stubs, SCOPE, file.id) == b"walrus"
                except grpc.RpcError:
                    return False

            load.until(is_back)
            load.until(lambda: server.is_serving("backend.blobs"))
            os.close(writer)
        assert [] == load.degraded


def test_a_language_model_that_hangs_leaves_the_rules(tmp_path: Path) -> None:
    """Its endpoint lists its models and answers no question: captures are decided by rules, and by it once it answers."""
    answer = {
        "index": 0, "remember": True, "reason": "PREFERENCE", "detail": "", "scope": "global", "layer": "CORE",
        "kind": "PREFERENCE", "category": "", "importance": 5, "title": "", "tags": [], "content": "Ada likes tea.",
    }  # fmt: skip
    with openai_chat_stub.serving() as endpoint:
        endpoint.otherwise = lambda _: openai_chat_stub.said(json.dumps({"decisions": [answer]}))
        options = {"base_url": endpoint.url, "model": "m", "timeout_seconds": "1", "retries": "0"}
        named = {f"MEMSVC_LANGUAGE_MODEL__OPTIONS__{name.upper()}": value for name, value in options.items()}
        with stocked(tmp_path, MEMSVC_LANGUAGE_MODEL__BACKEND="openai", **named) as server, server.stubs() as stubs:
            endpoint.held.clear()

            def captured(text: str) -> memory_pb.CaptureMemoryResponse:
                message = types_pb.ChatMessage(content=text)
                request = memory_pb.CaptureMemoryRequest(scope=SCOPE, message=message, dry_run=True)
                return stubs.memory.CaptureMemory(request, timeout=TIMEOUT)

            with Load(server) as load:
                for text in ("I prefer tabs.", "我喜欢喝茶。", "I prefer spaces.", "我喜欢咖啡。"):
                    reply = captured(text)
                    assert (memory_pb.CAPTURE_DECIDER_RULES, True) == (reply.decider, reply.decisions[0].remember)
                    assert "rules" in reply.notice
                load.until(lambda: not server.is_serving("backend.language_model"))
                assert "'openai-chat'" in diagnosed_backend(stubs, "language_model").message
                endpoint.held.set()
                load.until(lambda: server.is_serving("backend.language_model"))
                assert captured("I prefer tea.").decider == memory_pb.CAPTURE_DECIDER_LANGUAGE_MODEL
            assert [] == load.degraded
