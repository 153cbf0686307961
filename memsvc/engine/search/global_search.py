"""Search over memories and files at once (requirement R9)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.scope import Reach
from memsvc.domain.search import CATEGORIES, FoundFile, GlobalQuery, GlobalReply, Group
from memsvc.engine.search.search import SearchService
from memsvc.ports.features import FileReads
from memsvc.text.analysis import query_terms


class GlobalSearch:
    """Finds memories as any search does, and files by the words that are known of them."""

    def __init__(self, recall: SearchService, files: FileReads, now: Callable[[], datetime]) -> None:
        """Find memories by *recall*, files in *files*; *now* is the clock."""
        self._recall = recall
        self._files = files
        self._now = now

    def search(self, query: GlobalQuery, deadline: Deadline) -> GlobalReply:
        """Return what fits *query*, a list for each group that was asked for, best first.

        Raises:
            DeadlineExceededError, BackendUnavailableError: As for `SearchService.search`.
        """
        groups = [group for group in CATEGORIES if group in query.groups]
        reach, terms = Reach.from_scope(query.scope, query.visibility), query_terms(query.text)
        found: dict[Group, tuple[FoundFile, ...]] = {
            group: tuple(
                self._files.search(terms, reach=reach, categories=CATEGORIES[group], now=self._now(), limit=query.limit)
            )
            for group in groups
        }
        memories = None if query.memories is None else self._recall.search(query.memories, deadline)
        return GlobalReply(memories, found)
