"""Import of an exported user: batch by batch, each durable; the same file again changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from memsvc.domain.index_entries import View
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import RecordKind, Stored, TransferProgress
from memsvc.engine.commit.group_committer import Committed, GroupCommitter
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.views import EmbeddingGranularity
from memsvc.engine.memories.in_order import CommitPipeline
from memsvc.engine.user_data.export import own_passages, text_digest
from memsvc.engine.user_data.import_user import Outcome, store
from memsvc.engine.user_data.parser import Batch, Parser
from memsvc.text.passages import ANALYSIS_VERSION


@dataclass(frozen=True, slots=True)
class _Stored:
    """What became of a batch; the lines of the file up to its end, and how many vectors were kept of it."""

    lines: int
    vectors: int
    outcome: Outcome


class UserImporting:
    """Begins imports of users."""

    def __init__(self, committer: GroupCommitter, embedding: CachedEmbedder, tier: EmbeddingGranularity) -> None:
        """Write through *committer*, and keep vectors for *embedding*."""
        self._committer = committer
        self._embedding = embedding
        self._tier = tier

    def begin(self, scope: Scope) -> UserImport:
        """Return an import into the user of *scope*, whoever's export it is."""
        return UserImport(scope, self._committer, self._embedding, self._tier)


class UserImport:
    """One import at work; one caller may parse the next bytes while another stores the batch before."""

    def __init__(
        self, scope: Scope, committer: GroupCommitter, embedding: CachedEmbedder, tier: EmbeddingGranularity
    ) -> None:
        """Import into the user of *scope*."""
        self._scope = scope
        self._works: CommitPipeline[_Stored] = CommitPipeline(committer)
        self._embedding = embedding
        self._tier = tier
        self._parser = Parser(scope)
        self._stored: Counter[RecordKind] = Counter()
        self.progress = TransferProgress()

    def feed(self, data: bytes) -> Iterator[Batch]:
        """Take the next bytes of the file and yield the batches that are complete.

        Raises:
            InvalidRequestError: A line is wrong. Batches that were yielded are good.
        """
        return self._parser.feed(data)

    def finish(self) -> Iterator[Batch]:
        """Yield the last batch at the end of the file.

        Raises:
            InvalidRequestError: The file was cut.
        """
        return self._parser.finish()

    def store(self, batch: Batch) -> TransferProgress:
        """Begin to store a batch, batches in their order; return how far the import is once the one before is durable.

        Raises:
            ErasureRunningError: The user is being erased.
            BackendUnavailableError: The store cannot be reached. Of the batch before nothing is stored, nor of this.
        """
        header = self._parser.header
        kept = self._keep_vectors(batch)
        all_are_new = header is not None and header.user_id != self._scope.user_id
        owner = self._scope.owner
        return self._reached(
            self._works.put(
                lambda transaction, _: _Stored(
                    batch.lines, kept, store(transaction, batch, owner, all_are_new=all_are_new)
                )
            )
        )

    def settle(self) -> TransferProgress:
        """Return how far the import is once all that was begun is durable; raises what `store` raises."""
        return self._reached(self._works.settle())

    def _reached(self, committed: Committed[_Stored] | None) -> TransferProgress:
        """Return the progress with the issues of one batch."""
        before, header = self.progress, self._parser.header
        if committed is None:
            return replace(before, issues=())
        batch, done = committed.value, committed.value.outcome
        self._stored += done.stored
        self.progress = TransferProgress(
            lines=max(before.lines, batch.lines),
            stored=dict(self._stored),
            unchanged=before.unchanged + done.unchanged,
            skipped=before.skipped + done.skipped,
            total=0 if header is None else sum(header.counts.values()),
            vectors=before.vectors + batch.vectors,
            position=max(before.position, committed.position if done.position else 0),
            issues=tuple(done.issues),
        )
        return self.progress

    def _keep_vectors(self, batch: Batch) -> int:
        """Keep the vectors that are of the model and of the texts in use, so that nothing is embedded again."""
        space = None if self._parser.header is None else self._parser.header.embedding
        mine = (self._embedding.model, self._embedding.dimension, ANALYSIS_VERSION)
        if space is None or (space.model, space.dimension, space.analysis) != mine:
            return 0
        vectors: dict[bytes, bytes] = {}
        for record in batch.records:
            if record.vectors and isinstance(record.value, Stored):
                given = {(View[view], ordinal): data for view, ordinal, data in record.vectors}
                for passage in own_passages(record.value.memory, self._tier):
                    if (found := given.get((passage.view, passage.ordinal))) is not None:
                        vectors[text_digest(passage.text)] = found
        self._embedding.keep(vectors)
        return len(vectors)
