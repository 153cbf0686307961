"""Erase: everything of a user, from the store, the indexes, the caches and the files of all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from memsvc.domain.diagnostics import ReindexMode
from memsvc.domain.errors import BackendUnavailableError, ReindexRunningError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.user_data import Erased, Erasure, Receipt, owner_digest
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.files.garbage_collection import GRACE
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import Reindex
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.engine.user_data.erasure_receipts import (
    ErasureJournal,
    ExternalCopies,
    notes_of,
    notes_text,
    receipt_of,
    receipt_text,
    with_beside,
)
from memsvc.engine.user_data.export import own_passages, text_digest
from memsvc.engine.user_data.file_erasure import BLOBS, FilesOfUsers
from memsvc.engine.user_data.residue_scan import ResidueScan
from memsvc.engine.user_data.storage_scrub import StorageScrubber
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.vectors import VectorIndex

PART = 200
"""Memories removed in one transaction."""
REST = 2_000
"""Rows of each other table removed in one transaction."""
DIGESTS = 5_000
SAMPLES = 8
"""So many contents and as many ids are looked for in the files afterwards."""
SAMPLE_CHARS = 40
SAMPLE_MINIMUM = 16
"""Bytes."""
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.2
CHECKED = ("metadata", "vectors", "lexical", BLOBS, "files")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheInvalidation:
    """What keeps something of users in memory: each is told to forget an owner."""

    flush: Callable[[], None]
    forget: Sequence[Callable[[str], None]]


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is derived from the store."""

    vectors: VectorIndex
    lexical: LexicalIndex
    indexer: Indexer
    reindex: Reindex
    embedding: CachedEmbedder
    tier: EmbeddingGranularity


@dataclass(frozen=True, slots=True)
class DataLocations:
    """Where files are.

    Attributes:
        backups: Names the backups that are there; they are left alone.
        files: The files of users, whose bytes are looked for by their hash.
        without: Folders that are not looked through, since they are left alone.
    """

    directory: Path
    backups: Callable[[], Sequence[str]]
    files: FilesOfUsers
    without: Sequence[Path] = ()


