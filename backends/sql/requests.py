"""What is remembered of requests."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from backends.sql.dialect import upsert
from backends.sql.tables import requests
from memsvc.domain.clock import to_micros
from memsvc.ports.metadata import RequestRecord


def recall(connection: sa.Connection, owner: str, method: str, request_id: str) -> RequestRecord | None:
    """Return what is remembered of a request, or None."""
    statement = sa.select(requests.c.digest, requests.c.answer).where(
        requests.c.owner == owner, requests.c.method == method, requests.c.request_id == request_id
    )
    row = connection.execute(statement).one_or_none()
    return None if row is None else RequestRecord(*row)


def remember(connection: sa.Connection, name: tuple[str, str, str], record: RequestRecord, time: int) -> None:
    """Remember a request by owner, method and id, or replace what is remembered of it."""
    owner, method, request_id = name
    values = {"owner": owner, "method": method, "request_id": request_id, "time": time}
    statement = upsert(requests, ("time", "digest", "answer"))
    connection.execute(statement, values | {"digest": record.digest, "answer": record.answer})


def forget(connection: sa.Connection, before: datetime) -> int:
    """Forget the requests remembered before that moment; return how many."""
    return connection.execute(sa.delete(requests).where(requests.c.time < to_micros(before))).rowcount
