"""Erasure of a user from the store, the indexes, the caches and their files."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.diagnostics import ReindexMode
from memsvc.domain.errors import BackendUnavailableError, ReindexRunningError
from memsvc.domain.field_rules import time_zone
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.user_data import Erasure, Receipt, StoreErasure, deobfuscate, obfuscate, owner_digest
from memsvc.domain.vault_layout import folder_of_id
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import GRACE, without_files
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.indexing.unused_embeddings import UnusedEmbeddings
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.search.scoring import names_of_speaker
from memsvc.engine.user_data.residue_scan import ResidueScan, search_files
from memsvc.engine.user_data.schema import zone_name
from memsvc.ports.blobs import BlobStore
from memsvc.ports.features import FileReads
from memsvc.ports.indexes import LexicalIndex, VectorIndex
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import ErasureReads
from memsvc.text.analysis import short_spans, word_spans, word_terms
from memsvc.text.capture_rules import chinese_everyday_reason, english_everyday_reason
from memsvc.text.facts.statements import cached_facts, cached_loose_facts
from memsvc.text.paraphrase import cached_gist
from memsvc.text.passages import cached_terms
from memsvc.text.ranking_cues import cached_cues
from memsvc.text.reminder_extraction import cached_completion, cached_schedule_change

# Records of erasures: a journal while one runs, which survives crashes, then a receipt without user data.


QUICK_BYTES = 512 * 1024 * 1024
"""Up to this size the store's files are rewritten after every erasure: writers wait some three seconds."""
OWNER_BYTES = 8
"""Minimum length of an owner's name for the scan: a shorter one occurs in any large file by chance."""
SETTLE_TRIES = 25
BATCH = 200
"""Files read per batch."""
BLOBS = "blobs"
ORPHANS = "orphan_blobs"
"""The kind under which blobs without a file are counted."""
MEMORIES_PER_TRANSACTION = 200
"""Memories removed in one transaction."""
ROWS_PER_TRANSACTION = 2_000
"""Rows of each other table removed in one transaction."""
SAMPLES = 8
"""Number of contents, and of ids, to search for in the files afterwards."""
SAMPLE_CHARS = 40
SAMPLE_MINIMUM = 16
"""Bytes."""
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.2
CHECKED = ("metadata", "vectors", "lexical", BLOBS, "files")


