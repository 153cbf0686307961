"""New memories that wait within a transaction, so that those of several writers go into the tables together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from memsvc.domain.memory import UNNAMED, Memory, Status
from memsvc.ports.metadata import ContentName, Record, RequestRecord
from memsvc_backends.sql.idempotency import Request

T = TypeVar("T")

MOST = 128
"""So many wait at the most: more at once are no cheaper."""

Key = tuple[str, str, str]
"""Owner, project and key, or owner, project and session."""
Content = tuple[str, ContentName]


class PendingWrites:
    """What is found of records and answers that are in no table yet, and which names are known to be free.

    What may wait claims only names that were looked for in vain: it cannot lose them, since writers stand in one line.
    """

    def __init__(self) -> None:
        # None: looked for in vain.
        self._contents: dict[Content, Memory | None] = {}
        self._keys: dict[Key, Memory | None] = {}
        self._answers: dict[Request, RequestRecord | None] = {}
        self._latest: dict[Key, int] = {}

    def may_wait(self, records: Sequence[Record]) -> bool:
        """Return whether *records* are few, and all names that they claim are free and claimed once."""
        if len(records) > MOST:
            return False
        contents = [name for record in records if (name := _content(record)) is not None]
        keys = [key for record in records if (key := _key(record.memory)) is not None]
        return _are_free(contents, self._contents) and _are_free(keys, self._keys)

    def may_answer(self, request: Request) -> bool:
        """Return whether a request is known to have no answer yet."""
        return _are_free([request], self._answers)

    def add(self, records: Iterable[Record]) -> None:
        """Have *records* wait, which may."""
        for record in records:
            memory = record.memory
            scope = memory.scope
            if (content := _content(record)) is not None:
                self._contents[content] = memory
            if (key := _key(memory)) is not None:
                self._keys[key] = memory
            if scope.session_id and memory.status is not Status.DELETED:
                self._latest[scope.owner, scope.project_id, scope.session_id] = memory.row

    def answer(self, request: Request, answer: RequestRecord | None) -> None:
        """Have the answer of a request wait; None: take note that there is none."""
        self._answers[request] = answer

    def clear(self) -> None:
        """Have nothing wait; what is free has to be looked for anew."""
        for names in (self._contents, self._keys, self._answers, self._latest):
            names.clear()

    def contents(self, owner: str, names: Iterable[ContentName]) -> dict[ContentName, Memory]:
        """Return those who wait and hold one of the contents."""
        found = ((name, self._contents.get((owner, name))) for name in names)
        return {name: memory for name, memory in found if memory is not None}

    def keys(self, owner: str, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Memory]:
        """Return those who wait and hold one of the (project, key) pairs."""
        found = ((name, self._keys.get((owner, *name))) for name in names)
        return {name: memory for name, memory in found if memory is not None}

    def latest(self, session: Key) -> int | None:
        """Return the newest row of a session, by owner, project and id, that waits."""
        return self._latest.get(session)

    def answered(self, request: Request) -> RequestRecord | None:
        """Return the answer of a request that waits."""
        return self._answers.get(request)

    def note_free_contents(self, owner: str, names: Iterable[ContentName]) -> None:
        """Take note of contents that nobody holds."""
        self._contents.update({(owner, name): None for name in names})

    def note_free_keys(self, owner: str, names: Iterable[tuple[str, str]]) -> None:
        """Take note of (project, key) pairs that nobody holds."""
        self._keys.update({(owner, *name): None for name in names})


def _are_free(names: Sequence[T], known: Mapping[T, object]) -> bool:
    return all(name in known and known[name] is None for name in names) and len(set(names)) == len(names)


def _content(record: Record) -> Content | None:
    memory = record.memory
    if not record.is_unique or memory.status in UNNAMED:
        return None
    scope = memory.scope
    return scope.owner, ContentName(scope.project_id, memory.kind.value, memory.content_hash)


def _key(memory: Memory) -> Key | None:
    if not memory.key or memory.status in UNNAMED:
        return None
    return memory.scope.owner, memory.scope.project_id, memory.key
