"""Manifest of the files of the vault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros
from memsvc.domain.memory import Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.domain.vault import VaultCopy, VaultEntry
from memsvc.domain.vault_layout import path_key
from memsvc.ports.features import Transcript, VaultState
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, execute, in_json_list, list_parameter
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import memories, tombstones, vault_copies, vault_files, vault_state

_F, _M = vault_files.c, memories.c
_COLUMNS = (_F.path, _F.owner, _F.project_id, _F.digest, _F.revision, _F.anchor, _F.memory_id, _F.session_id)
_C = vault_copies.c
_COPY_COLUMNS = (_C.path, _C.owner, _C.project_id, _C.digest, _C.memory_id)
_IS_SAID = sa.and_(_M.kind == sa.literal_column("'MESSAGE'"), _M.session_id != sa.literal_column("''"))
_IS_ABSENT = sa.or_(_M.status == sa.literal_column("'DELETED'"), _M.status == sa.literal_column("'QUARANTINED'"))
_HAS_MEMORY = _F.memory_id != sa.literal_column("''")
_HAS_SESSION = _F.session_id != sa.literal_column("''")


class SqlVaultManifest:
    """`memsvc.ports.features.VaultManifest`."""

    def __init__(self, database: Database) -> None:
        """Keep it in *database*."""
        self._database = database

    def state(self) -> VaultState | None:
        """Return the state."""
        with self._database.read_connection() as connection:
            row = execute(connection, sa.select(vault_state.c.vault_id, vault_state.c.position)).one_or_none()
        return None if row is None else VaultState(*row)

    def begin(self, vault_id: str) -> None:
        """Start with an empty manifest."""
        with self._database.write_transaction() as connection:
            execute(connection, sa.delete(vault_files))
            execute(connection, sa.delete(vault_copies))
            execute(connection, sa.delete(vault_state))
            execute(connection, sa.insert(vault_state).values(one=1, vault_id=vault_id, position=0))

    def at(self, paths: Iterable[str]) -> dict[str, VaultEntry]:
        """Return entries by path."""
        keys = [path_key(path) for path in paths]
        return {path_key(entry.path): entry for entry in self._entries_with(_F.path_key, keys)}

    def of(self, memory_ids: Iterable[str]) -> dict[str, VaultEntry]:
        """Return entries by memory."""
        return {
            entry.memory_id: entry for entry in self._entries_with(_F.memory_id, [one for one in memory_ids if one])
        }

    def of_session(self, scope: Scope) -> VaultEntry | None:
        """Return the entry of a transcript."""
        at = (_F.owner == scope.owner, _F.project_id == scope.project_id, _F.session_id == scope.session_id)
        found = self._entries(sa.select(*_COLUMNS).where(*at, _HAS_SESSION))
        return found[0] if found else None

    def ids_with_content(self, owner: str, digest: str, *, limit: int) -> list[VaultEntry]:
        """Return the entries of a digest."""
        alike = sa.select(*_COLUMNS).where(_F.owner == owner, _F.digest == digest)
        return self._entries(alike.order_by(_F.path_key).limit(limit))

    def page(self, *, owner: str | None, after: str, limit: int) -> list[VaultEntry]:
        """Return the next entries."""
        return self._entries(_page_of(sa.select(*_COLUMNS), owner, after, limit))

    def count(self, *, owner: str | None) -> int:
        """Count the entries."""
        counted = sa.select(sa.func.count()).select_from(vault_files)
        with self._database.read_connection() as connection:
            return int(execute(connection, counted if owner is None else counted.where(_F.owner == owner)).scalar_one())

    def record(
        self, entries: Sequence[VaultEntry] = (), *, removed: Iterable[str] = (), position: int | None = None
    ) -> None:
        """Write entries."""
        keys = [path_key(path) for path in removed]
        with self._database.write_transaction() as connection:
            gone = [*keys, *(path_key(entry.path) for entry in entries)]
            if gone:
                execute(connection, _delete_listed(_F.path_key), {"values": list_parameter(gone)})
            if ids := [entry.memory_id for entry in entries if entry.memory_id]:
                execute(connection, _delete_listed(_F.memory_id), {"values": list_parameter(ids)})
            for entry in entries:
                if entry.session_id:
                    place = {"of": entry.owner, "in_project": entry.project_id, "session": entry.session_id}
                    execute(connection, _delete_transcript(), place)
            if entries:
                listed = {"values": list_parameter([path_key(entry.path) for entry in entries])}
                execute(connection, _delete_copies(), listed)
                insert_many(connection, vault_files, [_values(entry) for entry in entries])
            if position is not None:
                execute(connection, sa.update(vault_state).values(position=position))

    def copy_at(self, path: str) -> VaultCopy | None:
        """Return the copy at a path."""
        with self._database.read_connection() as connection:
            row = execute(connection, _select_copy(), {"at": path_key(path)}).one_or_none()
        return None if row is None else VaultCopy(*row)

    def copies(self, *, owner: str | None, after: str, limit: int) -> list[VaultCopy]:
        """Return the next copies."""
        paged = sa.select(*_COPY_COLUMNS).where(_C.path_key > after).order_by(_C.path_key).limit(limit)
        with self._database.read_connection() as connection:
            found = execute(connection, paged if owner is None else paged.where(_C.owner == owner))
            return [VaultCopy(*row) for row in found]

    def record_copies(self, copies: Sequence[VaultCopy] = (), *, removed: Iterable[str] = ()) -> None:
        """Write copies."""
        gone = [path_key(path) for path in (*removed, *(copy.path for copy in copies))]
        with self._database.write_transaction() as connection:
            if gone:
                execute(connection, _delete_copies(), {"values": list_parameter(gone)})
            if copies:
                insert_many(connection, vault_copies, [_values_of_copy(copy) for copy in copies])

    def present(self, rows: Sequence[int]) -> list[Memory]:
        """Return memories."""
        wanted = sa.select(*MEMORY_COLUMNS).where(in_json_list(_M.row, "values")).order_by(_M.row)
        with self._database.read_connection() as connection:
            found = execute(connection, wanted, {"values": list_parameter(sorted(set(rows)))})
            return [memory_from_row(row) for row in found]

    def behind(self, *, owner: str | None, after_row: int, limit: int, every: bool = False) -> list[Memory]:
        """Return memories that their files do not show."""
        differs = sa.true() if every else sa.or_(_F.path.is_(None), _F.revision != _M.revision)
        is_behind = sa.or_(sa.and_(~_IS_ABSENT, differs), sa.and_(_IS_ABSENT, _F.path.is_not(None)))
        joined = sa.outerjoin(memories, vault_files, sa.and_(_F.memory_id == _M.id, _HAS_MEMORY))
        statement = sa.select(*MEMORY_COLUMNS).select_from(joined).where(_M.row > after_row, ~_IS_SAID, is_behind)
        if owner is not None:
            statement = statement.where(_M.owner == owner)
        with self._database.read_connection() as connection:
            return [memory_from_row(row) for row in execute(connection, statement.order_by(_M.row).limit(limit))]

    def entries_without_memory(self, *, owner: str | None, after: str, limit: int) -> list[VaultEntry]:
        """Return entries of memories that are gone."""
        is_there = sa.exists().where(_M.id == _F.memory_id)
        return self._entries(_page_of(sa.select(*_COLUMNS).where(_HAS_MEMORY, ~is_there), owner, after, limit))

    def places_of_purged(self, memory_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return where purged memories were."""
        is_meant = in_json_list(tombstones.c.memory_id, "values")
        places = sa.select(tombstones.c.owner, tombstones.c.project_id).where(is_meant).distinct()
        with self._database.read_connection() as connection:
            found = execute(connection, places, {"values": list_parameter(list(memory_ids))})
            return {(owner, project) for owner, project in found}

    def transcripts(self, *, owner: str | None, after_row: int, limit: int) -> list[Transcript]:
        """Return sessions."""
        first = sa.func.min(_M.row)
        columns = (_M.owner, _M.project_id, _M.session_id)
        statement = sa.select(*columns, sa.func.min(_M.create_time), sa.func.max(_M.update_time), first).where(_IS_SAID)
        if owner is not None:
            statement = statement.where(_M.owner == owner)
        statement = statement.group_by(*columns).having(first > after_row).order_by(first).limit(limit)
        with self._database.read_connection() as connection:
            return [_transcript_of(*row) for row in execute(connection, statement)]

    def _entries_with(self, column: sa.ColumnElement[str], values: Sequence[str]) -> list[VaultEntry]:
        if not values:
            return []
        with self._database.read_connection() as connection:
            found = execute(connection, _select_listed(column), {"values": list_parameter(values)})
            return [VaultEntry(*row) for row in found]

    def _entries(self, statement: sa.Select[Any]) -> list[VaultEntry]:
        with self._database.read_connection() as connection:
            return [VaultEntry(*row) for row in execute(connection, statement)]