@dataclass(frozen=True, slots=True)
class ErasureJournal:
    """The findings of an erasure before any removal.

    Attributes:
        record_counts: Numbers of records by kind, by store.
        samples: Pieces of content to search for in files; *ids* likewise.
    """

    record_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was found."""
        return not any(counts for counts in self.record_counts.values())


@dataclass(frozen=True, slots=True)
class ExternalCopies:
    """Removals outside the owner's own records, made or planned.

    Attributes:
        embeddings: The number of removed embeddings that no stored text needs any more, of any user.
        orphans: The number of removed blobs without a file.
        left: The number of remaining unused blobs.
    """

    embeddings: int = 0
    orphans: int = 0
    left: int = 0


def with_external_copies(found: Mapping[str, Mapping[str, int]], copies: ExternalCopies) -> dict[str, dict[str, int]]:
    """Return the findings by store, including the external copies."""
    every = {name: dict(counts) for name, counts in found.items()}
    for store, name, count in (("metadata", "embeddings", copies.embeddings), (BLOBS, ORPHANS, copies.orphans)):
        if count:
            every[store] = {**every.get(store, {}), name: count}
    return every


def journal_to_json(journal: ErasureJournal) -> str:
    """Return a journal as JSON."""
    found = {name: dict(counts) for name, counts in journal.record_counts.items()}
    samples, ids = (list(map(obfuscate, texts)) for texts in (journal.samples, journal.ids))
    # Earlier versions, one of which may finish the erasure, read "digests".
    return json.dumps({"found": found, "digests": "", "samples": samples, "ids": ids})


def journal_from_json(text: str) -> ErasureJournal:
    """Return the journal that `journal_to_json` wrote."""
    content = json.loads(text)
    samples, ids = (tuple(map(deobfuscate, content[name])) for name in ("samples", "ids"))
    return ErasureJournal(content["found"], samples, ids)


def receipt_to_json(receipt: Receipt, place: int) -> str:
    """Return a receipt as JSON, with the *place* in the change feed that the erasure had reached."""
    content = {
        "begin": to_micros(receipt.begin_time),
        "end": to_micros(receipt.end_time),
        "clean": receipt.is_clean,
        "stores": [(one.name, dict(one.removed), one.remaining) for one in receipt.stores],
        "backups": receipt.backups,
        "files": receipt.files_searched,
        "place": place,
    }
    return json.dumps(content)


def erased_position(text: str) -> int:
    """Return the place in the change feed stored with a receipt; 0 when it has none."""
    return int(json.loads(text).get("place", 0)) if text else 0


def receipt_from_json(text: str) -> Receipt:
    """Return the receipt that `receipt_to_json` wrote."""
    content: Any = json.loads(text)
    return Receipt(
        begin_time=from_micros(content["begin"]),
        end_time=from_micros(content["end"]),
        is_done=True,
        is_clean=content["clean"],
        stores=tuple(StoreErasure(*one) for one in content["stores"]),
        backups=tuple(content["backups"]),
        files_searched=content["files"],
    )


# Scrubbing of the data directory: files are rewritten, and scanned for residue.


class StorageScrubber:
    """A scrubber that removes erased data from files.

    The files of a store on a server are neither searched nor known here: it is rewritten if it is small enough by the
    settings of its backend. The following is about stores in files of this machine.

    A database leaves copies of entries in pages that they were moved from, including entries that were removed long
    before the erasure, which no scan can search for. Only a rewrite is certain to remove them. A large database, whose
    rewrite would block writers for long, is rewritten when the scan finds residue, above all the owner's name, which
    nearly all entries of tables and indexes contain; or when the name is too short or ambiguous for a scan.
    """

    def __init__(
        self, erasures: ErasureReads, directory: Path, without: Sequence[Path], pause: threading.Event
    ) -> None:
        """Scrub *directory* except the folders *without*; when *pause* is set, waits end at once."""
        self._erasures = erasures
        self._directory = directory
        self._without = without
        self._pause = pause

    def run(self, owner: str, journal: ErasureJournal) -> ResidueScan:
        """Scrub the files of removed data, and return the result of a scan of them afterwards.

        Raises:
            BackendUnavailableError: The files cannot be rewritten or read.
        """
        is_searchable = len(owner.encode()) >= OWNER_BYTES
        is_rewritten = not journal.is_empty and self._is_due(is_searchable=is_searchable)
        if is_rewritten:
            self._erasures.rewrite()
        self.settle()
        needles = (*journal.ids, *journal.samples, *((owner,) if is_searchable else ()))
        search = self._search(needles)
        if not search.holding:
            return search
        own = [needle for needle in needles if not self._is_of_others(needle, owner, journal)]
        search = self._search(own)
        # A match of a name that contains or is part of another user's name can be ambiguous.
        is_here = bool(self._erasures.files())
        if is_here and (search.holding or (is_searchable and owner not in own and not is_rewritten)):
            log.warning("files may still hold erased data and are rewritten: %s", ", ".join(search.holding))
            self._erasures.rewrite()
            self.settle()
            search = self._search(own)
        return search

    def settle(self) -> None:
        """Remove erased data from the write-ahead log, unless a long reader holds an older state."""
        for _ in range(SETTLE_TRIES):
            if self._erasures.settle() or self._pause.wait(PAUSE_SECONDS):
                return

    def _is_due(self, *, is_searchable: bool) -> bool:
        """Return whether the store is rewritten regardless of the scan."""
        files = [path.resolve() for path in self._erasures.files() if path.exists()]
        if not self._erasures.files():
            return self._erasures.is_quick_to_rewrite()
        if not files:
            return False
        is_searched = all(path.is_relative_to(self._directory.resolve()) for path in files)
        return not (is_searchable and is_searched) or sum(path.stat().st_size for path in files) <= QUICK_BYTES

    def _is_of_others(self, needle: str, owner: str, journal: ErasureJournal) -> bool:
        """Return whether *needle* also occurs in data of other users, so that a match is no residue."""
        if needle == owner:
            return self._erasures.is_ambiguous(owner)
        return needle in journal.samples and self._erasures.is_elsewhere(needle)

    def _search(self, needles: Sequence[str]) -> ResidueScan:
        try:
            return search_files(self._directory, needles, without=self._without)
        except OSError as error:
            raise BackendUnavailableError("files") from error


# Removal of files: blobs without another user are removed before the file records.


class UserBlobs:
    """A finder and remover of the blobs of users."""

    def __init__(
        self, files: FileReads, blobs: BlobStore, blob_guard: BlobGuard, search_priority: SearchPriority
    ) -> None:
        """Read *files*, and remove from *blobs* through *blob_guard*."""
        self._files = files
        self._blobs = blobs
        self._blob_guard = blob_guard
        self._search_priority = search_priority

    def count(self, owner: str) -> int:
        """Return the number of blobs used only by *owner*."""
        return len({sha256 for part in self._parts(owner) for sha256 in part})

    def remove(self, owner: str, require_running: Callable[[], None]) -> set[str]:
        """Remove the blobs used only by *owner*, and return their digests.

        The owner's file records remain, so that the removal can be repeated after a crash.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        removed: set[str] = set()
        for part in self._parts(owner):
            require_running()
            self._blob_guard.erase(part, owner)
            removed |= part
        return removed

    def orphans(self) -> dict[str, datetime]:
        """Return the blobs without a file, with their times; their owners are unknown.

        The file of a purged memory may be removed before its bytes.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        found = {
            blob.sha256: blob.put_time
            for blob in without_files(self._blobs.blobs(), self._files, self._search_priority)
        }
        left = self._blob_guard.find_unused(found)
        return {sha256: put_time for sha256, put_time in found.items() if sha256 in left}

    def remove_orphans(self, digests: Collection[str], require_running: Callable[[], None]) -> int:
        """Remove those of the blobs that still have no file; return the number. A blob being uploaded is kept.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        removed = 0
        for sha256 in digests:
            require_running()
            removed += self._blob_guard.erase([sha256], "")
        return removed

    def count_remaining(self, digests: Collection[str]) -> int:
        """Return the number of these blobs that exist and are unused."""
        return len(self._blob_guard.find_unused(digests))

    def _parts(self, owner: str) -> Iterator[set[str]]:
        after = 0
        while part := self._files.of_owner(owner, after=after, limit=BATCH):
            digests = {file.sha256 for file in part if file.has_content}
            yield digests - self._files.digests_in_use(digests, apart_from=owner)
            after = part[-1].row


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheInvalidation:
    """The caches that hold data of users: each has a function that drops an owner."""

    flush: Callable[[], None]
    forget: Sequence[Callable[[str], None]]


