"""What both indexes read alike: the live generation, or the next one where that is gone meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.derived_index import Listed
from memsvc_backends.postgres_index.connections import Connection, Connections
from memsvc_backends.postgres_index.errors import GONE, translate
from memsvc_backends.postgres_index.filters import Condition
from memsvc_backends.postgres_index.generations import Generations, Live, M

_PAGE = 5_000
_TRIES = 4
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = current_schema() AND c.relkind = 'r' AND starts_with(c.relname, %s)"
)
R = TypeVar("R")


class Reading(Generic[M]):
    """Asks the live generation, and counts and lists what it holds."""

    def __init__(self, connections: Connections, generations: Generations[M]) -> None:
        self._connections = connections
        self._generations = generations

    def asked(
        self, live: Live[M] | None, ask: Callable[[Connection, Live[M]], R], absent: R, deadline: Deadline | None = None
    ) -> R:
        """Return what *live* answers, or the next generation when it is gone by now, or *absent* when there is none.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The database cannot be reached.
        """
        for _ in range(_TRIES):
            if live is None:
                return absent
            with translate(self._connections.name, deadline):
                try:
                    with self._connections.lent(deadline) as connection:
                        return ask(connection, live)
                except GONE:
                    live = self._generations.refresh()
        raise BackendUnavailableError(self._connections.name)

    def inventory(self) -> Iterator[Listed]:
        """List every entry, ascending, page by page."""
        after = -1
        while True:

            def page(connection: Connection, live: Live[M], after: int = after) -> list[tuple[Any, ...]]:
                table = self._entries(live)
                words = f'SELECT entry, fingerprint FROM "{table}" WHERE entry > %s ORDER BY entry LIMIT {_PAGE}'
                return connection.execute(words.encode(), (after,), binary=True).fetchall()

            nothing: list[tuple[Any, ...]] = []
            found = self.asked(self._generations.live(), page, nothing)
            for entry, fingerprint in found:
                yield Listed(entry, fingerprint)
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def count(self, where: Condition | None) -> int:
        """Return how many entries meet a condition, or how many there are."""
        words, parameters = where or Condition("true")

        def counted(connection: Connection, live: Live[M]) -> int:
            return _number(connection, f'SELECT count(*) FROM "{self._entries(live)}" WHERE {words}', parameters)

        return self.asked(self._generations.live(), counted, 0)

    def largest_owner(self) -> int:
        """Return how many entries of one view the owner has who has most."""

        def most(connection: Connection, live: Live[M]) -> int:
            counts = f'SELECT count(*) AS held FROM "{self._entries(live)}" GROUP BY owner_key, view'
            return _number(connection, f"SELECT coalesce(max(held), 0)::bigint FROM ({counts}) AS counts", ())

        return self.asked(self._generations.live(), most, 0)

    def storage_bytes(self) -> int:
        """Return the bytes of all tables of the index, those of a generation being made too."""
        self._connections.require_open()
        with translate(self._connections.name), self._connections.lent() as connection:
            return _number(connection, _SIZE, (f"{self._generations.kind.name}_",))

    def _entries(self, live: Live[M]) -> str:
        return f"{live.base}{self._generations.kind.entries}"


def _number(connection: Connection, words: str, parameters: tuple[Any, ...]) -> int:
    found = connection.execute(words.encode(), parameters).fetchone()
    return 0 if found is None else int(found[0])