@cached_statement
def _select_listed(column: sa.ColumnElement[str]) -> sa.Select[Any]:
    wanted = sa.select(*_COLUMNS).where(in_json_list(column, "values"))
    return wanted.where(_HAS_MEMORY) if column is _F.memory_id else wanted


@cached_statement
def _delete_listed(column: sa.ColumnElement[str]) -> sa.Delete:
    wanted = in_json_list(column, "values")
    return (
        sa.delete(vault_files).where(wanted, _HAS_MEMORY)
        if column is _F.memory_id
        else sa.delete(vault_files).where(wanted)
    )


@cached_statement
def _select_copy() -> sa.Select[Any]:
    return sa.select(*_COPY_COLUMNS).where(_C.path_key == sa.bindparam("at"))


@cached_statement
def _delete_copies() -> sa.Delete:
    return sa.delete(vault_copies).where(in_json_list(_C.path_key, "values"))


@cached_statement
def _delete_transcript() -> sa.Delete:
    place = (
        _F.owner == sa.bindparam("of"),
        _F.project_id == sa.bindparam("in_project"),
        _F.session_id == sa.bindparam("session"),
    )
    return sa.delete(vault_files).where(*place, _HAS_SESSION)


def _page_of(statement: sa.Select[Any], owner: str | None, after: str, limit: int) -> sa.Select[Any]:
    paged = statement.where(_F.path_key > after).order_by(_F.path_key).limit(limit)
    return paged if owner is None else paged.where(_F.owner == owner)


def _values(entry: VaultEntry) -> dict[str, Any]:
    return {
        "path_key": path_key(entry.path),
        "path": entry.path,
        "owner": entry.owner,
        "project_id": entry.project_id,
        "memory_id": entry.memory_id,
        "session_id": entry.session_id,
        "digest": entry.digest,
        "revision": entry.revision,
        "anchor": entry.anchor,
    }


def _values_of_copy(copy: VaultCopy) -> dict[str, Any]:
    return {
        "path_key": path_key(copy.path),
        "path": copy.path,
        "owner": copy.owner,
        "project_id": copy.project_id,
        "digest": copy.digest,
        "memory_id": copy.memory_id,
    }


def _transcript_of(owner: str, project: str, session: str, first: int, stamp: int, row: int) -> Transcript:
    tenant, _, user = owner.partition(OWNER_SEPARATOR)
    scope = Scope(user, project, session_id=session, tenant_id=tenant)
    return Transcript(scope, from_micros(first), stamp, row)
