"""A search of the live generation in two halves: the request is sent, and later its reply is read."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import VectorManifest, View
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.models import Vector
from memsvc_backends.qdrant_common.filters import Condition, filter_of
from memsvc_backends.qdrant_common.points import require_dimension, vector_bytes
from memsvc_backends.qdrant_edge.child_process import Exchange
from memsvc_backends.qdrant_edge.errors import NAME, ChildDiedError, EdgeFaultError, RetiredError
from memsvc_backends.qdrant_edge.ipc import Message
from memsvc_backends.qdrant_edge.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Live:
    """The generation that is searched.

    Attributes:
        manifest: What it is made of.
        shard: What keeps its child running.
        width: How many candidates its graph is searched for, or None when it has none.
    """

    manifest: VectorManifest
    shard: Supervisor
    width: int | None


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """Which entries are searched."""

    reach: Reach
    view: View
    where: Filter | None

    def within(self, views: Sequence[View]) -> Condition:
        """Return the filter for a generation of *views*: where all entries are of one view, none is asked for it."""
        return filter_of(self.reach, None if views == (self.view,) else self.view, self.where)


class EdgeSearch:
    """One search, from one thread at a time."""

    __slots__ = ("_begun", "_blob", "_deadline", "_find_live", "_limit", "_packed", "_sought", "_vector")

    def __init__(
        self, find_live: Callable[[], Live | None], vector: Vector, sought: SearchSpec, limit: int, deadline: Deadline
    ) -> None:
        self._find_live = find_live
        self._vector = vector
        self._blob = vector_bytes([vector])
        self._sought = sought
        self._packed: tuple[Sequence[View], bytes] | None = None
        self._limit = limit
        self._deadline = deadline
        self._begun: tuple[Live, Exchange] | None = None

    def begin(self, live: Live | None) -> None:
        """Send the request, if it can be sent; if not, `result` finds out why, and raises it or sends it then."""
        is_sound = live is not None and self._vector.shape == (live.manifest.dimension,) and self._limit > 0
        if live is None or not is_sound or self._deadline.passed():
            return
        exchange = live.shard.begin(self._request(live), self._blob, deadline=self._deadline)
        if exchange is not None:
            self._begun = live, exchange

    def result(self) -> Hits:
        """Return the hits of the generation that was asked, or of the next one when it was switched too early."""
        live = self._find_live()
        exchange: Exchange | None = None
        if self._begun is not None:
            live, exchange = self._begun
        elif self._deadline.passed():
            raise DeadlineExceededError(NAME)
        while live is not None:
            require_dimension(self._vector, live.manifest.dimension)
            if self._limit <= 0:
                break
            try:
                return self._asked(live, exchange)
            except RetiredError:
                live, exchange = self._find_live(), None
        return Hits.of(())

    def _asked(self, live: Live, exchange: Exchange | None) -> Hits:
        try:
            ids, scores = live.shard.call(self._request(live), self._blob, deadline=self._deadline, begun=exchange)
        except (ChildDiedError, EdgeFaultError) as error:
            raise BackendUnavailableError(NAME) from error
        return Hits(np.frombuffer(ids, np.int64), np.frombuffer(scores, np.float64))

    def _request(self, live: Live) -> Message:
        views = live.manifest.views
        if self._packed is None or self._packed[0] != views:
            self._packed = views, marshal.dumps(self._sought.within(views))
        return "search", self._packed[1], self._limit, live.width
