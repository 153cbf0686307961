"""What can go wrong between the blobs and what is known of files, at moments that no client can choose."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.errors import (
    DeadlineExceededError,
    ErasureRunningError,
    FileContentMissingError,
    StoredFileNotFoundError,
)
from memsvc.domain.files import File, FileCategory, UrlTemplates
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.engine.commit.group_committer import CALL_DEADLINE, GroupCommitter
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import GRACE, FileSweep, SweepCounts
from memsvc.engine.files.service import FileDeleter, FileReader, FileRefResolver
from memsvc.engine.files.text_indexer import FileSource, TextIndexer, TextRules
from memsvc.engine.files.upload import AttachmentLinker, FileRules, FileUploader, NewFile
from memsvc.engine.records.memory_builder import NO_REDACTOR, MemoryBuilder, RecordBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.services import FileService
from memsvc.engine.user_data.erasure import UserBlobs
from memsvc.extraction.process import ExtractionLimits, TextExtractor
from memsvc.ports.blobs import BlobStore
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.store_harness import Clock
from memsvc_backends.in_memory import BLOBS
from tests.support.sqlite_store import sqlite_store

ADA, BOB = Scope("ada"), Scope("bob")
NEW = NewFile("a.txt", FileCategory.UPLOAD, "text/plain")
HOUR = timedelta(hours=1)


class Shelf:
    """Files over SQLite, their bytes in memory."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.clock = Clock()
        context = BackendContext(folder, self.clock)
        self.store: MetadataStore = stack.enter_context(sqlite_store(folder, self.clock))
        self.blobs: BlobStore = stack.enter_context(BLOBS.open(BackendSettings(), context))
        self.committer = GroupCommitter(self.store)
        stack.callback(self.committer.close)
        keeping = BlobGuard(self.store.files, self.blobs)
        record_builder = RecordBuilder(
            MemoryBuilder(model="toy", dimension=4, now=self.clock, search_priority=SearchPriority()), self.store.feed
        )
        rules = FileRules(1_000, lifetimes={FileCategory.TEMP: HOUR})
        self.files = FileService(
            FileUploader(
                self.committer,
                self.blobs,
                keeping,
                rules,
                self.clock,
                AttachmentLinker(record_builder, self.clock),
                redactor=NO_REDACTOR,
            ),
            FileReader(self.store.files, self.blobs, self.clock),
            FileDeleter(self.committer, keeping, self.clock),
            FileSweep(self.committer, self.store.files, self.blobs, keeping, self.clock, SearchPriority()),
            keeping,
            FileRefResolver(self.store.files, UrlTemplates(), self.clock),
            TextIndexer(
                self.committer,
                FileSource(self.store.files, self.blobs, folder),
                TextExtractor(ExtractionLimits()),
                TextRules(),
                self.clock,
                SearchPriority(),
            ),
        )

    def upload(self, content: bytes, scope: Scope = ADA, new: NewFile = NEW, request_id: str = "") -> File:
        """Take a file in."""
        with self.files.uploader.begin(scope, new, request_id) as upload:
            upload.write([content])
            return upload.finish()

    def contents(self) -> int:
        """Return how many blobs there are."""
        return len(list(self.blobs.blobs()))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """Return empty files."""
    with ExitStack() as stack:
        yield Shelf(stack, tmp_path)


def orphaned(shelf: Shelf, content: bytes) -> None:
    """Put a blob whose file was never committed, as a crash between the two leaves it."""
    with shelf.blobs.stage() as staged:
        staged.write([content])
        staged.commit()


def test_a_sweep_removes_orphans_after_their_grace(shelf: Shelf) -> None:
    """Not before, since their upload may be about to end, and nothing that is in use."""
    shelf.upload(b"used")
    orphaned(shelf, b"orphan")
    assert SweepCounts() == shelf.files.sweep.run()
    shelf.clock.moment += GRACE

    assert SweepCounts(0, 1, 6) == shelf.files.sweep.run(is_dry_run=True)
    assert shelf.contents() == 2
    assert SweepCounts(0, 1, 6) == shelf.files.sweep.run()
    assert SweepCounts() == shelf.files.sweep.run()
    assert shelf.contents() == 1


def test_the_content_of_a_file_that_may_be_committed_yet_is_kept(shelf: Shelf) -> None:
    """The commit did not end before the deadline; a sweep removes the content if no file came of it."""
    is_busy, free = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        is_busy.set()
        free.wait()

    context = copy_context()
    with ThreadPoolExecutor() as pool, ExitStack() as stack:
        stack.callback(free.set)
        pool.submit(shelf.committer.submit, hold)
        is_busy.wait()
        context.run(CALL_DEADLINE.set, Deadline.after(0.2))
        with pytest.raises(DeadlineExceededError):
            context.run(shelf.upload, b"late")
        assert shelf.contents() == 1

    shelf.clock.moment += GRACE
    assert SweepCounts(0, 1, 4) == shelf.files.sweep.run()


