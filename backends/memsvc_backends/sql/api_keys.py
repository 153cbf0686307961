"""API keys: one row each, never deleted; quotas of tenants and keys, and what they have stored."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from memsvc.domain.api_keys import ApiKey, ApiKeyRole, Quota, QuotaSubject, QuotaUse, Usage
from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.scope import OWNER_SEPARATOR
from memsvc.ports.features import TakenCalls
from memsvc_backends.sql.database import NOT_DURABLE_HERE, Database
from memsvc_backends.sql.dialect import (
    cached_statement,
    database_clock,
    execute,
    integer_part,
    json_text,
    text_before,
)
from memsvc_backends.sql.memory_codec import micros_or_none, moment_or_none
from memsvc_backends.sql.tables import FILE_BYTES, api_keys, call_rates, files, memories, quotas, stored_amounts
from memsvc_backends.sql.write_session import WriteSession, add_amounts, memory_amounts, read_amounts

_C, _Q, _R = api_keys.c, quotas.c, call_rates.c


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


# Quotas.


class SqlQuotaReads:
    """`memsvc.ports.features.QuotaReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, subject: QuotaSubject, name: str) -> QuotaUse:
        """Return a quota and what is stored."""
        with self._database.snapshot() as connection:
            rows = execute(connection, _select_quota(), {"subject": subject.value, "id": name})
            quota = _quota_from_row(rows[0]) if rows else Quota(subject, name)
            return QuotaUse(quota, read_amounts(connection, (subject, name)))

    def page(self, *, after: tuple[QuotaSubject, str] | None, limit: int) -> Sequence[QuotaUse]:
        """Return a page, by the primary key."""
        subject, name = after or ("", "")
        at = {"subject": str(subject), "id": name, "most": max(0, limit)}
        with self._database.snapshot() as connection:
            found = [_quota_from_row(row) for row in execute(connection, _select_quotas(), at)]
            return [QuotaUse(one, read_amounts(connection, (one.subject, one.id))) for one in found]

    def drift(self) -> Mapping[str, Usage]:
        """Compare what is counted with what is kept, both as of one moment."""
        with self._database.snapshot() as connection:
            found = _counted(connection)
            for name in execute(connection, _select_tenants(), {}).scalars():
                kept = read_amounts(connection, (QuotaSubject.TENANT, name))
                found[name] = found.get(name, Usage()) + -kept
        return {name: amount for name, amount in found.items() if amount != Usage()}


class SqlQuotaWrites(WriteSession):
    """`memsvc.ports.features.QuotaWrites`, on the connection of a transaction."""

    def set_payer(self, key_id: str | None) -> None:
        """Say who pays."""
        self._ledger.payer = key_id

    def set_quota(self, quota: Quota) -> None:
        """Replace or remove a quota."""
        execute(self._connection, sa.delete(quotas).where(_Q.subject == quota.subject.value, _Q.id == quota.id))
        if not quota.is_empty:
            execute(self._connection, sa.insert(quotas), _quota_values(quota))
        self._ledger.forget_quotas()

    def add_usage(self, subject: QuotaSubject, name: str, amount: Usage) -> None:
        """Correct what is kept."""
        add_amounts(self._connection, (subject, name), amount)


# Rates of calls.

_SECOND = 1_000_000
ROUNDING = 1e-6
"""Share of a call that a sum of fractions may lack."""
FORGOTTEN_SECONDS = 3_600
"""As long the row of a caller is kept after its last call; what it says counts no longer than a burst lasts."""
TAKES_BEFORE_CLEANING = 1_000


class SqlCallRates:
    """`memsvc.ports.features.CallRates`: one row for each caller, which one statement reads and changes."""

    def __init__(self, database: Database) -> None:
        """Count in *database*."""
        self._database = database
        self._takes = itertools.count(1)

    def take(self, caller: str, *, rate: float, wanted: int, now: datetime) -> TakenCalls:
        """Take calls; the database may lose them when its machine stops."""
        apart = _SECOND / rate
        ahead = max(float(_SECOND), apart)
        at_first = min(wanted, int(ahead / apart + ROUNDING))
        values = {
            # The id of a token's key is that of its user: an erasure has nothing to look for here.
            "caller": hashlib.sha256(caller.encode()).hexdigest(),
            "now": to_micros(now), "apart": apart, "ahead": ahead, "wanted": wanted, "first": at_first
        }  # fmt: skip
        with self._database.note_transaction() as connection:
            if self._database.driver.is_shared:
                execute(connection, NOT_DURABLE_HERE)
            count, due, time = execute(connection, _take(), values).one()
            if next(self._takes) % TAKES_BEFORE_CLEANING == 0:
                execute(connection, _forget_idle(), {"until": time - FORGOTTEN_SECONDS * _SECOND})
        wait = 0.0 if count >= wanted else max(0.0, (due + apart - time - ahead) / _SECOND)
        return TakenCalls(int(count), wait)


@cached_statement
def _take() -> sa.Executable:
    apart, ahead = sa.bindparam("apart", type_=sa.Double), sa.bindparam("ahead", type_=sa.Double)
    wanted, at_first = sa.bindparam("wanted", type_=sa.BigInteger), sa.bindparam("first", type_=sa.BigInteger)
    present = sa.func.coalesce(database_clock(), sa.bindparam("now", type_=sa.BigInteger))
    # Read once: a clock moves on within a statement. The condition, always met, ends the selection for SQLite's parser.
    moment = sa.select(present.label("present")).subquery("moment").c.present
    new = sa.select(sa.bindparam("caller", type_=sa.Text), moment + at_first * apart, moment, at_first)
    names = ("caller", "due", "time", "taken")
    insert = sqlite.insert(call_rates).from_select(names, new.where(moment >= 0))
    now = insert.excluded.time
    # The bound of a lower rate, which has been raised since, holds no longer.
    due = sa.case((_R.due < now, now), (_R.due > now + ahead, now + ahead), else_=_R.due)
    free = integer_part((now + ahead - due) / apart + ROUNDING)
    taken = sa.case((free < wanted, free), else_=wanted)
    changed = {"due": due + taken * apart, "time": now, "taken": taken}
    upsert = insert.on_conflict_do_update(index_elements=[_R.caller], set_=changed)
    return upsert.returning(_R.taken, _R.due, _R.time)


@cached_statement
def _forget_idle() -> sa.Delete:
    return sa.delete(call_rates).where(_R.time < sa.bindparam("until"))


def _counted(connection: sa.Connection) -> dict[str, Usage]:
    """Return what every tenant has stored, from its memories and files."""
    found: dict[str, Usage] = {}
    for name, count, size in execute(connection, _count_memories(), {}):
        found[name] = Usage(int(count), int(size))
    for name, size in execute(connection, _count_files(), {}):
        found[name] = found.get(name, Usage()) + Usage(file_bytes=int(size))
    return found


@cached_statement
def _select_quota() -> sa.Select[Any]:
    return sa.select(quotas).where(_Q.subject == sa.bindparam("subject"), _Q.id == sa.bindparam("id"))


@cached_statement
def _select_quotas() -> sa.Select[Any]:
    later = sa.tuple_(_Q.subject, _Q.id) > sa.tuple_(sa.bindparam("subject"), sa.bindparam("id"))
    most = sa.bindparam("most", type_=sa.Integer)
    return sa.select(quotas).where(later).order_by(_Q.subject, _Q.id).limit(most)


@cached_statement
def _select_tenants() -> sa.Select[Any]:
    of_tenants = stored_amounts.c.subject == sa.literal_column("'TENANT'")
    return sa.select(stored_amounts.c.id).distinct().where(of_tenants)


@cached_statement
def _count_memories() -> sa.Select[str, int, int]:
    tenant = text_before(memories.c.owner, OWNER_SEPARATOR).label("tenant")
    count, size = memory_amounts()
    return sa.select(tenant, count, size).group_by(sa.literal_column("tenant"))


@cached_statement
def _count_files() -> sa.Select[str, Any]:
    tenant = text_before(files.c.owner, OWNER_SEPARATOR).label("tenant")
    return sa.select(tenant, sa.func.sum(FILE_BYTES)).group_by(sa.literal_column("tenant"))


def _quota_values(quota: Quota) -> dict[str, Any]:
    return {
        "subject": quota.subject.value,
        "id": quota.id,
        "calls_per_second": quota.calls_per_second,
        "memories": quota.limits.memories,
        "content_bytes": quota.limits.content_bytes,
        "file_bytes": quota.limits.file_bytes,
        "update_time": 0 if quota.update_time is None else to_micros(quota.update_time),
    }


def _quota_from_row(row: Sequence[Any]) -> Quota:
    subject, name, rate, *amounts, update_time = row
    return Quota(QuotaSubject(subject), name, rate, Usage(*amounts), from_micros(update_time))


def _read(connection: sa.Connection, key_id: str) -> ApiKey | None:
    row = execute(connection, _select_one(), {"wanted": key_id}).one_or_none()
    return None if row is None else _key_from_row(row)


@cached_statement
def _select_one() -> sa.Select[Any]:
    rates = (_rate_of(QuotaSubject.KEY, _C.id), _rate_of(QuotaSubject.TENANT, _C.tenant_id))
    return sa.select(api_keys, *rates).where(_C.id == sa.bindparam("wanted", type_=sa.Text))


def _rate_of(subject: QuotaSubject, name: sa.ColumnElement[str]) -> sa.ScalarSelect[Any]:
    mine = (_Q.subject == sa.literal_column(f"'{subject.value}'"), _Q.id == name)
    return sa.select(_Q.calls_per_second).where(*mine).scalar_subquery()


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
        calls_per_second, concurrent_calls, *rates,
    ) = row  # fmt: skip
    quota_rate, tenant_rate = rates or (None, None)
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
        quota_calls_per_second=quota_rate or 0.0,
        tenant_calls_per_second=tenant_rate or 0.0,
    )
