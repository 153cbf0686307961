"""Erase: everything of a user, from the store, the indexes, the caches and the files of all of them."""

from __future__ import annotations

import json
import logging
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.diagnostics import ReindexMode
from memsvc.domain.errors import BackendUnavailableError, ReindexRunningError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.user_data import Erased, Erasure, Receipt, covered, owner_digest, uncovered
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import GRACE, without_files
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.engine.user_data.export import own_passages, text_digest
from memsvc.engine.user_data.residue_scan import ResidueScan, search_files
from memsvc.ports.blobs import BlobStore
from memsvc.ports.features import FileReads
from memsvc.ports.indexes import LexicalIndex, VectorIndex
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import ErasureReads

# What is kept of erasures: notes while they run, so that a crash loses none, then receipts that name nobody.


DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class ErasureJournal:
    """What an erasure found before it removed anything.

    Attributes:
        found: How much of what, by store.
        digests: Of all texts that were embedded.
        samples: Pieces of content to look for in files; *ids* likewise.
    """

    found: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    digests: frozenset[bytes] = frozenset()
    samples: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was found."""
        return not any(counts for counts in self.found.values())


@dataclass(frozen=True, slots=True)
class ExternalCopies:
    """What came of an erasure, or would, beside what it notes.

    Attributes:
        embeddings: How many are removed.
        orphans: How many blobs are removed that no file names.
        left: How many blobs are there still that nobody uses.
    """

    embeddings: int = 0
    orphans: int = 0
    left: int = 0


def with_beside(found: Mapping[str, Mapping[str, int]], beside: ExternalCopies) -> dict[str, dict[str, int]]:
    """Return what was found, by store, with what is removed beside it."""
    every = {name: dict(counts) for name, counts in found.items()}
    for store, name, count in (("metadata", "embeddings", beside.embeddings), (BLOBS, ORPHANS, beside.orphans)):
        if count:
            every[store] = {**every.get(store, {}), name: count}
    return every


def notes_text(notes: ErasureJournal) -> str:
    """Return notes as JSON."""
    digests = b64encode(b"".join(sorted(notes.digests))).decode()
    found = {name: dict(counts) for name, counts in notes.found.items()}
    samples, ids = (list(map(covered, texts)) for texts in (notes.samples, notes.ids))
    return json.dumps({"found": found, "digests": digests, "samples": samples, "ids": ids})


def notes_of(text: str) -> ErasureJournal:
    """Return the notes that `notes_text` wrote."""
    content = json.loads(text)
    raw = b64decode(content["digests"])
    digests = (raw[start : start + DIGEST_BYTES] for start in range(0, len(raw), DIGEST_BYTES))
    samples, ids = (tuple(map(uncovered, content[name])) for name in ("samples", "ids"))
    return ErasureJournal(content["found"], frozenset(digests), samples, ids)


def receipt_text(receipt: Receipt, place: int) -> str:
    """Return a receipt as JSON, with the *place* in the changes that the erasure had reached."""
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


def erased_place(text: str) -> int:
    """Return the place that was noted with a receipt; 0 when it is one without."""
    return int(json.loads(text).get("place", 0)) if text else 0


def receipt_of(text: str) -> Receipt:
    """Return the receipt that `receipt_text` wrote."""
    content: Any = json.loads(text)
    return Receipt(
        begin_time=from_micros(content["begin"]),
        end_time=from_micros(content["end"]),
        is_done=True,
        is_clean=content["clean"],
        stores=tuple(Erased(*one) for one in content["stores"]),
        backups=tuple(content["backups"]),
        files_searched=content["files"],
    )


# What an erasure does about the files of the data directory: they are cleared, and looked through for what is left.


QUICK_BYTES = 512 * 1024 * 1024
"""The store's files are written anew after every erasure when they are no larger: writers wait some three seconds."""
OWNER_BYTES = 8
"""A shorter name of an owner is found in any large file by chance, so that it is not looked for."""
SETTLE_TRIES = 25