def test_a_sweep_removes_expired_files(shelf: Shelf) -> None:
    """And their bytes, but for those that another file has."""
    temp = NewFile("t", FileCategory.TEMP, "text/plain")
    expiring, _ = shelf.upload(b"own", new=temp), shelf.upload(b"shared", new=temp)
    kept = shelf.upload(b"shared", BOB)
    shelf.clock.moment += HOUR
    with pytest.raises(StoredFileNotFoundError):
        shelf.files.reader.get(ADA, expiring.id)
    with pytest.raises(StoredFileNotFoundError):
        shelf.files.deleter.delete(ADA, expiring.id)

    assert shelf.files.sweep.run(is_dry_run=True).expired_files == 2
    assert shelf.files.sweep.run(grace=HOUR * 2) == SweepCounts(2, 0, 0)
    assert [blob.sha256 for blob in shelf.blobs.blobs()] == [kept.sha256]


def test_lost_bytes_are_told(shelf: Shelf) -> None:
    """To who reads them and to who looks for faults; uploading them again mends the file."""
    file, _ = shelf.upload(b"lost"), shelf.upload(b"kept")
    shelf.blobs.delete(file.sha256)
    assert [file] == list(shelf.files.sweep.find_broken())
    with pytest.raises(FileContentMissingError), shelf.files.reader.open(ADA, file.id):
        pass

    shelf.upload(b"lost")
    assert [] == list(shelf.files.sweep.find_broken())
    with shelf.files.reader.open(ADA, file.id) as opened:
        assert opened.read(9) == b"lost"


def test_what_cannot_be_committed_leaves_no_bytes(shelf: Shelf) -> None:
    """While the user is being erased; those that others have stay."""
    shelf.upload(b"shared", BOB)
    with shelf.store.transaction() as transaction:
        transaction.begin_erasure(Erasure(owner_digest(ADA.owner), ADA.owner, "r", shelf.clock()))
    for content in (b"own", b"shared"):
        with pytest.raises(ErasureRunningError):
            shelf.upload(content)

    assert [blob.size_bytes for blob in shelf.blobs.blobs()] == [6]


def test_an_upload_and_a_deletion_of_the_same_bytes_wait_for_each_other(shelf: Shelf) -> None:
    """A deletion that comes between the putting and the commit of an upload does not take its bytes."""
    old = shelf.upload(b"same")
    done = threading.Event()

    def delete() -> None:
        shelf.files.deleter.delete(ADA, old.id)
        done.set()

    with shelf.files.blob_guard.lock(old.sha256):
        deleting = threading.Thread(target=delete)
        deleting.start()
        # The record goes at once; the bytes have to wait.
        while shelf.store.files.of_owner(ADA.owner, after=0, limit=1):
            threading.Event().wait(0.001)
        assert not done.is_set()
        with shelf.store.transaction() as transaction:
            transaction.files.insert(old)
    deleting.join()

    assert done.is_set()
    assert shelf.blobs.find(old.sha256) is not None


def test_removals_wait_for_a_backup(shelf: Shelf) -> None:
    """But not those of an erasure."""
    one, two = shelf.upload(b"one"), shelf.upload(b"two")
    users = UserBlobs(shelf.store.files, shelf.blobs, shelf.files.blob_guard, SearchPriority())
    with shelf.files.blob_guard.defer_removals():
        with shelf.files.blob_guard.defer_removals():
            shelf.files.deleter.delete(ADA, one.id)
        assert shelf.contents() == 2
        assert (users.count(ADA.owner), users.remove(ADA.owner, lambda: None)) == (1, {two.sha256})
        assert shelf.contents() == 1
    assert shelf.contents() == 0
    assert users.count_remaining({one.sha256, two.sha256}) == 0


def test_a_repeated_upload_of_a_deleted_file_leaves_no_bytes(shelf: Shelf) -> None:
    """It gets its first answer, and nothing comes back."""
    file = shelf.upload(b"x", request_id="r")
    shelf.files.deleter.delete(ADA, file.id)

    assert file == shelf.upload(b"x", request_id="r")
    assert shelf.contents() == 0
    assert to_micros(file.create_time) == to_micros(shelf.clock())


def test_an_erasure_removes_what_no_file_names(shelf: Shelf) -> None:
    """At once, whoever's it was; but not the bytes of an upload that is about to end."""
    kept = shelf.upload(b"kept", BOB)
    orphaned(shelf, b"orphan")
    orphaned(shelf, b"coming")
    users = UserBlobs(shelf.store.files, shelf.blobs, shelf.files.blob_guard, SearchPriority())
    orphan, coming = (hashlib.sha256(content).hexdigest() for content in (b"orphan", b"coming"))
    assert {orphan, coming} == users.orphans().keys()
    found: list[int] = []
    with shelf.files.blob_guard.lock(coming):
        erasing = threading.Thread(
            target=lambda: found.append(users.remove_orphans([orphan, coming, kept.sha256], lambda: None))
        )
        erasing.start()
        while shelf.blobs.find(orphan) is not None:
            threading.Event().wait(0.001)
        with shelf.store.transaction() as transaction:
            transaction.files.insert(replace(kept, id="new", sha256=coming))
    erasing.join()

    assert [1] == found
    assert {kept.sha256, coming} == {blob.sha256 for blob in shelf.blobs.blobs()}
    assert (0, {}) == (users.count_remaining([orphan, coming]), users.orphans())
