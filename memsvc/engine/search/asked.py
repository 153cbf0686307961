"""A search as the retrievers need it."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.scope import Reach
from memsvc.domain.search import SearchQuery


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """What to look for, where, how deep and until when."""

    query: SearchQuery
    reach: Reach
    where: Filter | None
    depth: int
    deadline: Deadline
