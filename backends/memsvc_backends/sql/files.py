"""What is known of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.files import File, FileFilter
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import holds_text, is_listed, list_parameter, unindexed
from memsvc_backends.sql.file_codec import FILE_COLUMNS, file_from_row, file_values
from memsvc_backends.sql.file_finding import SqlFileSearch, delete_terms, insert_terms, referred_to
from memsvc_backends.sql.file_tables import HAS_CONTENT, files
from memsvc_backends.sql.row_writer import insert_many


class SqlFileReads(SqlFileSearch):
    """`memsvc.ports.features.FileReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, ids: Sequence[str], *, reach: Reach, now: datetime) -> dict[str, File]:
        """Return those that are there."""
        at = {"wanted": list_parameter(ids), "owner": reach.owner, "projects": list_parameter(reach.project_ids)}
        found = self._read(_select_ids(), at | {"now": to_micros(now)})
        return {file.id: file for file in found}

    def page(self, *, reach: Reach, where: FileFilter, now: datetime, before: int | None, limit: int) -> list[File]:
        """Return one page of a list."""
        if limit <= 0 or not reach.project_ids:
            return []
        return self._read(_page(reach, _conditions(where, now, before), where, limit), {})

    def of_owner(self, owner: str, *, after: int, limit: int) -> list[File]:
        """Return those of one owner."""
        mine = sa.select(*FILE_COLUMNS).where(files.c.owner == owner, files.c.row > after)
        return self._read(mine.order_by(files.c.row).limit(max(0, limit)), {})

    def every(self, *, after: int, limit: int) -> list[File]:
        """Return those of all owners."""
        every = sa.select(*FILE_COLUMNS).where(files.c.row > after)
        return self._read(every.order_by(files.c.row).limit(max(0, limit)), {})

    def expired(self, *, now: datetime, limit: int) -> list[File]:
        """Return the expired ones."""
        over = files.c.expire_time <= to_micros(now)
        statement = sa.select(*FILE_COLUMNS).where(over).order_by(files.c.expire_time, files.c.row)
        return self._read(statement.limit(max(0, limit)), {})

    def referred(self, digests: Iterable[str], *, apart_from: str = "") -> set[str]:
        """Return the digests that are in use."""
        at = {"wanted": list_parameter(digests), "owner": apart_from}
        with self._database.reading() as connection:
            return set(connection.execute(_select_referring(), at).scalars())

    def _read(self, statement: sa.Select[Any], parameters: dict[str, Any]) -> list[File]:
        with self._database.reading() as connection:
            return [file_from_row(row) for row in connection.execute(statement, parameters)]


class SqlFileWrites:
    """`memsvc.ports.features.FileWrites`, on a connection that is in a transaction."""

    def __init__(
        self,
        connect: Callable[[], sa.Connection],
        allot: Callable[[], int],
        void_on_race: Callable[[], AbstractContextManager[None]],
        refuse_erased: Callable[[Iterable[str]], None],
    ) -> None:
        """Work with what `memsvc_backends.sql.sessions.SqlSessionWrites` is given too."""
        self._connect = connect
        self._allot = allot
        self._void_on_race = void_on_race
        self._refuse_erased = refuse_erased

    def get(self, file_id: str, *, reach: Reach) -> File | None:
        """Return a file that is there."""
        found = self.stored(reach.owner, [file_id]).get(file_id)
        return found if found is not None and found.scope.project_id in reach.project_ids else None

    def insert(self, file: File) -> File:
        """Insert a new file."""
        self._refuse_erased([file.scope.owner])
        inserted = replace(file, row=self._allot())
        with self._void_on_race():
            insert_many(self._connection, files, [file_values(inserted)])
        insert_terms(self._connection, inserted)
        return inserted

    def held(self, owner: str, digests: Iterable[str]) -> set[str]:
        """Return the digests of contents that the owner has."""
        wanted = (is_listed(files.c.sha256, "wanted"), files.c.owner == owner, HAS_CONTENT)
        statement = sa.select(files.c.sha256).distinct().where(*wanted)
        return set(self._connection.execute(statement, {"wanted": list_parameter(digests)}).scalars())

    def fill(self, owner: str, sha256: str) -> int:
        """Note that a content is here."""
        lacking = (files.c.sha256 == sha256, files.c.owner == owner, sa.not_(HAS_CONTENT))
        return self._connection.execute(sa.update(files).where(*lacking).values(has_content=1)).rowcount

    def delete(self, wanted: Sequence[File]) -> int:
        """Remove files."""
        for file in wanted:
            delete_terms(self._connection, file)
        at = {"wanted": list_parameter(file.row for file in wanted)}
        return self._connection.execute(_delete_rows(), at).rowcount

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        return referred_to(self._connection, owner, refs)

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of others."""
        others = sa.select(files.c.id).where(is_listed(files.c.id, "wanted"), files.c.owner != owner)
        return set(self._connection.execute(others, {"wanted": list_parameter(ids)}).scalars())

    def stored(self, owner: str, ids: Iterable[str]) -> dict[str, File]:
        """Return files by id."""
        at = {"wanted": list_parameter(ids), "owner": owner}
        return {file.id: file for file in map(file_from_row, self._connection.execute(_select_stored(), at))}

    @property
    def _connection(self) -> sa.Connection:
        return self._connect()


def _conditions(where: FileFilter, now: datetime, before: int | None) -> list[sa.ColumnElement[bool]]:
    c = files.c
    conditions = [sa.or_(c.expire_time.is_(None), c.expire_time > to_micros(now))]
    conditions += [holds_text(c.searched, word) for word in where.words]
    if where.media_type.endswith("/*"):
        family = where.media_type[:-1]
        conditions.append(sa.func.substr(c.media_type, 1, len(family)) == family)
    elif where.media_type:
        conditions.append(c.media_type == where.media_type)
    if where.sha256:
        conditions.append(c.sha256 == where.sha256)
    if before is not None:
        conditions.append(c.row < before)
    return conditions


def _page(reach: Reach, conditions: Sequence[sa.ColumnElement[bool]], where: FileFilter, limit: int) -> sa.Select[Any]:
    """Return what reads a page: each project, and each category when some are named, from an index in order."""
    kinds = [files.c.category == category.value for category in sorted(where.categories)] or [sa.true()]
    places = [
        (files.c.owner == reach.owner, files.c.project_id == project, kind)
        for project in reach.project_ids
        for kind in kinds
    ]
    parts = [
        sa.select(
            sa.select(files.c.row.label("number"))
            .where(*place, *conditions)
            .order_by(files.c.row.desc())
            .limit(limit)
            .subquery(f"part_{number}")
        )
        for number, place in enumerate(places)
    ]
    chosen = sa.union_all(*parts).subquery("chosen")
    return (
        sa.select(*FILE_COLUMNS).join(chosen, chosen.c.number == files.c.row).order_by(files.c.row.desc()).limit(limit)
    )


@cache
def _select_ids() -> sa.Select[Any]:
    mine = files.c.owner == sa.bindparam("owner")
    within = is_listed(files.c.project_id, "projects")
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    return sa.select(*FILE_COLUMNS).where(is_listed(files.c.id, "wanted"), mine, within, alive)


@cache
def _select_stored() -> sa.Select[Any]:
    return (
        sa.select(*FILE_COLUMNS)
        .where(is_listed(files.c.id, "wanted"), unindexed(files.c.owner) == sa.bindparam("owner"))
        .with_for_update()
    )


@cache
def _select_referring() -> sa.Select[Any]:
    others = files.c.owner != sa.bindparam("owner")
    return sa.select(files.c.sha256).distinct().where(is_listed(files.c.sha256, "wanted"), HAS_CONTENT, others)


@cache
def _delete_rows() -> sa.Delete:
    return sa.delete(files).where(is_listed(files.c.row, "wanted"))
