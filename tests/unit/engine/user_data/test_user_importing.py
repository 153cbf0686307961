"""An import of a user hands the committer its next batch before the one before is durable."""

from __future__ import annotations

import json
import threading
from codecs import BOM_UTF8
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import RecordKind
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.services import Services
from memsvc.engine.user_data import parser
from memsvc.engine.user_data.import_user import UserImport
from memsvc.engine.user_data.parser import ImportBatch
from memsvc.ports.metadata import Transaction

ADA, BOB = Scope("ada"), Scope("bob")
CONTENTS = ("The harbour opens at dawn.", "她每天早上喝绿茶。", "A walrus sleeps.")


@pytest.fixture
def imported(application: Services, monkeypatch: pytest.MonkeyPatch) -> tuple[UserImport, list[ImportBatch]]:
    """An import for Bob of what Ada has, and its batches of one memory each."""
    monkeypatch.setattr(parser, "BATCH_RECORDS", 1)
    for content in CONTENTS:
        application.memory_creator.create(ADA, Draft(content), WriteOptions(wait_for=WaitFor.STORED))
    run = application.user_importer.begin(BOB)
    return run, list(_batches(application, run))


def _batches(application: Services, run: UserImport) -> Iterator[ImportBatch]:
    for part in application.user_exporter.run(ADA, with_vectors=False):
        yield from run.feed(part.data)
    yield from run.finish()


def test_the_batch_before_is_told(imported: tuple[UserImport, list[ImportBatch]]) -> None:
    """Each call tells what is durable: the batches before the one that it begins; at the end all."""
    run, batches = imported

    told = [run.store(batch).stored.get(RecordKind.MEMORY, 0) for batch in batches]

    assert [0, 1, 2] == told
    last = run.settle()
    assert (len(CONTENTS), last) == (last.stored[RecordKind.MEMORY], run.settle())


def test_the_next_batch_waits_where_it_is_stored(
    application: Services, imported: tuple[UserImport, list[ImportBatch]]
) -> None:
    """While the committer is busy with one, the next lies in its queue already; they keep their order."""
    run, batches = imported
    committer = application.user_importer._committer
    begun, let = threading.Event(), threading.Event()

    def blocked(_: Transaction) -> None:
        begun.set()
        assert let.wait(30)

    with ThreadPoolExecutor(2) as pool:
        committer.queue(blocked)
        assert begun.wait(30)
        run.store(batches[0])
        second = pool.submit(run.store, batches[1])
        while committer.queue_length < 2:
            assert not second.done()
        let.set()
        assert 1 == second.result(30).stored[RecordKind.MEMORY]
    run.settle()

    assert list(CONTENTS[:2]) == _contents(application)


def _contents(application: Services) -> list[str]:
    lines = [line for part in application.user_exporter.run(BOB, with_vectors=False) for line in part.data.splitlines()]
    return [json.loads(line)["content"] for line in lines[1:-1]]


def test_a_batch_that_fails_is_told_with_the_next(
    application: Services, imported: tuple[UserImport, list[ImportBatch]]
) -> None:
    """What kept a batch from being stored is raised once somebody asks for it; those after it are not stored either."""
    run, batches = imported
    bad = replace(batches[0].records[0], earlier=[None])  # type: ignore[list-item]  # a fault of ours

    run.store(ImportBatch((bad,), batches[0].lines))
    with pytest.raises(AttributeError):
        run.store(batches[1])
    with pytest.raises(AttributeError):
        run.settle()

    assert not _contents(application)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_lines_that_an_editor_saved_are_imported(application: Services, size: int) -> None:
    """With CRLF and a byte order mark, however the file is cut into pieces; a change in a line is still found."""
    for content in CONTENTS:
        application.memory_creator.create(ADA, Draft(content), WriteOptions(wait_for=WaitFor.STORED))
    data = b"".join(part.data for part in application.user_exporter.run(ADA, with_vectors=False))
    saved = BOM_UTF8 + data.replace(b"\n", b"\r\n")

    _import(application, saved, size)

    assert list(CONTENTS) == _contents(application)
    with pytest.raises(InvalidRequestError, match="sha256"):
        _import(application, saved.replace(b"dawn", b"noon"), size)


def _import(application: Services, data: bytes, size: int) -> None:
    run = application.user_importer.begin(BOB)
    for start in range(0, len(data), size):
        for batch in run.feed(data[start : start + size]):
            run.store(batch)
    for batch in run.finish():
        run.store(batch)
    run.settle()
