"""What both indexes tell of what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from backends.postgres.connections import Connection, Connections
from backends.postgres.errors import GONE, translate
from backends.postgres.filters import Condition
from backends.postgres.generations import Generations, M
from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.index import Listed

_PAGE = 5_000
_TRIES = 4
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = current_schema() AND c.relkind = 'r' AND starts_with(c.relname, %s)"
)
R = TypeVar("R")


def asked(connections: Connections, generations: Generations[M], ask: Callable[[Connection, str], R], absent: R) -> R:
    """Ask the live generation, by the beginning of its tables' names, or the next one when it is gone meanwhile."""
    live = generations.live()
    for _ in range(_TRIES):
        if live is None:
            return absent
        with translate(connections.name):
            try:
                with connections.lent() as connection:
                    return ask(connection, live.base)
            except GONE:
                live = generations.refresh()
    raise BackendUnavailableError(connections.name)


def listed(connections: Connections, generations: Generations[M], part: str) -> Iterator[Listed]:
    """List every entry, ascending, page by page."""
    after = -1
    while True:

        def page(connection: Connection, base: str, after: int = after) -> list[tuple[Any, ...]]:
            words = f'SELECT entry, fingerprint FROM "{base}{part}" WHERE entry > %s ORDER BY entry LIMIT {_PAGE}'
            return connection.execute(words.encode(), (after,), binary=True).fetchall()

        nothing: list[tuple[Any, ...]] = []
        found = asked(connections, generations, page, nothing)
        for entry, fingerprint in found:
            yield Listed(entry, fingerprint)
        if len(found) < _PAGE:
            return
        after = found[-1][0]


def count(connections: Connections, generations: Generations[M], part: str, where: Condition | None) -> int:
    """Return how many entries meet a condition, or how many there are."""
    words, parameters = where or Condition("true")

    def counted(connection: Connection, base: str) -> int:
        return _number(connection, f'SELECT count(*) FROM "{base}{part}" WHERE {words}', parameters)

    return asked(connections, generations, counted, 0)


def largest_owner(connections: Connections, generations: Generations[M]) -> int:
    """Return how many entries of one view the owner has who has most."""

    def most(connection: Connection, base: str) -> int:
        counts = f'SELECT count(*) AS held FROM "{base}" GROUP BY owner_key, view'
        return _number(connection, f"SELECT coalesce(max(held), 0)::bigint FROM ({counts}) AS counts", ())

    return asked(connections, generations, most, 0)


def storage_bytes(connections: Connections, generations: Generations[M]) -> int:
    """Return the bytes of all tables of the index, those of a generation being made too."""
    connections.require_open()
    with translate(connections.name), connections.lent() as connection:
        return _number(connection, _SIZE, (f"{generations.kind.name}_",))


def _number(connection: Connection, words: str, parameters: tuple[Any, ...]) -> int:
    found = connection.execute(words.encode(), parameters).fetchone()
    return 0 if found is None else int(found[0])
