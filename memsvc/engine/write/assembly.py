"""The write path put together over one store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from memsvc.engine.read.access_counts import AccessCounts
from memsvc.engine.write.committer import Committer
from memsvc.engine.write.drafting import Drafting
from memsvc.engine.write.importing import Importing
from memsvc.engine.write.placing import Placing
from memsvc.engine.write.recording import Recording
from memsvc.engine.write.remember import Remember
from memsvc.engine.write.requests import Requests
from memsvc.engine.write.revise import Revise
from memsvc.ports.metadata import MetadataStore


@dataclass(frozen=True, slots=True)
class Writing:
    """The use cases that write, and what they share. Whoever assembled it flushes the accesses and closes it."""

    committer: Committer
    accesses: AccessCounts
    remember: Remember
    revise: Revise
    importing: Importing

    def close(self) -> None:
        """Write the accesses that wait, finish every write, and stop."""
        try:
            self.accesses.flush()
        finally:
            self.committer.close()


def assemble(store: MetadataStore, *, model: str, dimension: int, now: Callable[[], datetime]) -> Writing:
    """Return the write path over *store*; given vectors are of *model* and *dimension*. A committer is started."""
    committer = Committer(store)
    accesses = AccessCounts(committer, now)
    drafting = Drafting(model=model, dimension=dimension, now=now)
    recording = Recording(drafting, store.feed)
    placing = Placing(drafting, recording)
    requests = Requests(committer, store.memories)
    return Writing(
        committer=committer,
        accesses=accesses,
        remember=Remember(drafting, placing, requests, accesses),
        revise=Revise(drafting, recording, requests, now),
        importing=Importing(committer, drafting, placing, accesses),
    )