class Erase:
    """Erases users, one at a time. What a crash breaks off is finished at the next start, or by the next call."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        indexes: Indexes,
        keeping: CacheInvalidation,
        place: DataLocations,
        now: Callable[[], datetime],
    ) -> None:
        """Erase from all of these."""
        self._store = store
        self._committer = committer
        self._indexes = indexes
        self._keeping = keeping
        self._place = place
        self._now = now
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._clearing = StorageScrubber(store.erasures, place.directory, place.without, self._pause)

    def preview(self, scope: Scope) -> Receipt:
        """Return what `run` would remove; nothing is changed."""
        now = self._now()
        found = self._found(scope.owner, self._store.erasures.projects(scope.owner))
        beside = ExternalCopies(orphans=len(self._removable(self._place.files.orphans())))
        stores = tuple(Erased(name, removed) for name, removed in with_beside(found, beside).items())
        backups = tuple(self._place.backups())
        return Receipt(now, now, is_done=False, is_clean=False, stores=stores, backups=backups)

    def run(self, scope: Scope, *, request_id: str) -> Receipt:
        """Remove all that is stored of the user of *scope*, and look whether anything is left.

        Raises:
            BackendUnavailableError: A store or an index cannot be reached; the erasure is begun, and nothing of the
                user can be stored until it is finished.
        """
        with self._lock:
            known = self._store.erasures.find(scope.owner)
            if known is not None and known.end_time is not None and request_id and known.request_id == request_id:
                return receipt_of(known.receipt)
            if known is None or known.end_time is not None:
                known = self._begin(scope.owner, request_id)
            return self._finish(known)

    def finish_begun(self) -> None:
        """Finish what an earlier run of the process began; a failure is logged, and the next call goes on."""
        for erasure in self._store.erasures.running():
            with self._lock:
                current = self._store.erasures.find(erasure.owner)
                if current is not None and current.end_time is None and not self._pause.is_set():
                    log.info("an erasure that was broken off goes on")
                    self._finish(current)

    def stop(self) -> None:
        """Begin no further part; what is left is finished after the next start."""
        self._pause.set()

    def _begin(self, owner: str, request_id: str) -> Erasure:
        projects = tuple(self._store.erasures.projects(owner))
        erasure = Erasure(owner_digest(owner), owner, request_id, self._now(), projects=projects)
        self._committer.submit(lambda transaction: transaction.begin_erasure(erasure))
        return erasure

    def _finish(self, erasure: Erasure) -> Receipt:
        owner = erasure.owner
        if not erasure.receipt:
            # Nothing new of the owner comes from here on, and nothing is removed before it is noted.
            self._keeping.flush()
            projects = tuple(sorted({*erasure.projects, *self._store.erasures.projects(owner)}))
            erasure = replace(erasure, projects=projects, receipt=notes_text(self._notes(owner, projects)))
            noted = erasure
            self._committer.submit(lambda transaction: transaction.begin_erasure(noted))
        notes = notes_of(erasure.receipt)
        blobs = self._remove(owner)
        orphans = self._place.files.orphans()
        removed = self._place.files.remove_orphans(self._removable(orphans), self._require_running)
        for forget in self._keeping.forget:
            forget(owner)
        embeddings = self._clear_derived(owner, notes)
        search = self._clearing.run(owner, notes)
        if search.holding and notes.is_empty:
            # Of what was deleted before and left no trace, files of the indexes may still have something.
            self._clear_indexes()
            search = self._clearing.run(owner, notes)
        beside = ExternalCopies(embeddings, removed, left=self._place.files.remaining(blobs | orphans.keys()))
        receipt = self._receipt(erasure, notes, beside, search)
        text = receipt_text(receipt, self._store.feed.head())
        done = replace(erasure, owner="", projects=(), end_time=receipt.end_time, receipt=text)
        self._committer.submit(lambda transaction: transaction.end_erasure(done))
        # The log still holds that the erasure was begun, and of whom.
        self._clearing.settle()
        return receipt

    def _notes(self, owner: str, projects: Sequence[str]) -> ErasureJournal:
        digests: set[bytes] = set()
        samples: list[str] = []
        ids: list[str] = []
        with self._store.users.snapshot(owner) as snapshot:
            for stored in snapshot.memories():
                self._require_running()
                ids += [stored.memory.id] if len(ids) < SAMPLES else []
                pasts = (earlier.memory for earlier in snapshot.earlier(stored.memory))
                for memory in (stored.memory, *pasts):
                    SEARCH_PRIORITY.give_way()
                    digests.update(text_digest(passage.text) for passage in own_passages(memory, self._indexes.tier))
                    samples += _sample(memory) if len(samples) < SAMPLES else []
        return ErasureJournal(self._found(owner, projects), frozenset(digests), tuple(samples), tuple(ids))

    def _remove(self, owner: str) -> set[str]:
        """Remove all from the stores; return the hashes of the blobs that went."""
        blobs = self._place.files.remove(owner, self._require_running)
        with self._store.users.snapshot(owner) as snapshot:
            memories = snapshot.memories()
            while part := [stored.memory.row for stored in islice(memories, PART)]:
                self._require_running()
                self._committer.submit(_erasing(owner, part, ()))
        while self._committer.submit(lambda transaction: transaction.erase_rest(owner, limit=REST)).value:
            self._require_running()
        return blobs

    def _clear_derived(self, owner: str, notes: ErasureJournal) -> int:
        """Clear the indexes, then remove the embeddings that nobody asked for meanwhile; return how many."""
        with self._indexes.embedding.noticing(notes.digests) as asked:
            if not notes.is_empty:
                self._clear_indexes()
            return self._remove_embeddings(owner, notes.digests - asked)

    def _remove_embeddings(self, owner: str, digests: AbstractSet[bytes]) -> int:
        """Remove those that nobody else asked for when the indexes were written anew."""
        every, removed = sorted(digests), 0
        for start in range(0, len(every), DIGESTS):
            part = _erasing(owner, (), every[start : start + DIGESTS])
            removed += self._committer.submit(part).value.get("embeddings", 0)
        return removed

    def _clear_indexes(self) -> None:
        """Bring the removal into the indexes, and write them anew, since deleted entries stay in their files."""
        indexes = self._indexes
        try:
            indexes.indexer.reached(self._store.feed.head()).result(PATIENCE_SECONDS)
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
        """Return those that are no upload on its way: in this process one is waited for, in another it is young."""
        if not self._store.is_shared:
            return list(orphans)
        return [sha256 for sha256, put_time in orphans.items() if put_time <= self._now() - GRACE]

    def _receipt(self, erasure: Erasure, notes: ErasureJournal, beside: ExternalCopies, search: ResidueScan) -> Receipt:
        found = with_beside(notes.found, beside)
        left = self._found(erasure.owner, erasure.projects)
        remaining = {name: sum(counts.values()) for name, counts in left.items()} | {
            BLOBS: beside.left,
            "files": len(search.holding),
        }
        stores = tuple(Erased(name, found.get(name, {}), remaining[name]) for name in CHECKED)
        return Receipt(
            begin_time=erasure.begin_time,
            end_time=self._now(),
            is_done=True,
            is_clean=not any(remaining.values()),
            stores=stores,
            backups=tuple(self._place.backups()),
            files_searched=search.files,
        )

    def _found(self, owner: str, projects: Sequence[str]) -> dict[str, dict[str, int]]:
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


def _erasing(owner: str, rows: Sequence[int], digests: Sequence[bytes]) -> Callable[[Transaction], Mapping[str, int]]:
    return lambda transaction: transaction.erase_memories(owner, rows, digests)


def _sample(memory: Memory) -> list[str]:
    """Return a piece of content that is long enough to be nobody else's by chance."""
    sample = memory.content[:SAMPLE_CHARS]
    return [sample] if len(sample.encode()) >= SAMPLE_MINIMUM else []
