"""From references to the files that they name, and to where these are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.files import File, UrlTemplates, url_of
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach, Scope
from memsvc.ports.features import FileReads


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What became of a reference: a file, or None when there is none in the scope. Without a template no URLs."""

    ref: FileRef
    file: File | None = None
    download_url: str = ""
    preview_url: str = ""


class FileRefResolver:
    """Resolves references, many with one question to the store."""

    def __init__(self, files: FileReads, templates: UrlTemplates, now: Callable[[], datetime]) -> None:
        """Look into *files*; *now* is the clock."""
        self._files = files
        self._templates = templates
        self._now = now

    def resolve(self, scope: Scope, refs: Iterable[FileRef]) -> dict[FileRef, ResolvedRef]:
        """Return what each of *refs* leads to: a file of that category, in the scope's project or global, unexpired."""
        distinct = list(dict.fromkeys(refs))
        if not distinct:
            return {}
        ids = list(dict.fromkeys(ref.id for ref in distinct))
        files = self._files.get(ids, reach=Reach.from_scope(scope), now=self._now())
        return {ref: self._resolved(ref, files.get(ref.id)) for ref in distinct}

    def of(self, file: File) -> ResolvedRef:
        """Return what the reference to a file leads to."""
        ref = FileRef(file.category.value, file.id)
        return ResolvedRef(ref, file, url_of(self._templates.download, file), url_of(self._templates.preview, file))

    def _resolved(self, ref: FileRef, file: File | None) -> ResolvedRef:
        return self.of(file) if file is not None and file.category.value == ref.category else ResolvedRef(ref)
