"""Token vectors of passages: stored next to the indexes when a memory is indexed, and added to earlier memories later.

Late interaction compares the tokens of a query with those of each passage: see `memsvc.engine.search.late_interaction`.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memsvc.domain.diagnostics import TokenState
from memsvc.domain.errors import BackendClosedError, MemsvcError
from memsvc.domain.index_entries import Document, View, entry_id, row_of
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, has_given_vector, passages_of
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import IndexFeed, PassageTokens, TokenStore

MOST_CHUNKS = 256
"""Chunks of a memory that get tokens, from the first one on: about 100 000 tokens, 1.6 MB."""
DIGEST_BYTES = 16
PAGE = 32
"""Memories that get tokens at a time."""
RETRY_SECONDS = 30.0
"""Pause after a failure, and while another process adds the tokens."""
IDLE_SECONDS = 3600.0
"""Pause between looks for memories that other processes have left without tokens."""
SETTLE_SECONDS = 0.2
"""Shortest pause between two looks: an import may leave out many memories one after the other."""
REPORT_SECONDS = 30.0
"""Interval of lines in the log."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage to store tokens of: the text that is embedded, and its SHA-256 digest."""

    digest: bytes
    text: str


class PassageTokenWriter:
    """Keeps the stored tokens of memories up to date."""

    def __init__(self, embedding: CachedEmbedder, store: TokenStore) -> None:
        """Store in *store* what the model of *embedding* gives; nothing if it gives no token vectors."""
        self._embedding = embedding
        self._store = store
        self.left_out = threading.Event()
        """Set when memories are left without tokens."""

    @property
    def model(self) -> str:
        """Return the name of the token vectors; empty if there are none."""
        return self._embedding.token_model

    def rows_without(self, *, after_row: int, limit: int) -> list[int]:
        """Return the next rows of memories that lack tokens."""
        return self._store.rows_without(self.model, given_model=self._embedding.model, after_row=after_row, limit=limit)

    def count(self) -> int:
        """Return the number of passages with tokens."""
        return self._store.count(self.model) if self.model else 0

    def update(self, rows: Sequence[int], documents: Sequence[Document]) -> None:
        """Store the tokens of memories that are being indexed, as far as they are at hand; nothing is embedded.

        Never raises: tokens are derived data, which must not delay what is indexed. Memories are left without tokens if
        theirs are not at hand, or if this fails.
        """
        if not self.model:
            return
        try:
            self._write(rows, documents, self._embedding.recent_tokens)
        except BackendClosedError:
            self.left_out.set()
        except Exception:
            log.exception("the token vectors of %d memories were not stored; they are computed again later", len(rows))
            self.left_out.set()

    def fill(self, rows: Sequence[int], documents: Sequence[Document], should_stop: Callable[[], bool]) -> None:
        """Make the stored tokens of the memories *rows* those of *documents*, embedding what is missing.

        Raises:
            BackendUnavailableError: The store or the model cannot be reached.
            BackendClosedError: *should_stop* returned True.
        """
        self._write(rows, documents, lambda texts: self._embedding.passage_tokens(texts, should_stop))

    def _write(
        self,
        rows: Sequence[int],
        documents: Sequence[Document],
        tokens_of: Callable[[Mapping[bytes, str]], Mapping[bytes, bytes]],
    ) -> None:
        """Store tokens; a passage whose text is the same keeps its own, rows without a document lose theirs.

        A memory has the tokens of all its passages, or none.
        """
        wanted = {entry: one for document in documents for entry, one in self._passages(document).items()}
        stored = self._store.digests(self.model, rows)
        kept = [entry for entry, one in wanted.items() if stored.get(entry) == one.digest[:DIGEST_BYTES]]
        if len(kept) == len(wanted) == len(stored):
            return
        changed = {row_of(entry) for entry in {*wanted, *stored}.difference(kept)}
        wanted = {entry: one for entry, one in wanted.items() if row_of(entry) in changed}
        tokens = self._store.tokens(self.model, [entry for entry in kept if entry in wanted])
        made = tokens_of({one.digest: one.text for entry, one in wanted.items() if entry not in tokens})
        lacking = {row_of(entry) for entry, one in wanted.items() if entry not in tokens and one.digest not in made}
        if lacking:
            self.left_out.set()
        passages = [
            PassageTokens(entry, one.digest[:DIGEST_BYTES], tokens[entry] if entry in tokens else made[one.digest])
            for entry, one in sorted(wanted.items())
            if row_of(entry) not in lacking
        ]
        self._store.replace(self.model, sorted(changed), passages)

    def _passages(self, document: Document) -> Mapping[int, _Passage]:
        """Return the passages of the chunks by entry, but for one that is represented by a given vector."""
        first = int(has_given_vector(document, self._embedding.model, self._embedding.dimension))
        if first == len(document.chunks):
            return {}
        found = passages_of(document, EmbeddingGranularity.S)[first:MOST_CHUNKS]
        row = document.memory.row
        return {
            entry_id(row, View.CHUNK, one.ordinal): _Passage(hashlib.sha256(one.text.encode()).digest(), one.text)
            for one in found
        }


