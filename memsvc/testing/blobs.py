"""The contract of `memsvc.ports.blobs.BlobStore`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.blobs import BlobNotFoundError, BlobStore


def digest_of(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(content).hexdigest()


def put(store: BlobStore, content: bytes) -> str:
    """Put a blob; return its name."""
    with store.stage() as staged:
        staged.write([content[:1], content[1:]])
        staged.commit()
        return staged.sha256()


class BlobStoreContract:
    """Subclass it, give the fixture `store`, and `close` and `reopen` where they apply."""

    @pytest.fixture
    def close(self) -> Callable[[], None]:
        """Close the store under test."""
        pytest.skip("the binding does not close its store")

    @pytest.fixture
    def reopen(self) -> Callable[[], BlobStore]:
        """Close the store under test and open another on the same data."""
        pytest.skip("the store does not keep its data")

    @pytest.mark.parametrize("content", [b"", b"\0", "图表".encode(), bytes(range(256)) * 20_000])
    def test_a_blob_comes_back_as_it_was_put(self, store: BlobStore, content: bytes) -> None:
        """Whatever its bytes, under the hash of them."""
        name = put(store, content)

        assert digest_of(content) == name
        with store.open(name) as reader:
            assert content == reader.read(0, len(content) + 10)
        blob = store.find(name)
        assert blob is not None
        assert (name, len(content)) == (blob.sha256, blob.size_bytes)
        assert abs(blob.put_time - datetime.now(UTC)) < timedelta(hours=1)

    def test_any_range_can_be_read(self, store: BlobStore) -> None:
        """In any order, up to the end and beyond it."""
        name = put(store, b"0123456789")

        with store.open(name) as reader:
            ranges = [(0, 3), (8, 9), (3, 0), (2, 4), (10, 5), (99, 1)]
            assert [reader.read(*one) for one in ranges] == [b"012", b"89", b"", b"2345", b"", b""]

    def test_what_is_not_put_is_not_there(self, store: BlobStore) -> None:
        """Whatever was written, and however the writing ended."""
        with store.stage() as staged:
            staged.write([b"a", b"", b"b"])
            assert (staged.size_bytes, staged.sha256()) == (2, digest_of(b"ab"))
        with pytest.raises(TypeError), store.stage() as staged:
            staged.write([b"c", None])  # type: ignore[list-item]  # ends the writing from within

        assert list(store.blobs()) == []
        assert store.find(digest_of(b"ab")) is None
        with pytest.raises(BlobNotFoundError), store.open(digest_of(b"ab")):
            pass

    def test_many_small_parts(self, store: BlobStore) -> None:
        """More than the system takes at a time."""
        parts = [bytes([number % 251]) * (number % 7) for number in range(5_000)]
        with store.stage() as staged:
            staged.write(parts)
            staged.commit()
        with store.open(digest_of(b"".join(parts))) as reader:
            assert b"".join(parts) == reader.read(0, 100_000)

    def test_the_same_blob_is_kept_once(self, store: BlobStore) -> None:
        """Putting it again changes nothing, not for who is reading it either."""
        name = put(store, b"x" * 1_000)
        with store.open(name) as reader:
            assert reader.read(0, 1) == b"x"
            assert put(store, b"x" * 1_000) == name
            assert reader.read(1, 999) == b"x" * 999
        other = put(store, b"y")

        assert sorted((name, other)) == sorted(blob.sha256 for blob in store.blobs())

    def test_a_deleted_blob_is_gone(self, store: BlobStore) -> None:
        """Deletes that content alone; the result says when there was none."""
        name, other = put(store, b"x"), put(store, b"y")

        assert store.delete(name)
        assert not store.delete(name)
        assert [other] == [blob.sha256 for blob in store.blobs()]
        assert store.find(name) is None
        assert put(store, b"x") == name

    def test_side_by_side(self, store: BlobStore) -> None:
        """Several threads put different blobs, and the same one."""
        contents = [b"same", *(bytes([number]) * 50_000 for number in range(6)), b"same"]
        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(lambda content: put(store, content), contents))

        assert [digest_of(content) for content in contents] == names
        assert set(names) == {blob.sha256 for blob in store.blobs()}

    @pytest.mark.parametrize(
        "name", ["", "../" * 20 + "etc/passwd", "A" * 64, "0" * 63, "/" + "0" * 63, "0" * 64 + "\n"]
    )
    def test_only_hashes_are_names(self, store: BlobStore, name: str) -> None:
        """Nothing else ever becomes a part of a path."""
        uses: list[Callable[[], object]] = [
            lambda: store.find(name),
            lambda: store.delete(name),
            lambda: store.open(name).__enter__(),
            lambda: store.local_path(name),
        ]
        for use in uses:
            with pytest.raises(ValueError, match="no hash"):
                use()

    def test_a_local_file_holds_the_blob(self, store: BlobStore) -> None:
        """A local path, where the store gives one, holds the blob's bytes."""
        path = store.local_path(put(store, b"x"))

        assert path is None or path.read_bytes() == b"x"
        assert store.local_path(digest_of(b"y")) is None

    def test_open_store_answers(self, store: BlobStore) -> None:
        """An open store answers a ping."""
        store.ping()

    def test_closed_store_says_so(self, store: BlobStore, close: Callable[[], None]) -> None:
        """Every use of a closed store is a fault of the program."""
        name = put(store, b"x")
        close()

        uses: list[Callable[[], object]] = [
            lambda: put(store, b"y"),
            lambda: store.open(name).__enter__(),
            lambda: store.find(name),
            lambda: list(store.blobs()),
            lambda: store.delete(name),
            store.ping,
        ]
        for use in uses:
            with pytest.raises(BackendClosedError):
                use()

    def test_blobs_outlive_the_store(self, store: BlobStore, reopen: Callable[[], BlobStore]) -> None:
        """Those that were put; what was staged is gone."""
        name = put(store, b"x")

        assert [name] == [blob.sha256 for blob in reopen().blobs()]
