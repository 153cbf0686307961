"""The vocabulary of a lexical generation, in a collection of its own: candidates for misspelt query words.

Words come with the entries that hold them and stay until the next generation: one that no entry holds any more finds
nothing, so it does no harm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from qdrant_client import models

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.text.bm25 import is_one_edit
from memsvc_backends.qdrant_server.bm25_terms import is_near_something, near_keys, word_number
from memsvc_backends.qdrant_server.connection import NO_HURRY, AbsentError, ServerConnection

_TERM, _NEAR = "term", "near"
_BATCH = 500
_MOST_KNOWN = 200_000
_MOST_NEAR = 256
"""Words looked at for one misspelt word; those that are one edit away are few."""


class ServerVocabulary:
    """Writer of the vocabulary; words that this process has written recently are not written again."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._known: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def name_of(collection: str) -> str:
        """Return the name of the vocabulary collection of a generation."""
        return f"{collection}-words"

    @staticmethod
    def layout() -> dict[str, Any]:
        """Return the parameters of the collection: no vectors."""
        return {"vectors_config": {}}

    def prepare(self, collection: str) -> None:
        """Create the index of the vocabulary collection of *collection*."""
        schema = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=True, range=False, enable_hnsw=False
        )
        self._connection.write(
            "create_payload_index",
            collection_name=self.name_of(collection),
            field_name=_NEAR,
            field_schema=schema,
        )

    def learn(self, collection: str, terms: Iterable[str]) -> None:
        """Write the words that may be missing."""
        with self._lock:
            known = set(self._known.get(collection, ()))
        new = {
            number: term
            for term in set(terms)
            if is_near_something(term) and (number := word_number(term)) not in known
        }
        points = [
            models.PointStruct(id=number, vector={}, payload={_TERM: term, _NEAR: near_keys(term)})
            for number, term in new.items()
        ]
        for start in range(0, len(points), _BATCH):
            upsert = models.UpsertOperation(upsert=models.PointsList(points=points[start : start + _BATCH]))
            self._connection.update(self.name_of(collection), [upsert])
        self._remember(collection, new)

    def near(self, collection: str, term: str, deadline: Deadline = NO_HURRY) -> list[str]:
        """Return the words that are one edit away from *term*."""
        where = models.Filter(must=[models.FieldCondition(key=_NEAR, match=models.MatchAny(any=near_keys(term)))])
        try:
            points, _ = self._connection.read(
                "scroll",
                deadline=deadline,
                collection_name=self.name_of(collection),
                scroll_filter=where,
                limit=_MOST_NEAR,
                with_payload=[_TERM],
            )
        except AbsentError as error:
            raise BackendUnavailableError(self._connection.name) from error
        found: Sequence[str] = [str(point.payload[_TERM]) for point in points]
        return [word for word in found if word != term and is_one_edit(word, term)]

    def _remember(self, collection: str, numbers: Iterable[int]) -> None:
        with self._lock:
            if sum(map(len, self._known.values())) > _MOST_KNOWN:
                self._known.clear()
            self._known.setdefault(collection, set()).update(numbers)


# Terms that had entries lately, so that searches for them need not ask whether they have any.


HELD_SECONDS = 60.0
_MOST_HELD = 100_000


class HeldTerms:
    """Terms that had entries lately, by collection. Thread-safe."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def doubtful(self, collection: str, terms: Iterable[str]) -> list[str]:
        """Return those of *terms* that are not known to have entries."""
        now = time.monotonic()
        with self._lock:
            return [term for term in terms if self._until.get((collection, term), 0.0) < now]

    def note(self, collection: str, terms: Iterable[str]) -> None:
        """Note that these terms have entries now."""
        until = time.monotonic() + HELD_SECONDS
        with self._lock:
            if len(self._until) > _MOST_HELD:
                self._until.clear()
            self._until.update({(collection, term): until for term in terms})

    def clear(self) -> None:
        """Forget all terms, since entries were removed."""
        with self._lock:
            self._until.clear()
