"""The blob stores keep the port's promises: dicts, a folder, an S3-compatible server."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.blobs import BlobStore
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.blobs import BlobStoreContract, put
from memsvc_backends.fsspec_blobs import BLOBS, FsspecSettings
from memsvc_backends.in_memory import BLOBS as DICTS
from tests.support.until import until


@pytest.fixture
def context(tmp_path: Path) -> BackendContext:
    """Give the backend a folder that is not there yet."""
    return BackendContext(tmp_path / "data" / "blobs", lambda: datetime.now(UTC))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold the open store."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestInMemoryBlobs(BlobStoreContract):
    """The reference."""

    @pytest.fixture
    def store(self, stack: ExitStack, context: BackendContext) -> BlobStore:
        """Open a fresh store."""
        return stack.enter_context(DICTS.open(BackendSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close


class TestFolderBlobs(BlobStoreContract):
    """A folder of the data directory."""

    @pytest.fixture
    def store(self, stack: ExitStack, context: BackendContext) -> BlobStore:
        """Open a fresh store."""
        return stack.enter_context(BLOBS.open(FsspecSettings(), context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, context: BackendContext) -> Callable[[], BlobStore]:
        """Close the store and open another on the same folder."""

        def run() -> BlobStore:
            stack.close()
            return stack.enter_context(BLOBS.open(FsspecSettings(), context))

        return run

    def test_nothing_half_written_is_left(self, store: BlobStore, context: BackendContext) -> None:
        """Neither by a stream that ended early nor by one that was put; a name is never the first a blob is seen by."""
        with store.stage() as staged:
            staged.write([b"x"])
            [path] = (context.directory / "staging").iterdir()
            assert path.stat().st_mode & 0o077 == 0
        put(store, b"y")

        assert list((context.directory / "staging").iterdir()) == []

    @pytest.mark.parametrize("hanging", ["mkstemp", "writev"])
    def test_a_file_that_a_hang_kept_is_closed_after_it(
        self, context: BackendContext, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, hanging: str
    ) -> None:
        """When its making or a write of it was given up, nothing of it stays open or in the folder."""
        module = tempfile if hanging == "mkstemp" else os
        call, release = getattr(module, hanging), threading.Event()
        store = stack.enter_context(BLOBS.open(FsspecSettings(timeout_seconds=1.0), context))
        put(store, b"y")
        before = _open_files()

        def hang(*given: Any, **named: Any) -> Any:
            release.wait()
            return call(*given, **named)

        monkeypatch.setattr(module, hanging, hang)
        with pytest.raises(BackendUnavailableError), store.stage() as staged:
            staged.write([b"x"])
        release.set()

        until(lambda: _open_files() == before and not list((context.directory / "staging").iterdir()))

    def test_what_a_dead_process_staged_is_removed(self, context: BackendContext, stack: ExitStack) -> None:
        """When the store is opened again; and files that are no blobs are left alone."""
        staging, content = context.directory / "staging", context.directory / "content"
        for path in (staging / "part-dead", content / "ab" / "notes.txt", content / "README"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        store = stack.enter_context(BLOBS.open(FsspecSettings(), context))

        assert list(staging.iterdir()) == []
        assert list(store.blobs()) == []
        assert (content / "ab" / "notes.txt").exists()

    def test_a_folder_elsewhere_can_be_named(self, tmp_path: Path, context: BackendContext, stack: ExitStack) -> None:
        """By its URL."""
        settings = FsspecSettings(url=f"file://{tmp_path}/else where/blobs")
        name = put(stack.enter_context(BLOBS.open(settings, context)), b"x")

        assert (tmp_path / "else where" / "blobs" / name[:2] / name).read_bytes() == b"x"

    @pytest.mark.parametrize("url", ["nothing://x", "file://"])
    def test_what_cannot_be_opened_says_so(self, context: BackendContext, url: str) -> None:
        """In the port's words."""
        context.directory.parent.mkdir(parents=True)
        context.directory.write_text("a file in the way")
        settings = FsspecSettings(url=url if url != "file://" else f"file://{context.directory}/x")

        with pytest.raises(BackendUnavailableError), BLOBS.open(settings, context):
            pass


@pytest.mark.needs_server
class TestS3Blobs(BlobStoreContract):
    """A bucket of an S3-compatible server."""

    @pytest.fixture
    def settings(self, endpoint: str, request: pytest.FixtureRequest) -> FsspecSettings:
        """Make a bucket for each test."""
        bucket = f"b{abs(hash(request.node.nodeid))}"
        known = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **known).create_bucket(Bucket=bucket)
        return FsspecSettings(
            url=f"s3://{bucket}/memsvc/blobs", options={"endpoint_url": endpoint}, secrets={"key": "k", "secret": "s"}
        )

    @pytest.fixture
    def store(self, stack: ExitStack, context: BackendContext, settings: FsspecSettings) -> BlobStore:
        """Open a fresh store."""
        return stack.enter_context(BLOBS.open(settings, context))

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        """Close the store."""
        return stack.close

    @pytest.fixture
    def reopen(self, stack: ExitStack, context: BackendContext, settings: FsspecSettings) -> Callable[[], BlobStore]:
        """Close the store and open another on the same bucket."""

        def run() -> BlobStore:
            stack.close()
            return stack.enter_context(BLOBS.open(settings, context))

        return run

    def test_a_missing_bucket_is_told(self, stack: ExitStack, context: BackendContext, endpoint: str) -> None:
        """By the ping and by every use."""
        settings = FsspecSettings(
            url="s3://not-there/x", options={"endpoint_url": endpoint}, secrets={"key": "k", "secret": "s"}
        )
        store = stack.enter_context(BLOBS.open(settings, context))

        with pytest.raises(BackendUnavailableError):
            store.ping()
        with pytest.raises(BackendUnavailableError):
            put(store, b"x")

    def test_a_server_that_is_not_there_is_told(self, stack: ExitStack, context: BackendContext) -> None:
        """In the port's words."""
        options = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 0}}}
        settings = FsspecSettings(url="s3://b/x", options=options, secrets={"key": "k", "secret": "s"})
        store = stack.enter_context(BLOBS.open(settings, context))

        with pytest.raises(BackendUnavailableError):
            store.ping()
        with pytest.raises(BackendUnavailableError):
            store.find("0" * 64)