class StorageScrubber:
    """Clears the files of what was removed.

    A database leaves copies of entries in pages that they were moved from, also of such as were removed long before the
    erasure, so that nobody knows any more what to look for. Only writing it anew is sure to remove them. A large one,
    whose writers would have to wait for long, is written anew when the search finds something, above all the owner's
    name, which nearly all entries of tables and indexes have; and when the name is none that a search can tell.
    """

    def __init__(
        self, erasures: ErasureReads, directory: Path, without: Sequence[Path], pause: threading.Event
    ) -> None:
        """Clear *directory* but for the folders *without*; when *pause* is set, nothing is waited for."""
        self._erasures = erasures
        self._directory = directory
        self._without = without
        self._pause = pause

    def run(self, owner: str, notes: ErasureJournal) -> ResidueScan:
        """Clear the files of all that was removed, and return what a search of them finds afterwards.

        Raises:
            BackendUnavailableError: They cannot be rewritten or read.
        """
        is_telling = len(owner.encode()) >= OWNER_BYTES
        is_rewritten = not notes.is_empty and self._is_due(is_telling=is_telling)
        if is_rewritten:
            self._erasures.rewrite()
        self.settle()
        needles = (*notes.ids, *notes.samples, *((owner,) if is_telling else ()))
        search = self._search(needles)
        if not search.holding:
            return search
        own = [needle for needle in needles if not self._is_of_others(needle, owner, notes)]
        search = self._search(own)
        # Whether a name that is part of another's was found, or that other one, cannot be told.
        if search.holding or (is_telling and owner not in own and not is_rewritten):
            log.warning("files may still hold what was erased, and are written anew: %s", ", ".join(search.holding))
            self._erasures.rewrite()
            self.settle()
            search = self._search(own)
        return search

    def settle(self) -> None:
        """Bring what was removed out of the log of changes, unless somebody reads an older state for long."""
        for _ in range(SETTLE_TRIES):
            if self._erasures.settle() or self._pause.wait(PAUSE_SECONDS):
                return

    def _is_due(self, *, is_telling: bool) -> bool:
        """Return whether the store is written anew whatever a search would find."""
        files = [path.resolve() for path in self._erasures.files() if path.exists()]
        if not files:
            return False
        is_searched = all(path.is_relative_to(self._directory.resolve()) for path in files)
        return not (is_telling and is_searched) or sum(path.stat().st_size for path in files) <= QUICK_BYTES

    def _is_of_others(self, needle: str, owner: str, notes: ErasureJournal) -> bool:
        """Return whether it is no wonder that *needle* is found: what others say, too, is theirs."""
        if needle == owner:
            return self._erasures.is_part_of_others(owner)
        return needle in notes.samples and self._erasures.is_elsewhere(needle)

    def _search(self, needles: Sequence[str]) -> ResidueScan:
        try:
            return search_files(self._directory, needles, without=self._without)
        except OSError as error:
            raise BackendUnavailableError("files") from error


# What an erasure does about files: the blobs that nobody else uses go before what is known of the files.


BATCH = 200
"""Files looked at together."""
BLOBS = "blobs"
ORPHANS = "orphan_blobs"
"""What the blobs are counted as that no file names."""


class FilesOfUsers:
    """Finds and removes the blobs of users."""

    def __init__(self, files: FileReads, blobs: BlobStore, keeping: BlobGuard) -> None:
        """Look into *files*, and remove from *blobs* by *keeping*."""
        self._files = files
        self._blobs = blobs
        self._keeping = keeping

    def count(self, owner: str) -> int:
        """Return how many blobs nobody but *owner* uses."""
        return len({sha256 for part in self._parts(owner) for sha256 in part})

    def remove(self, owner: str, require_running: Callable[[], None]) -> set[str]:
        """Remove the blobs that nobody but *owner* uses, and return which they were.

        The owner's files are still there afterwards, so that it can be begun again after a crash.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        removed: set[str] = set()
        for part in self._parts(owner):
            require_running()
            self._keeping.erase(part, owner)
            removed |= part
        return removed

    def orphans(self) -> dict[str, datetime]:
        """Return the blobs that no file names, with when they were put; whose they were nobody knows.

        The file of a memory that was deleted for good may be gone before its bytes.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        found = {blob.sha256: blob.put_time for blob in without_files(self._blobs.blobs(), self._files)}
        left = self._keeping.unused(found)
        return {sha256: put_time for sha256, put_time in found.items() if sha256 in left}

    def remove_orphans(self, digests: Collection[str], require_running: Callable[[], None]) -> int:
        """Remove those of these blobs that no file names still; return how many. Whoever puts one keeps it.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        removed = 0
        for sha256 in digests:
            require_running()
            removed += self._keeping.erase([sha256], "")
        return removed

    def remaining(self, digests: Collection[str]) -> int:
        """Return how many of these blobs are there and used by nobody."""
        return len(self._keeping.unused(digests))

    def _parts(self, owner: str) -> Iterator[set[str]]:
        after = 0
        while part := self._files.of_owner(owner, after=after, limit=BATCH):
            digests = {file.sha256 for file in part if file.has_content}
            yield digests - self._files.referred(digests, apart_from=owner)
            after = part[-1].row


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
    reindex: ReindexService
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
                    SEARCH_PRIORITY.yield_to_searches()
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
        with self._indexes.embedding.track_requests(notes.digests) as asked:
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
            indexes.indexer.when_reached(self._store.feed.head()).result(PATIENCE_SECONDS)
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
