"""Indexing of the text of files, in the background after their upload."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TypeVar

from memsvc.domain.errors import BackendUnavailableError, ErasureRunningError, MemsvcError
from memsvc.domain.file_text import (
    RESTORABLE,
    DocumentKind,
    FilePassage,
    FileText,
    TextReason,
    TextState,
    document_kind,
)
from memsvc.domain.files import File
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.extraction.process import (
    ExtractedText,
    ExtractionStoppedError,
    TextExtractor,
    can_extract,
)
from memsvc.extraction.text_formats import ExtractionError
from memsvc.ports.blobs import BlobNotFoundError, BlobStore
from memsvc.ports.features import FileReads
from memsvc.ports.metadata import Transaction
from memsvc.text.file_refs import passage_weights

T = TypeVar("T")
ATTEMPTS = 3
"""Extractions after which a file that crashes its process, or the service, has failed."""
FIRST_PAUSE = timedelta(seconds=5)
"""Pause after a crash; it doubles with each further one."""
OUTAGE_PAUSE = timedelta(seconds=30)
"""Pause while the bytes cannot be reached. Outages do not count as attempts."""
STORING_TIME = timedelta(minutes=5)
"""Part of a claim for storing the text, after the longest extraction."""
POLL_SECONDS = 5.0
"""Interval of looks for texts that are due, such as those that other servers left."""
PASSAGES = 200
TERMS = 2_000
"""Passages and terms of a transaction: some 20 ms, for which other writers wait."""
COPY_BYTES = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TextRules:
    """Rules of the extraction of texts.

    Attributes:
        max_bytes: The maximum size of a file whose text is extracted.
        seconds: The longest duration of an extraction.
        threads: Number of files whose text is extracted at a time.
    """

    is_enabled: bool = True
    max_bytes: int = 64 * 1024 * 1024
    seconds: float = 60.0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class TextIndexingCounts:
    """Counts of this process: texts by state and reason, and the seconds that they took."""

    outcomes: Mapping[tuple[TextState, TextReason], int] = field(default_factory=dict)
    seconds: float = 0.0
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class FileSource:
    """Records of files and their bytes; those that are not in files of this machine are copied to *folder*."""

    files: FileReads
    blobs: BlobStore
    folder: Path

    @contextmanager
    def open(self, sha256: str) -> Iterator[IO[bytes]]:
        """Open the bytes of a file as a file of this machine.

        Raises:
            BlobNotFoundError: They are lost.
            BackendUnavailableError: They cannot be reached.
        """
        path = self.blobs.local_path(sha256)
        if path is not None:
            try:
                content = path.open("rb")
            except FileNotFoundError as error:
                raise BlobNotFoundError from error
            with content:
                yield content
            return
        with self.blobs.open(sha256) as reader, tempfile.TemporaryFile(dir=self.folder) as copy:
            offset = 0
            while piece := reader.read(offset, COPY_BYTES):
                copy.write(piece)
                offset += len(piece)
            copy.seek(0)
            yield copy


class TextIndexer:
    """Threads that extract and index the texts of files."""

    def __init__(
        self,
        committer: GroupCommitter,
        source: FileSource,
        extractor: TextExtractor,
        rules: TextRules,
        now: Callable[[], datetime],
        search_priority: SearchPriority,
    ) -> None:
        """Index the texts of the files of *source*; *now* is the clock."""
        self._committer, self._source = committer, source
        self._extractor, self._rules, self._now = extractor, rules, now
        self._search_priority = search_priority
        self._lock = threading.Lock()
        self._outcomes: Counter[tuple[TextState, TextReason]] = Counter()
        self._seconds = 0.0
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"memsvc-texts-{number}", daemon=True)
            for number in range(rules.threads)
        ]

    def start(self, *, is_shared: bool) -> None:
        """Start the threads.

        *is_shared*: other processes may work on the same store; otherwise what is claimed was left by a crash.
        """

        def prepare(transaction: Transaction) -> None:
            now = self._now()
            if not is_shared:
                transaction.files.release_claims(now=now)
            reasons = RESTORABLE if can_extract(DocumentKind.PDF) else RESTORABLE - {TextReason.LIBRARY_MISSING}
            transaction.files.retry_texts(reasons if self._rules.is_enabled else frozenset(), now=now)

        try:
            self._committer.submit(prepare)
        except MemsvcError:
            log.warning("texts of files that an earlier process left are not retried before the next start")
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Kill running extractions, and wait for the threads; the texts are due again."""
        self._stopping.set()
        self._due.set()
        self._extractor.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def notify(self) -> None:
        """Look for texts that are due."""
        self._due.set()

    def counts(self) -> TextIndexingCounts:
        """Return the counts; the number of pending texts is None if the store cannot be reached."""
        try:
            pending = self._source.files.pending_texts()
        except MemsvcError:
            pending = None
        with self._lock:
            return TextIndexingCounts(dict(self._outcomes), self._seconds, pending)

    def _run(self) -> None:
        is_unavailable = False
        while not self._stopping.is_set():
            self._due.clear()
            try:
                if self.index_next():
                    continue
                is_unavailable = False
            except MemsvcError as error:
                log.log(logging.DEBUG if is_unavailable else logging.WARNING, "texts of files wait: %s", error.message)
                is_unavailable = True
            except Exception:
                log.exception("the text of a file was not indexed; it is retried")
            self._due.wait(POLL_SECONDS)

    def index_next(self) -> bool:
        """Index the text of the next file; return False if none is due.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        now = self._now()
        term = timedelta(seconds=self._rules.seconds) + STORING_TIME
        claimed = self._committer.submit(
            lambda transaction: transaction.files.claim_texts(now=now, term=term, limit=1)
        ).value
        for file in claimed:
            started = time.monotonic()
            try:
                text, pause = self._index(file)
                self._finish(file, text, pause)
            except ErasureRunningError:
                continue
            if text.state is not TextState.PENDING:
                with self._lock:
                    self._outcomes[text.state, text.reason] += 1
                    self._seconds += time.monotonic() - started
        return bool(claimed)

    def _finish(self, file: File, text: FileText, pause: timedelta | None) -> None:
        text = replace(text, attempts=max(0, file.text.attempts + text.attempts))
        self._committer.submit(
            lambda transaction: transaction.files.finish_text(file, text, pause=pause), owner=file.scope.owner
        )

    def _index(self, file: File) -> tuple[FileText, timedelta | None]:
        """Return the state of a file's text, which is stored, and the pause before another attempt, if there is one.

        *attempts* of the state is the change of their number.
        """
        kind = document_kind(file.media_type, file.name)
        if kind is None or (reason := self._unsupported(kind)):
            return FileText(TextState.UNSUPPORTED, TextReason.UNSUPPORTED_TYPE if kind is None else reason), None
        try:
            self._require_extractable(file)
            with self._source.open(file.sha256) as content:
                extracted = self._extractor.extract(kind, content)
        except (ExtractionError, BlobNotFoundError) as error:
            reason = error.reason if isinstance(error, ExtractionError) else TextReason.CONTENT_MISSING
            if reason is TextReason.CRASHED and file.text.attempts < ATTEMPTS:
                return FileText(), FIRST_PAUSE * (1 << file.text.attempts)
            return FileText(TextState.FAILED, reason), None
        except (BackendUnavailableError, ExtractionStoppedError) as error:
            pause = OUTAGE_PAUSE if isinstance(error, BackendUnavailableError) else timedelta(0)
            return FileText(attempts=-1), pause
        self._store(file, extracted.passages)
        return _indexed(extracted), None

    def _require_extractable(self, file: File) -> None:
        if file.text.attempts > ATTEMPTS:
            raise ExtractionError(TextReason.CRASHED)
        if file.size_bytes > self._rules.max_bytes:
            raise ExtractionError(TextReason.FILE_TOO_LARGE)

    def _unsupported(self, kind: DocumentKind) -> TextReason:
        if not self._rules.is_enabled:
            return TextReason.DISABLED
        return TextReason.NONE if can_extract(kind) else TextReason.LIBRARY_MISSING

    def _store(self, file: File, passages: Sequence[FilePassage]) -> None:
        words: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for passage in passages:
            self._search_priority.yield_to_searches()
            for term, weight in passage_weights(passage).items():
                words[term].append((passage.ordinal, weight))
        for several in _batches(passages, PASSAGES):
            self._put(file, several, {})
        for terms in _batches(sorted(words), TERMS):
            self._put(file, (), {term: words[term] for term in terms})

    def _put(
        self, file: File, passages: Sequence[FilePassage], words: Mapping[str, Sequence[tuple[int, float]]]
    ) -> None:
        self._search_priority.yield_to_searches()
        self._committer.submit(
            lambda transaction: transaction.files.store_text(file, passages, words), owner=file.scope.owner
        )


def _indexed(extracted: ExtractedText) -> FileText:
    return FileText(
        state=TextState.INDEXED,
        chars=extracted.chars,
        size_bytes=sum(len(passage.text.encode()) for passage in extracted.passages),
        passages=len(extracted.passages),
        is_truncated=extracted.is_truncated,
    )


def _batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))
