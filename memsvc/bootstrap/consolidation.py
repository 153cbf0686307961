"""What merges memories that say the same, and sums up."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.indexing import Indexing
from memsvc.bootstrap.memories import MemoryServices
from memsvc.domain.secrets import Redactor
from memsvc.engine.consolidation.candidates import CandidateFinder
from memsvc.engine.consolidation.maintenance_step import Consolidating, IncrementalScan
from memsvc.engine.consolidation.merge import GroupMerger, MergedTextWriter
from memsvc.engine.consolidation.service import Consolidate
from memsvc.engine.consolidation.undo import UndoConsolidation
from memsvc.engine.maintenance.step import Step
from memsvc.engine.summaries.compact_logs import Compacting, LogRules, Writers
from memsvc.engine.summaries.periods import SummarizePeriod, SummarySources
from memsvc.engine.summaries.summarizer import TextSummarizer
from memsvc.settings import Settings


@dataclass(frozen=True, slots=True)
class Consolidations:
    """The use cases that merge and sum up, and the steps of upkeep that do so by themselves."""

    consolidate: Consolidate
    undo: UndoConsolidation
    summarize: SummarizePeriod
    steps: tuple[Step, ...]


def consolidating(settings: Settings, backends: Backends, index: Indexing, writes: MemoryServices) -> Consolidations:
    """Make what merges and sums up. It has no threads of its own."""
    store, model, chosen = backends.metadata, backends.language_model, settings.consolidation
    committer, drafting, recording = writes.committer, writes.drafting, writes.recording
    redactor = Redactor(is_on=settings.redaction.capture)
    finding = CandidateFinder(store, backends.vectors, index.embedding, settings.ranking.tier)
    merging = GroupMerger(drafting, recording, MergedTextWriter(model, redactor))
    summing = TextSummarizer(model, backends.tokenizer.count, redactor)
    material = SummarySources(store.memories, backends.lexical)
    writers = Writers(committer, drafting, recording, writes.placing)
    walking = IncrementalScan(store.feed, chosen.run_memories)
    rules = LogRules(chosen.log_days, chosen.log_tokens)
    return Consolidations(
        consolidate=Consolidate(finding, merging, committer, store.memories, chosen.threshold),
        undo=UndoConsolidation(drafting, recording, writes.requests, store.memories),
        summarize=SummarizePeriod(
            drafting, writes.placing, writes.requests, material, summing, most_tokens=chosen.summary_tokens
        ),
        steps=(
            Compacting(store, writers, summing, rules),
            Consolidating(store, finding, merging, committer, chosen.threshold, walking),
        ),
    )
