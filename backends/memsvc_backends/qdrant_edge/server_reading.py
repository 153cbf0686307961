"""What both indexes over a server read alike: the best hits, counts and inventories of the live generation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import gt
from typing import Generic, TypeVar

from qdrant_client import models

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Hit
from memsvc.ports.candidates import Hits
from memsvc.ports.derived_index import Listed
from memsvc_backends.qdrant_common.points import FINGERPRINT
from memsvc_backends.qdrant_server.connection import AbsentError, Connection
from memsvc_backends.qdrant_server.generations import Generations, Live, Manifest

T = TypeVar("T")
_PAGE = 1000
_FIRST = 1024
_GROWTH = 4
_SWITCHES = 5
"""So many switches in a row nobody makes while one search is asked."""


class Reading(Generic[Manifest]):
    """Reads the live generation, and the next one when it was removed meanwhile."""

    def __init__(self, connection: Connection, generations: Generations[Manifest]) -> None:
        self._connection = connection
        self._generations = generations

    def of_live(self, ask: Callable[[Live[Manifest]], T], absent: T | None = None) -> T:
        """Return what the live generation answers, or *absent* when there is none.

        Raises:
            BackendUnavailableError: The server cannot be reached, or there is no generation and nothing for that.
        """
        live = self._generations.live()
        for _ in range(_SWITCHES):
            if live is None:
                break
            try:
                return ask(live)
            except AbsentError:
                live = self._generations.refresh()
        if absent is None:
            raise BackendUnavailableError(self._connection.name)
        return absent

    def count(self, where: models.Filter | None) -> int:
        """Return how many points meet the filter, or how many there are."""
        return self.of_live(lambda live: self._counted(live, where), 0)

    def inventory(self) -> Iterator[Listed]:
        """List the points of the generation that is live at the first step, ascending."""
        live = self._generations.live()
        after: object = None
        while live is not None:
            try:
                points, after = self._connection.read(
                    "scroll",
                    collection_name=live.collection,
                    limit=_PAGE,
                    offset=after,
                    with_payload=[FINGERPRINT],
                    with_vectors=False,
                )
            except AbsentError as error:
                raise BackendUnavailableError(self._connection.name) from error
            yield from (Listed(int(point.id), int(point.payload[FINGERPRINT])) for point in points)
            if after is None:
                return

    def _counted(self, live: Live[Manifest], where: models.Filter | None) -> int:
        found = self._connection.read("count", collection_name=live.collection, count_filter=where, exact=True)
        return int(found.count)


def best_hits(ask: Callable[[int], list[tuple[int, float]]], limit: int) -> Hits:
    """Return the best *limit* hits, equal scores by number.

    The server cuts off at its limit without regard to numbers, so it is asked for more as long as the cut goes through
    equal scores.

    Args:
        ask: Returns at most so many numbers and scores, best first.
        limit: How many are wanted at most; one or more.
    """
    asked = min(limit, _FIRST) + 1
    while True:
        found = ask(asked)
        if len(found) < asked or (asked > limit and found[-1][1] < found[limit - 1][1]):
            break
        asked *= _GROWTH
    scores = [score for _, score in found]
    if not all(map(gt, scores, scores[1:])):
        found = sorted(found, key=lambda hit: (-hit[1], hit[0]))
    best = found[:limit]
    return Hits.of([Hit(*found) for found in best])
