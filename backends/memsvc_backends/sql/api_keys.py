"""API keys: one row each, never deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.clock import from_micros, to_micros
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute, json_text
from memsvc_backends.sql.memory_codec import micros_or_none, moment_or_none
from memsvc_backends.sql.tables import api_keys
from memsvc_backends.sql.write_session import WriteSession

_C = api_keys.c


class SqlKeyReads:
    """`memsvc.ports.features.KeyReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, key_id: str) -> ApiKey | None:
        """Return a key."""
        with self._database.read_connection() as connection:
            return _read(connection, key_id)

    def page(self, *, after: str, limit: int, alive_at: datetime | None) -> Sequence[ApiKey]:
        """Return a page, by the primary key."""
        parameters: dict[str, Any] = {"after": after, "most": max(0, limit)}
        if alive_at is not None:
            parameters["now"] = to_micros(alive_at)
        with self._database.read_connection() as connection:
            rows = execute(connection, _select_page(only_alive=alive_at is not None), parameters)
            return [_key_from_row(row) for row in rows]

    def has_any(self) -> bool:
        """Return whether there is any."""
        with self._database.read_connection() as connection:
            return execute(connection, sa.select(_C.id).limit(1)).first() is not None


class SqlKeyWrites(WriteSession):
    """`memsvc.ports.features.KeyWrites`, on the connection of a transaction."""

    def add_key(self, key: ApiKey) -> None:
        """Insert a key."""
        execute(self._connection, sa.insert(api_keys), _values(key))

    def revoke_key(self, key_id: str, moment: datetime) -> ApiKey | None:
        """Revoke a key."""
        mine = sa.update(api_keys).where(_C.id == key_id, _C.revoke_time.is_(None))
        execute(self._connection, mine.values(revoke_time=to_micros(moment)))
        return _read(self._connection, key_id)


def _read(connection: sa.Connection, key_id: str) -> ApiKey | None:
    row = execute(connection, _select_one(), {"wanted": key_id}).one_or_none()
    return None if row is None else _key_from_row(row)


@cached_statement
def _select_one() -> sa.Select[Any]:
    return sa.select(api_keys).where(_C.id == sa.bindparam("wanted", type_=sa.Text))


@cached_statement
def _select_page(*, only_alive: bool) -> sa.Select[Any]:
    statement = sa.select(api_keys).where(_C.id > sa.bindparam("after", type_=sa.Text))
    if only_alive:
        is_young = sa.or_(_C.expire_time.is_(None), _C.expire_time > sa.bindparam("now"))
        statement = statement.where(_C.revoke_time.is_(None), is_young)
    return statement.order_by(_C.id).limit(sa.bindparam("most", type_=sa.Integer))


def _values(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role.value,
        "tenant_id": key.tenant_id,
        "user_ids": json_text(list(key.user_ids)),
        "project_ids": json_text(list(key.project_ids)),
        "digest": key.digest.hex(),
        "create_time": to_micros(key.create_time),
        "expire_time": micros_or_none(key.expire_time),
        "revoke_time": micros_or_none(key.revoke_time),
        "calls_per_second": key.calls_per_second,
        "concurrent_calls": key.concurrent_calls,
    }


def _key_from_row(row: Sequence[Any]) -> ApiKey:
    (
        key_id, name, role, tenant_id, user_ids, project_ids, digest, create_time, expire_time, revoke_time,
        calls_per_second, concurrent_calls,
    ) = row  # fmt: skip
    return ApiKey(
        id=key_id,
        name=name,
        role=ApiKeyRole(role),
        tenant_id=tenant_id,
        user_ids=tuple(json.loads(user_ids)),
        project_ids=tuple(json.loads(project_ids)),
        digest=bytes.fromhex(digest),
        create_time=from_micros(create_time),
        expire_time=moment_or_none(expire_time),
        revoke_time=moment_or_none(revoke_time),
        calls_per_second=calls_per_second,
        concurrent_calls=concurrent_calls,
    )
