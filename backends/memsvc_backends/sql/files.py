"""Records of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.api_keys import Usage
from memsvc.domain.clock import to_micros
from memsvc.domain.file_text import TextState
from memsvc.domain.files import File, FileCategory, FileFilter
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundFile
from memsvc.text.file_refs import file_terms as terms_of
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    cached_statement,
    database_clock,
    execute,
    holds_text,
    in_json_list,
    integer_part,
    json_list,
    list_parameter,
    without_index,
)
from memsvc_backends.sql.file_rows import FILE_COLUMNS, file_from_row, file_values
from memsvc_backends.sql.file_texts import SqlFileTextReads, SqlFileTextWrites
from memsvc_backends.sql.memory_codec import ref_terms
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import HAS_CONTENT, file_terms, files, memory_refs
from memsvc_backends.sql.write_session import UsageLedger

# Finding files by words, and by who refers to them.


_SCALE = 1_000_000_000
"""Scores are compared as whole numbers: sums of fractions differ in the last bits with the order of adding."""


class SqlFileSearch:
    """`memsvc.ports.features.FileSearch`."""

    _database: Database

    def search(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
    ) -> list[FoundFile]:
        """Return the best files."""
        wanted = list(dict.fromkeys(terms))
        if not wanted or limit <= 0 or not categories:
            return []
        at = {
            "owner": reach.owner,
            "projects": list_parameter(reach.project_ids),
            "terms": list_parameter(wanted),
            "categories": list_parameter(sorted(categories)),
            "now": to_micros(now),
            "most": limit,
        }
        with self._database.read_connection() as connection:
            rows = execute(connection, _search(), at).all()
        return [FoundFile(file_from_row(row[1:]), row[0] / (_SCALE * len(wanted))) for row in rows]

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        with self._database.read_connection() as connection:
            return digests_referred_to(connection, owner, refs)

    def existing_refs(self, owner: str, refs: Iterable[FileRef], *, now: datetime) -> set[FileRef]:
        """Return those that are files."""
        wanted = set(refs)
        at = {"owner": owner, "wanted": list_parameter(sorted({ref.id for ref in wanted})), "now": to_micros(now)}
        with self._database.read_connection() as connection:
            return {FileRef(*row) for row in execute(connection, _select_existing(), at)} & wanted


def digests_referred_to(connection: sa.Connection, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
    """Return those of *refs* that a memory of *owner* refers to."""
    named = dict(zip(ref_terms(refs := list(dict.fromkeys(refs))), refs, strict=True))
    found = execute(connection, _select_referred(), {"owner": owner, "wanted": list_parameter(named)})
    return {named[term] for term in found.scalars()}


def insert_terms(connection: sa.Connection, file: File) -> None:
    """Enter the words that a file is found by."""
    scope = file.scope
    place = {"owner": scope.owner, "project_id": scope.project_id, "row": file.row}
    weights = sorted(terms_of(file).items())
    insert_many(connection, file_terms, [{**place, "term": term, "weight": weight} for term, weight in weights])


def delete_terms(connection: sa.Connection, file: File) -> None:
    """Remove the words that a file is found by."""
    scope = file.scope
    at = {"owner": scope.owner, "project_id": scope.project_id, "row": file.row}
    execute(connection, _delete_terms(), at | {"wanted": list_parameter(terms_of(file))})


@lru_cache(maxsize=1)
def _search() -> sa.Select[Any]:
    c = file_terms.c
    total = sa.func.sum(integer_part(c.weight * sa.literal_column(str(float(_SCALE))) + sa.literal_column("0.5")))
    score = sa.cast(total, sa.BigInteger).label("score")
    ranked = (
        sa.select(c.row.label("number"), score)
        .where(
            c.owner == sa.bindparam("owner"),
            in_json_list(c.project_id, "projects"),
            in_json_list(c.term, "terms"),
        )
        .group_by(c.row)
        .subquery("chosen")
    )
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    return (
        sa.select(ranked.c.score, *FILE_COLUMNS)
        .join_from(ranked, files, files.c.row == ranked.c.number)
        .where(alive, in_json_list(files.c.category, "categories"))
        .order_by(ranked.c.score.desc(), files.c.row.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


@lru_cache(maxsize=1)
def _select_referred() -> sa.Select[Any]:
    wanted = json_list("wanted")
    known = sa.exists().where(memory_refs.c.owner == sa.bindparam("owner"), memory_refs.c.term == wanted.c.value)
    return sa.select(wanted.c.value).where(known)


@lru_cache(maxsize=1)
def _select_existing() -> sa.Select[Any]:
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    wanted = in_json_list(files.c.id, "wanted")
    return sa.select(files.c.category, files.c.id).where(
        wanted, without_index(files.c.owner) == sa.bindparam("owner"), alive
    )


@lru_cache(maxsize=1)
def _delete_terms() -> sa.Delete:
    c = file_terms.c
    names = ("owner", "project_id", "row")
    terms = in_json_list(c.term, "wanted")
    return sa.delete(file_terms).where(*(c[name] == sa.bindparam(name) for name in names), terms)


class SqlFileReads(SqlFileSearch, SqlFileTextReads):
    """`memsvc.ports.features.FileReads`."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database

    def get(self, ids: Sequence[str], *, reach: Reach, now: datetime) -> dict[str, File]:
        """Return the existing ones."""
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

    def expired_files(self, *, now: datetime, limit: int) -> list[File]:
        """Return the expired ones."""
        over = files.c.expire_time <= to_micros(now)
        statement = sa.select(*FILE_COLUMNS).where(over).order_by(files.c.expire_time, files.c.row)
        return self._read(statement.limit(max(0, limit)), {})

    def digests_in_use(self, digests: Iterable[str], *, apart_from: str = "") -> set[str]:
        """Return the digests that are in use."""
        at = {"wanted": list_parameter(digests), "owner": apart_from}
        with self._database.read_connection() as connection:
            return set(execute(connection, _select_referring(), at).scalars())

    def _read(self, statement: sa.Select[Any], parameters: dict[str, Any]) -> list[File]:
        with self._database.read_connection() as connection:
            return [file_from_row(row) for row in execute(connection, statement, parameters)]