@dataclass(frozen=True, slots=True)
class DerivedIndexes:
    """The indexes and embeddings derived from the store."""

    vectors: VectorIndex
    lexical: LexicalIndex
    indexer: Indexer
    reindex: ReindexService
    unused_embeddings: UnusedEmbeddings


@dataclass(frozen=True, slots=True)
class DataLocations:
    """The locations of files.

    Attributes:
        backups: Returns the names of existing backups, which are not changed.
        files: The files of users, whose bytes are found by their hash.
        without: Folders that are neither scanned nor changed.
    """

    directory: Path
    backups: Callable[[], Sequence[str]]
    files: UserBlobs
    without: Sequence[Path] = ()


class UserEraser:
    """The erasure of users, one at a time. After a crash it is finished at the next start, or by the next call."""

    def __init__(  # noqa: PLR0913, PLR0917 - a part each
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        indexes: DerivedIndexes,
        blob_guard: CacheInvalidation,
        place: DataLocations,
        now: Callable[[], datetime],
        search_priority: SearchPriority,
    ) -> None:
        """Erase from the given stores, indexes, caches and files."""
        self._store = store
        self._committer = committer
        self._indexes = indexes
        self._blob_guard = blob_guard
        self._place = place
        self._now = now
        self._search_priority = search_priority
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._clearing = StorageScrubber(store.erasures, place.directory, place.without, self._pause)

    def preview(self, scope: Scope) -> Receipt:
        """Return what `run` would remove, without changes."""
        now = self._now()
        found = self._find_traces(scope.owner, self._store.erasures.projects(scope.owner))
        copies = ExternalCopies(orphans=len(self._removable(self._place.files.orphans())))
        stores = tuple(StoreErasure(name, removed) for name, removed in with_external_copies(found, copies).items())
        backups = tuple(self._place.backups())
        return Receipt(now, now, is_done=False, is_clean=False, stores=stores, backups=backups)

    def run(self, scope: Scope, *, request_id: str) -> Receipt:
        """Remove all stored data of the user of *scope*, and scan for residue.

        Raises:
            BackendUnavailableError: A store or an index cannot be reached; the erasure has begun, and writes of the
                user are rejected until it is finished.
        """
        with self._lock:
            known = self._store.erasures.find(scope.owner)
            if known is not None and known.end_time is not None and request_id and known.request_id == request_id:
                return receipt_from_json(known.receipt)
            if known is None or known.end_time is not None:
                known = self._begin(scope.owner, request_id)
            return self._finish(known)

    def finish_begun(self) -> None:
        """Finish an erasure begun by an earlier process; a failure is logged, and the next call resumes."""
        for erasure in self._store.erasures.unfinished_erasures():
            with self._lock:
                current = self._store.erasures.find(erasure.owner)
                if current is not None and current.end_time is None and not self._pause.is_set():
                    log.info("resuming an interrupted erasure")
                    self._finish(current)

    def stop(self) -> None:
        """Stop before the next batch; the rest is finished after the next start."""
        self._pause.set()

    def _begin(self, owner: str, request_id: str) -> Erasure:
        projects = tuple(self._store.erasures.projects(owner))
        erasure = Erasure(owner_digest(owner), owner, request_id, self._now(), projects=projects)
        self._committer.submit(lambda transaction: transaction.begin_erasure(erasure))
        return erasure

    def _finish(self, erasure: Erasure) -> Receipt:
        owner = erasure.owner
        if not erasure.receipt:
            # From here on writes of the owner are rejected, and the journal is stored before any removal.
            self._blob_guard.flush()
            projects = tuple(sorted({*erasure.projects, *self._store.erasures.projects(owner)}))
            erasure = replace(erasure, projects=projects, receipt=journal_to_json(self._notes(owner, projects)))
            noted = erasure
            self._committer.submit(lambda transaction: transaction.begin_erasure(noted))
        journal = journal_from_json(erasure.receipt)
        blobs = self._remove(owner)
        orphans = self._place.files.orphans()
        removed = self._place.files.remove_orphans(self._removable(orphans), self._require_running)
        for forget in self._blob_guard.forget:
            forget(owner)
        if not journal.is_empty:
            self._clear_indexes()
        # Also of memories that were purged before, of which nothing is known any more.
        embeddings = self._indexes.unused_embeddings.remove(self._require_running)
        search = self._clearing.run(owner, journal)
        if search.holding and journal.is_empty:
            # Index files may still hold entries deleted earlier.
            self._clear_indexes()
            search = self._clearing.run(owner, journal)
        copies = ExternalCopies(embeddings, removed, left=self._place.files.count_remaining(blobs | orphans.keys()))
        receipt = self._receipt(erasure, journal, copies, search)
        text = receipt_to_json(receipt, self._store.feed.head_position())
        done = replace(erasure, owner="", projects=(), end_time=receipt.end_time, receipt=text)
        self._committer.submit(lambda transaction: transaction.end_erasure(done))
        # The write-ahead log still holds the begun erasure with its owner.
        self._clearing.settle()
        return receipt

    def _notes(self, owner: str, projects: Sequence[str]) -> ErasureJournal:
        samples: list[str] = []
        ids: list[str] = []
        with self._store.users.snapshot(owner) as snapshot:
            for stored in snapshot.memories():
                self._require_running()
                ids += [stored.memory.id] if len(ids) < SAMPLES else []
                pasts = (earlier.memory for earlier in snapshot.earlier(stored.memory))
                for memory in (stored.memory, *pasts):
                    self._search_priority.yield_to_searches()
                    samples += _sample(memory.content) if len(samples) < SAMPLES else []
        for text in self._store.files.passages_of_owner(owner, limit=SAMPLES):
            samples += _sample(text)
        return ErasureJournal(self._find_traces(owner, projects), tuple(samples), tuple(ids))

    def _remove(self, owner: str) -> set[str]:
        """Remove everything from the stores; return the hashes of the removed blobs."""
        blobs = self._place.files.remove(owner, self._require_running)
        with self._store.users.snapshot(owner) as snapshot:
            memories = snapshot.memories()
            while part := [stored.memory.row for stored in islice(memories, MEMORIES_PER_TRANSACTION)]:
                self._require_running()
                self._committer.submit(_erasure_of(owner, part))
        while self._committer.submit(
            lambda transaction: transaction.erase_rest(owner, limit=ROWS_PER_TRANSACTION)
        ).value:
            self._require_running()
        return blobs

    def _clear_indexes(self) -> None:
        """Apply the removal to the indexes, and rewrite them, since deleted entries stay in their files."""
        indexes = self._indexes
        try:
            indexes.indexer.when_reached(self._store.feed.head_position()).result(PATIENCE_SECONDS)
        except TimeoutError as error:
            raise BackendUnavailableError("indexes") from error
        if not (indexes.vectors.storage_bytes() or indexes.lexical.storage_bytes()):
            return
        for _ in range(int(PATIENCE_SECONDS / PAUSE_SECONDS)):
            self._require_running()
            try:
                for _ in indexes.reindex.run((), ReindexMode.REBUILD):
                    self._require_running()
            except ReindexRunningError:
                self._pause.wait(PAUSE_SECONDS)
            else:
                return
        raise BackendUnavailableError("indexes")

    def _removable(self, orphans: Mapping[str, datetime]) -> list[str]:
        """Return the blobs without an upload in progress: local uploads are waited for, remote ones are recent."""
        if not self._store.is_shared:
            return list(orphans)
        return [sha256 for sha256, put_time in orphans.items() if put_time <= self._now() - GRACE]

    def _receipt(
        self, erasure: Erasure, journal: ErasureJournal, copies: ExternalCopies, search: ResidueScan
    ) -> Receipt:
        found = with_external_copies(journal.record_counts, copies)
        left = self._find_traces(erasure.owner, erasure.projects)
        remaining = {name: sum(counts.values()) for name, counts in left.items()} | {
            BLOBS: copies.left,
            "files": len(search.holding),
        }
        stores = tuple(StoreErasure(name, found.get(name, {}), remaining[name]) for name in CHECKED)
        return Receipt(
            begin_time=erasure.begin_time,
            end_time=self._now(),
            is_done=True,
            is_clean=not any(remaining.values()),
            stores=stores,
            backups=tuple(self._place.backups()),
            files_searched=search.files,
        )

    def _find_traces(self, owner: str, projects: Sequence[str]) -> dict[str, dict[str, int]]:
        traces = self._store.erasures.traces(owner)
        reach = Reach(owner, tuple(projects))
        return {
            "metadata": {name: count for name, count in traces.items() if count},
            "vectors": self._entries(self._indexes.vectors, reach),
            "lexical": self._entries(self._indexes.lexical, reach),
            BLOBS: {"blobs": count} if (count := self._place.files.count(owner)) else {},
        }

    @staticmethod
    def _entries(index: VectorIndex | LexicalIndex, reach: Reach) -> dict[str, int]:
        entries = index.count(reach=reach) if reach.project_ids and index.manifest is not None else 0
        return {"entries": entries} if entries else {}

    def _require_running(self) -> None:
        if self._pause.is_set():
            raise BackendUnavailableError("service")


