"""Images in contents are kept once for each project, and refused when they cannot be kept."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.errors import ErasureRunningError, InvalidRequestError
from memsvc.domain.files import File
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.inline_images import InlineImageExtractor
from memsvc.engine.files.upload import FileRules
from memsvc.engine.records.memory_builder import store_text_images
from memsvc.ports.blobs import BlobStore
from memsvc.ports.plugin import BackendContext
from memsvc_backends.in_memory import BLOBS
from tests.unit.engine.memories.write_path import ADA, Desk, open_desk

PNG = b"\x89PNG"


def image(data: bytes = PNG, *, kind: str = "png", alt: str = "图") -> str:
    return f"![{alt}](data:image/{kind};base64,{b64encode(data).decode()})"


@dataclass
class Shelf:
    """A desk, its blobs, and what keeps images."""

    desk: Desk
    blobs: BlobStore
    images: InlineImageExtractor

    def files(self) -> list[File]:
        return self.desk.store.files.every(after=0, limit=99)

    def lifted(self, content: str, scope: Scope = ADA) -> str:
        return store_text_images(self.images, scope, content, field="memory.content")


@contextmanager
def open_shelf(directory: Path, rules: FileRules) -> Iterator[Shelf]:
    with (
        open_desk(directory) as desk,
        BLOBS.open(BLOBS.settings(), BackendContext(directory / "blobs", desk.clock)) as blobs,
    ):
        keeping = BlobGuard(desk.store.files, blobs)
        images = InlineImageExtractor(desk.writing.committer, blobs, keeping, rules.fault_of, desk.clock)
        yield Shelf(desk, blobs, images)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with open_shelf(tmp_path, FileRules(max_bytes=100)) as shelf:
        yield shelf


def test_the_same_image_is_one_file_in_each_project(shelf: Shelf) -> None:
    """However often it is written, with whatever description; its bytes are one blob."""
    first = shelf.lifted(f"a {image()} b {image(alt='again')}")
    assert shelf.lifted(f"a {image()} b {image(alt='again')}") == first
    shelf.lifted(image(), Scope("ada"))
    shelf.lifted(image(), Scope("bob", project_id="apollo"))

    assert [(file.name, file.scope.user_id, file.scope.project_id) for file in shelf.files()] == [
        ("图.png", "ada", "apollo"),
        ("图.png", "ada", ""),
        ("图.png", "bob", "apollo"),
    ]
    assert len({file.id for file in shelf.files()}) == 3
    assert [blob.size_bytes for blob in shelf.blobs.blobs()] == [len(PNG)]
    own = shelf.files()[0]
    assert first == f"a ![图](memory:{own.id}) b ![again](memory:{own.id})"


def test_a_removed_image_comes_back_when_it_is_written_again(shelf: Shelf) -> None:
    """Under the same id, so that what refers to it has it again."""
    before = shelf.lifted(image())
    with shelf.desk.store.transaction() as transaction:
        transaction.files.delete(shelf.files())
    shelf.desk.clock.advance(hours=1)

    assert shelf.lifted(image()) == before
    [file] = shelf.files()
    assert file.create_time == shelf.desk.clock.time
    assert shelf.desk.clock.time - timedelta(hours=1) < file.create_time


def test_names_are_made_of_descriptions(shelf: Shelf) -> None:
    """Never longer than a name may be, never empty, without what cannot be shown."""
    for alt in ("", "\u202e ", "x" * 400):
        shelf.lifted(image(alt[:9].encode() or PNG, alt=alt))

    assert [file.name for file in shelf.files()] == ["image.png", "image.png", f"{'x' * 251}.png"]


def test_images_that_are_too_large_or_of_a_wrong_type_are_refused(tmp_path: Path) -> None:
    """All of them are named at once, and nothing is kept."""
    rules = FileRules(max_bytes=8, media_types=("image/png",))
    with open_shelf(tmp_path, rules) as shelf, pytest.raises(InvalidRequestError) as caught:
        shelf.lifted(image() + image(b"123456789") + image(kind="gif") + "![x](data:image/png;base64,a)")

    told = [(one.field, one.description.partition(",")[2].partition(",")[0]) for one in caught.value.violations]
    assert told == [("memory.content", f" number {number}") for number in (2, 3, 4)]


def test_an_image_that_cannot_be_committed_leaves_no_bytes(shelf: Shelf) -> None:
    """While the user is being erased; those that others have stay."""
    shelf.lifted(image(), Scope("bob"))
    with shelf.desk.store.transaction() as transaction:
        transaction.begin_erasure(Erasure(owner_digest(ADA.owner), ADA.owner, "r", shelf.desk.clock()))
    for data in (PNG, b"own"):
        with pytest.raises(ErasureRunningError):
            shelf.lifted(image(data))

    assert [len(PNG)] == [blob.size_bytes for blob in shelf.blobs.blobs()]
