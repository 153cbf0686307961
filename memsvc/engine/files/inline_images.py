"""Extraction of inline images from contents into files of the category memory."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError, InvalidRequestError, Violation
from memsvc.domain.file_text import initial_text
from memsvc.domain.files import File, FileCategory, format_ref, is_expired
from memsvc.domain.limits import FILE_NAME, INLINE_IMAGES
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope
from memsvc.engine.commit.group_committer import CALL_DEADLINE, GroupCommitter
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.records.memory_builder import ExtractedImages, NoImages
from memsvc.ports.blobs import BlobStore
from memsvc.ports.metadata import Transaction
from memsvc.text.file_refs import InlineImage, inline_images, with_references

_NAMESPACE = uuid.UUID("5f1c8a52-9c1e-5d0f-8b0a-6c1f3a7f2f2e")


class InlineImageExtractor:
    """An extractor of inline images; an image is stored as one file per project, however often it is written."""

    def __init__(
        self,
        committer: GroupCommitter,
        blobs: BlobStore,
        blob_guard: BlobGuard,
        fault_of: Callable[[str, int], str],
        now: Callable[[], datetime],
    ) -> None:
        """Store in *blobs*; *fault_of* returns why a media type and size are not allowed, or ""."""
        self._committer = committer
        self._blobs = blobs
        self._blob_guard = blob_guard
        self._fault_of = fault_of
        self._now = now

    def extract_images(self, scope: Scope, content: str, *, field: str) -> ExtractedImages:
        """Return *content* with references in place of its images: see `memsvc.engine.records.memory_builder`."""
        images = inline_images(content)
        if not images:
            return NoImages(content)
        violations = [Violation(field, fault) for fault in self._faults(images)]
        if violations:
            raise InvalidRequestError(violations)
        text = with_references(content, images, lambda image: _ref(scope, image))
        # The description of the first of equal images becomes the name of the file.
        return _StoredImages(
            text, {format_ref(_ref(scope, image)): image for image in reversed(images)}, self._store_image
        )

    def _faults(self, images: list[InlineImage]) -> Iterator[str]:
        if len(images) > INLINE_IMAGES:
            yield f"holds {len(images)} images; at most {INLINE_IMAGES} are allowed: upload them, and refer to them"
        for number, image in enumerate(images[:INLINE_IMAGES], start=1):
            if image.data is None:
                yield f"holds an image, number {number}, whose bytes are not valid base64"
            elif fault := self._fault_of(image.media_type, len(image.data)):
                yield f"holds an image, number {number}, that cannot be stored: {fault}"

    def _store_image(self, scope: Scope, image: InlineImage) -> FileRef:
        data, ref = image.data or b"", _ref(scope, image)
        sha256 = _digest(image)
        file = File(
            id=ref.id,
            scope=scope,
            category=FileCategory.MEMORY,
            name=_name(image),
            media_type=image.media_type,
            size_bytes=len(data),
            sha256=sha256,
            create_time=self._now(),
            text=initial_text(image.media_type, _name(image)),
        )

        def work(transaction: Transaction) -> None:
            transaction.files.fill(scope.owner, sha256)
            known = transaction.files.get_many(scope.owner, [file.id]).get(file.id)
            if known is not None and is_expired(known, file.create_time):
                transaction.files.delete([known])
                known = None
            if known is None:
                transaction.files.insert(file)

        is_unused = True
        try:
            with self._blobs.stage() as staged:
                staged.write([data])
                with self._blob_guard.lock(sha256):
                    staged.commit(CALL_DEADLINE.get())
                    self._committer.submit(work)
                    is_unused = False
        except (BackendUnavailableError, DeadlineExceededError):
            # The file may be committed yet, and then needs its content; otherwise a sweep removes that.
            is_unused = False
            raise
        finally:
            if is_unused:
                self._blob_guard.try_to_remove_unused([sha256])
        return ref


@dataclass(frozen=True, slots=True)
class _StoredImages:
    """A text, its images by their references, and the function that stores one."""

    text: str
    images: Mapping[str, InlineImage]
    keep: Callable[[Scope, InlineImage], FileRef]

    def store(self, scope: Scope, content: str) -> str:
        for reference, image in self.images.items():
            if reference in content:
                content = content.replace(reference, format_ref(self.keep(scope, image)))
        return content


def _ref(scope: Scope, image: InlineImage) -> FileRef:
    name = f"{scope.owner}\0{scope.project_id}\0{image.media_type}\0{_digest(image)}"
    return FileRef(FileCategory.MEMORY.value, str(uuid.uuid5(_NAMESPACE, name)))


def _digest(image: InlineImage) -> str:
    return hashlib.sha256(image.data or b"").hexdigest()


def _name(image: InlineImage) -> str:
    """Return the file name of an image: its description with the extension of its type."""
    ending = image.media_type.removeprefix("image/").partition("+")[0]
    label = "".join(char for char in image.alt if char.isprintable()).strip() or "image"
    return f"{label[: FILE_NAME - len(ending) - 1]}.{ending}"
