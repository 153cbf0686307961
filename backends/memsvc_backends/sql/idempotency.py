"""What is remembered of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.ports.metadata import RequestRecord
from memsvc_backends.sql.dialect import execute_compiled, upsert
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import requests

Request = tuple[str, str, str]
"""Owner, method and request id."""
_NAMES = ("owner", "method", "request_id")


def recall(connection: sa.Connection, request: Request) -> RequestRecord | None:
    """Return what is remembered of a request, or None."""
    found = execute_compiled(connection, _select_one(), dict(zip(_NAMES, request, strict=True)))
    return RequestRecord(*found[0]) if found else None


def remember(connection: sa.Connection, request: Request, record: RequestRecord, time: int) -> None:
    """Remember a request, or replace what is remembered of it."""
    [values] = _values([(request, record)], time)
    connection.execute(upsert(requests, ("time", "digest", "answer")), values)


def insert(connection: sa.Connection, answered: Sequence[tuple[Request, RequestRecord]], time: int) -> None:
    """Remember requests of which nothing is remembered."""
    insert_many(connection, requests, _values(answered, time))


def forget(connection: sa.Connection, before: datetime) -> int:
    """Forget the requests remembered before that moment; return how many."""
    return connection.execute(sa.delete(requests).where(requests.c.time < to_micros(before))).rowcount


def _values(answered: Iterable[tuple[Request, RequestRecord]], time: int) -> list[dict[str, Any]]:
    return [
        dict(zip(_NAMES, request, strict=True)) | {"time": time, "digest": one.digest, "answer": one.answer}
        for request, one in answered
    ]


@cache
def _select_one() -> sa.Select[Any]:
    place = [requests.c[name] == sa.bindparam(name) for name in _NAMES]
    return sa.select(requests.c.digest, requests.c.answer).where(*place)