class TokenBackfill:
    """Adds tokens to memories that lack them: indexed by an earlier version or another model, or before a crash.

    One thread, which yields to searches, in one of the processes that share a store.
    """

    def __init__(
        self, writer: PassageTokenWriter, feed: IndexFeed, search_priority: SearchPriority, election: LeaderElection
    ) -> None:
        self._writer = writer
        self._feed = feed
        self._search_priority = search_priority
        self._election = election
        self._done = 0
        self._is_running = bool(writer.model)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="token-backfill", daemon=True)

    def state(self) -> TokenState:
        """Return the state of the token vectors.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        return TokenState(self._writer.model, self._writer.count(), self._is_running, self._done)

    def start(self) -> None:
        """Start the thread, if the embedder gives token vectors."""
        if self._is_running:
            self._thread.start()

    def stop(self) -> None:
        """Finish the slice under way and stop."""
        self._stopping.set()
        self._writer.left_out.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        """Add tokens at the start, whenever memories were left out, and from time to time for other processes."""
        while not self._stopping.is_set():
            self._is_running = True
            self._writer.left_out.clear()
            pause = RETRY_SECONDS
            try:
                with self._election.lead() as lease:
                    self._add_all(lease.require)
                pause = IDLE_SECONDS
            except BackendClosedError:
                break
            except MemsvcError as error:
                log.debug("token vectors of earlier memories wait: %s", error.message)
            except Exception:
                log.exception("adding token vectors to earlier memories failed and is retried")
            self._is_running = False
            self._stopping.wait(SETTLE_SECONDS)
            self._writer.left_out.wait(pause)
        self._is_running = False

    def _add_all(self, require_lease: Callable[[], None]) -> None:
        after, before, reported = 0, self._done, time.monotonic()
        while not self._stopping.is_set():
            require_lease()
            rows = self._writer.rows_without(after_row=after, limit=PAGE)
            if not rows:
                break
            self._add(rows)
            after = rows[-1]
            self._done += len(rows)
            if time.monotonic() >= reported + REPORT_SECONDS:
                reported = time.monotonic()
                log.info("%d earlier memories have got token vectors, more follow", self._done)
        if self._done > before:
            log.info("%d earlier memories have got token vectors", self._done)

    def _add(self, rows: Sequence[int]) -> None:
        """Add the tokens of memories; again if one was changed since it was read: the indexer may have been first."""
        documents = self._feed.documents(rows)
        while True:
            self._search_priority.yield_to_searches()
            self._writer.fill(rows, documents, self._stopping.is_set)
            written, documents = documents, self._feed.documents(rows)
            if _revisions(documents) == _revisions(written):
                return


def _revisions(documents: Sequence[Document]) -> dict[int, int]:
    return {document.memory.row: document.memory.revision for document in documents}
