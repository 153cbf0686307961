"""Leases: one row for each name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import upsert_when
from memsvc_backends.sql.memory_codec import micros_or_none, moment_or_none
from memsvc_backends.sql.tables import leases

_C = leases.c


class SqlLeases:
    """`memsvc.ports.operations.Leases`."""

    def __init__(self, database: Database) -> None:
        """Keep them in *database*."""
        self._database = database

    def take(self, name: str, *, holder: str, now: datetime, until: datetime) -> bool:
        """Take a name, in one statement: so of several who try one succeeds."""
        values = {"name": name, "holder": holder, "until": to_micros(until), "now": to_micros(now)}
        with self._database.noting() as connection:
            return connection.execute(_take(), values).rowcount == 1

    def release(self, name: str, *, holder: str, ended: datetime | None) -> None:
        """Let a name go."""
        mine = sa.update(leases).where(_C.name == name, _C.holder == holder)
        values: dict[str, Any] = {"until": 0}
        if ended is not None:
            values["last_end"] = micros_or_none(ended)
        with self._database.noting() as connection:
            connection.execute(mine.values(values))

    def last_end(self, name: str) -> datetime | None:
        """Return when work was finished last."""
        with self._database.reading() as connection:
            return moment_or_none(connection.execute(sa.select(_C.last_end).where(_C.name == name)).scalar())


@cache
def _take() -> sa.Insert:
    new: Mapping[str, Any] = {name: sa.bindparam(name) for name in ("name", "holder", "until")}
    is_free = sa.or_(_C.holder == sa.bindparam("holder"), _C.until <= sa.bindparam("now"))
    return upsert_when(leases, new, ("holder", "until"), is_free)
