"""Images in contents become files of the category memory (requirement V7)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.files import File, FileCategory, is_expired
from memsvc.domain.limits import FILE_NAME, INLINE_IMAGES
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope
from memsvc.engine.files.keeping import Keeping
from memsvc.engine.write.committer import Committer
from memsvc.ports.blobs import BlobStore
from memsvc.ports.metadata import Transaction
from memsvc.text.inline_images import InlineImage, inline_images, with_references

_NAMESPACE = uuid.UUID("5f1c8a52-9c1e-5d0f-8b0a-6c1f3a7f2f2e")


class InlineImages:
    """Keeps images of contents; one image in one project is one file, however often it is written."""

    def __init__(
        self,
        committer: Committer,
        blobs: BlobStore,
        keeping: Keeping,
        fault_of: Callable[[str, int], str],
        now: Callable[[], datetime],
    ) -> None:
        """Put into *blobs*; *fault_of* says why a media type of so many bytes may not be kept, or nothing."""
        self._committer = committer
        self._blobs = blobs
        self._keeping = keeping
        self._fault_of = fault_of
        self._now = now

    def lifted(self, scope: Scope, content: str, *, field: str) -> str:
        """Return *content* with references in the place of its images: see `memsvc.engine.write.lifting`."""
        images = inline_images(content)
        if not images:
            return content
        violations = [Violation(field, fault) for fault in self._faults(images)]
        if violations:
            raise InvalidRequestError(violations)
        return with_references(content, images, lambda image: self._kept(scope, image))

    def _faults(self, images: list[InlineImage]) -> Iterator[str]:
        if len(images) > INLINE_IMAGES:
            yield f"holds {len(images)} images; at most {INLINE_IMAGES} are allowed: upload them, and refer to them"
        for number, image in enumerate(images[:INLINE_IMAGES], start=1):
            if image.data is None:
                yield f"holds an image, number {number}, whose bytes are not valid base64"
            elif fault := self._fault_of(image.media_type, len(image.data)):
                yield f"holds an image, number {number}, that cannot be kept: {fault}"

    def _kept(self, scope: Scope, image: InlineImage) -> FileRef:
        data = image.data or b""
        sha256 = hashlib.sha256(data).hexdigest()
        file = File(
            id=str(uuid.uuid5(_NAMESPACE, f"{scope.owner}\0{scope.project_id}\0{image.media_type}\0{sha256}")),
            scope=scope,
            category=FileCategory.MEMORY,
            name=_name(image),
            media_type=image.media_type,
            size_bytes=len(data),
            sha256=sha256,
            create_time=self._now(),
        )

        def work(transaction: Transaction) -> None:
            transaction.files.fill(scope.owner, sha256)
            known = transaction.files.stored(scope.owner, [file.id]).get(file.id)
            if known is not None and is_expired(known, file.create_time):
                transaction.files.delete([known])
                known = None
            if known is None:
                transaction.files.insert(file)

        with self._blobs.stage() as staged:
            staged.write([data])
            with self._keeping.held(sha256):
                staged.put()
                self._committer.submit(work)
        return FileRef(file.category.value, file.id)


def _name(image: InlineImage) -> str:
    """Return what an image is called: as its description says, with the ending of its type."""
    ending = image.media_type.removeprefix("image/").partition("+")[0]
    label = "".join(char for char in image.alt if char.isprintable()).strip() or "image"
    return f"{label[: FILE_NAME - len(ending) - 1]}.{ending}"
