"""The lexical index over Tantivy, and the entry point."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from pathlib import Path

from pydantic import Field

from memsvc.data_directory import obstacle_of, sync
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.faults import BoundedCalls, FaultLog
from memsvc.ports.indexes import Generation, LexicalIndex, ListedEntry
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.tantivy.generation import TantivyGeneration
from memsvc_backends.tantivy.schema import FORMAT, NAME, translate

_NAME = "manifest.json"
_DRAFT = "manifest.json.tmp"

# The options of the Tantivy index.


class TantivySettings(BackendSettings):
    """Settings of the writer."""

    writer_heap_bytes: int = Field(default=50_000_000, ge=15_000_000)
    """Memory that uncommitted entries may take before a segment is written, in bytes. Tantivy's floor is 15 MB."""
    write_timeout_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """How long a write may take before the index counts as unavailable for writes, as while its disk hangs."""


_log = logging.getLogger(__name__)


class TantivyLexicalIndex:
    """Generations as folders side by side, one of them live: the one that the manifest names."""

    is_shared = False

    def __init__(self, directory: Path, settings: TantivySettings, faults: FaultLog | None = None) -> None:
        self._directory = directory
        # One thread: what it writes late comes before what is written next.
        self._writes = BoundedCalls(NAME, faults or FaultLog(), threads=1, seconds=settings.write_timeout_seconds)
        self._write_seconds = self._usual_seconds = settings.write_timeout_seconds
        self._heap_bytes = settings.writer_heap_bytes
        self._is_closed = False
        self._making: TantivyGeneration | None = None
        with translate():
            directory.mkdir(parents=True, exist_ok=True)
        self._live = self._open_live()
        self._remove_leftovers()

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none."""
        live = self._require_open()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the entries of each memory exactly those given, with one commit.

        A write that takes too long is given up and may still take place; the same write repeated gets twice the time,
        so that a slow disk does not have it repeated endlessly.
        """
        live = self._require_open()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        seconds, self._write_seconds = self._write_seconds, min(self._write_seconds * 2, self._usual_seconds * 8)
        self._writes.run(partial(live.replace, changes), seconds=seconds)
        self._write_seconds = self._usual_seconds

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Hits:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._require_open()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if live is None or not terms:
            return Hits.of(())
        return live.search(terms, reach=reach, where=where, limit=limit)

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start a generation; discard an unfinished one."""
        live = self._require_open()
        if live is not None and manifest.generation <= live.manifest.generation:
            message = f"The generation {manifest.generation} does not follow {live.manifest.generation}."
            raise ValueError(message)
        if self._making is not None:
            self._making.discard()
        directory = self._folder(manifest)
        shutil.rmtree(directory, ignore_errors=True)
        with translate():
            directory.mkdir(parents=True)
        self._making = TantivyGeneration(directory, manifest, heap_bytes=self._heap_bytes, is_live=False)
        return self._making

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make a sealed generation the live one and remove the one before."""
        before = self._require_open()
        if not isinstance(generation, TantivyGeneration) or generation is not self._making:
            message = "The generation is not the one that was begun last."
            raise ValueError(message)
        generation.publish()
        with translate():
            write_manifest(self._directory, generation.manifest)
        generation.go_live()
        self._live, self._making = generation, None
        if before is not None:
            before.remove()

    def inventory(self) -> Iterator[ListedEntry]:
        """List every entry of every owner."""
        live = self._require_open()
        return iter(()) if live is None else live.inventory()

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        live = self._require_open()
        return 0 if live is None else live.count(reach)

    def storage_bytes(self) -> int:
        """Return the bytes of all files, those of a generation being made too."""
        self._require_open()
        total = 0
        # The walk skips folders that a switch removes concurrently; merging removes files at any moment.
        for folder, _, names in os.walk(self._directory):
            for name in names:
                with suppress(FileNotFoundError):
                    total += (Path(folder) / name).stat().st_size
        return total

    def ping(self) -> None:
        """Return when the index can be searched, or raise BackendUnavailableError."""
        live = self._require_open()
        if live is not None:
            live.ping()

    def close(self) -> None:
        """Give files and threads back, and refuse every later use."""
        self._is_closed = True
        self._writes.close()
        for generation in (self._live, self._making):
            if generation is not None:
                generation.close()
        self._live = self._making = None

    def _require_open(self) -> TantivyGeneration | None:
        if self._is_closed:
            raise BackendClosedError(NAME)
        return self._live

    def _folder(self, manifest: LexicalManifest) -> Path:
        return self._directory / f"gen-{manifest.generation:06d}"

    def _open_live(self) -> TantivyGeneration | None:
        """Open the live generation; what is damaged is given up, since it can be built again.

        Raises:
            BackendUnavailableError: The disk is full, or something else keeps the files from being opened.
        """
        try:
            return self._read_live()
        except (UnreadableManifestError, BackendUnavailableError) as error:
            if problem := obstacle_of(error.__cause__ or error):
                raise BackendUnavailableError(NAME, problem=problem) from error
            _log.warning("lexical index unreadable, to be rebuilt: %s", error.__cause__ or error)
            remove_manifest(self._directory)
            return None

    def _read_live(self) -> TantivyGeneration | None:
        manifest = read_manifest(self._directory)
        if manifest is None:
            return None
        folder = self._folder(manifest)
        # Without this look Tantivy would make an empty index in the place of a lost one.
        if not (folder / "meta.json").is_file():
            message = "The files are gone."
            raise UnreadableManifestError(message)
        return TantivyGeneration(folder, manifest, heap_bytes=self._heap_bytes, is_live=True)

    def _remove_leftovers(self) -> None:
        live = None if self._live is None else self._folder(self._live.manifest)
        for path in self._directory.glob("gen-*"):
            if path != live:
                shutil.rmtree(path, ignore_errors=True)


def _open(settings: TantivySettings, context: BackendContext) -> AbstractContextManager[LexicalIndex]:
    return closing(TantivyLexicalIndex(context.directory, settings, context.faults))


TANTIVY: BackendSpec[LexicalIndex] = BackendSpec(settings=TantivySettings, open=_open)


# The file that names the live generation.


class UnreadableManifestError(ValueError):
    """The manifest is broken or of another format."""


def read_manifest(directory: Path) -> LexicalManifest | None:
    """Return the manifest in the directory, or None when there is none.

    Raises:
        UnreadableManifestError: The file is not a manifest of this format.
    """
    try:
        text = (directory / _NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableManifestError(str(error)) from error
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            message = f"The format is {values['format']!r}, not {FORMAT}."
            raise UnreadableManifestError(message)
        return LexicalManifest(int(values["generation"]), int(values["position"]), str(values["analysis"]))
    except (ValueError, TypeError, LookupError) as error:
        raise UnreadableManifestError(str(error)) from error


def write_manifest(directory: Path, manifest: LexicalManifest) -> None:
    """Replace the manifest in one step that survives the loss of power."""
    values = {
        "format": FORMAT,
        "generation": manifest.generation,
        "position": manifest.position,
        "analysis": manifest.analysis,
    }
    draft = directory / _DRAFT
    with draft.open("w", encoding="utf-8") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / _NAME)
    sync(directory)


def remove_manifest(directory: Path) -> None:
    """Leave the directory without a manifest."""
    (directory / _NAME).unlink(missing_ok=True)
    sync(directory)