class SqlFileWrites(SqlFileTextWrites):
    """`memsvc.ports.features.FileWrites`, on a connection that is in a transaction."""

    def __init__(
        self,
        connect: Callable[[], sa.Connection],
        allot: Callable[[], int],
        void_on_race: Callable[[], AbstractContextManager[None]],
        refuse_erased: Callable[[Iterable[str]], None],
        ledger: UsageLedger,
        time: int,
    ) -> None:
        """Work with what `memsvc_backends.sql.sessions.SqlSessionWrites` is given too, and note sizes in *ledger*.

        *time* is that of this process, in microseconds.
        """
        self._time = time
        self._ledger = ledger
        self._connect = connect
        self._allot = allot
        self._void_on_race = void_on_race
        self._refuse_erased = refuse_erased

    def get(self, file_id: str, *, reach: Reach) -> File | None:
        """Return a file that is there."""
        found = self.get_many(reach.owner, [file_id]).get(file_id)
        return found if found is not None and found.scope.project_id in reach.project_ids else None

    def insert(self, file: File) -> File:
        """Insert a new file."""
        self._refuse_erased([file.scope.owner])
        self._ledger.add(file.scope.owner, Usage(file_bytes=file.size_bytes))
        self._ledger.require()
        inserted = replace(file, row=self._allot())
        with self._void_on_race():
            insert_many(self._connection, files, [file_values(inserted)])
        insert_terms(self._connection, inserted)
        self._make_due(inserted)
        return inserted

    def digests_of_owner(self, owner: str, digests: Iterable[str]) -> set[str]:
        """Return the digests of contents that the owner has."""
        wanted = (in_json_list(files.c.sha256, "wanted"), files.c.owner == owner, HAS_CONTENT)
        statement = sa.select(files.c.sha256).distinct().where(*wanted)
        return set(execute(self._connection, statement, {"wanted": list_parameter(digests)}).scalars())

    def fill(self, owner: str, sha256: str) -> int:
        """Note that a content is here."""
        lacking = (files.c.sha256 == sha256, files.c.owner == owner, sa.not_(HAS_CONTENT))
        # A text that waits for the content is due at once.
        now = sa.func.coalesce(database_clock(), files.c.create_time)
        due = sa.case((files.c.text_state == TextState.PENDING.value, now), else_=files.c.text_time)
        filled = sa.update(files).where(*lacking).values(has_content=1, text_time=due)
        return execute(self._connection, filled).rowcount

    def delete(self, wanted: Sequence[File]) -> int:
        """Remove files."""
        for file in wanted:
            delete_terms(self._connection, file)
        rows = [file.row for file in wanted]
        self.delete_texts(rows)
        removed = execute(self._connection, _delete_rows(), {"wanted": list_parameter(rows)})
        for owner, size, text_bytes in removed:
            self._ledger.add(owner, Usage(file_bytes=-size))
            # No call paid for the text, which was extracted later.
            self._ledger.add(owner, Usage(file_bytes=-text_bytes), is_paid=False)
        return len(removed)

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        return digests_referred_to(self._connection, owner, refs)

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of others."""
        others = sa.select(files.c.id).where(in_json_list(files.c.id, "wanted"), files.c.owner != owner)
        return set(execute(self._connection, others, {"wanted": list_parameter(ids)}).scalars())

    def get_many(self, owner: str, ids: Iterable[str]) -> dict[str, File]:
        """Return files by id."""
        at = {"wanted": list_parameter(ids), "owner": owner}
        return {file.id: file for file in map(file_from_row, execute(self._connection, _select_stored(), at))}

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


@cached_statement
def _select_ids() -> sa.Select[Any]:
    mine = files.c.owner == sa.bindparam("owner")
    within = in_json_list(files.c.project_id, "projects")
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    return sa.select(*FILE_COLUMNS).where(in_json_list(files.c.id, "wanted"), mine, within, alive)


@cached_statement
def _select_stored() -> sa.Select[Any]:
    return (
        sa.select(*FILE_COLUMNS)
        .where(in_json_list(files.c.id, "wanted"), without_index(files.c.owner) == sa.bindparam("owner"))
        .with_for_update()
    )


@cached_statement
def _select_referring() -> sa.Select[Any]:
    others = files.c.owner != sa.bindparam("owner")
    return sa.select(files.c.sha256).distinct().where(in_json_list(files.c.sha256, "wanted"), HAS_CONTENT, others)


@cached_statement
def _delete_rows() -> sa.Executable:
    wanted = in_json_list(files.c.row, "wanted")
    return sa.delete(files).where(wanted).returning(files.c.owner, files.c.size_bytes, files.c.text_bytes)