def _erasure_of(owner: str, rows: Sequence[int]) -> Callable[[Transaction], Mapping[str, int]]:
    return lambda transaction: transaction.erase_memories(owner, rows)


def _sample(content: str) -> list[str]:
    """Return a piece of content that is long enough not to match other users' content by chance."""
    sample = content[:SAMPLE_CHARS]
    return [sample] if len(sample.encode()) >= SAMPLE_MINIMUM else []


# Caches of functions of texts, which an erasure must clear.
#
# Each is a `functools.lru_cache` of a pure function in its own module: its result depends on its arguments alone, so
# the cache changes no behaviour and is no hidden input. But its keys are texts of users, which an erasure must not
# leave in the memory of the process. A test finds every such cache that is missing here.


TEXT_CACHES = (
    cached_completion,
    cached_cues,
    cached_facts,
    cached_gist,
    cached_loose_facts,
    cached_schedule_change,
    cached_terms,
    folder_of_id,
    names_of_speaker,
    short_spans,
    time_zone,
    word_spans,
    word_terms,
    chinese_everyday_reason,
    english_everyday_reason,
    zone_name,
)


def clear_text_caches() -> None:
    """Drop every cached result, and with it every text that was analysed."""
    for cached in TEXT_CACHES:
        cached.cache_clear()
