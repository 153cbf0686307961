"""Finding files by words, and by who refers to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.files import File, FileCategory
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundFile
from memsvc.text.file_refs import file_terms as terms_of
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import is_listed, list_parameter, listed, truncated, unindexed
from memsvc_backends.sql.file_codec import FILE_COLUMNS, file_from_row
from memsvc_backends.sql.file_tables import file_terms, files
from memsvc_backends.sql.memory_codec import ref_terms
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import memory_refs

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
        with self._database.reading() as connection:
            rows = connection.execute(_search(), at).all()
        return [FoundFile(file_from_row(row[1:]), row[0] / (_SCALE * len(wanted))) for row in rows]

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        with self._database.reading() as connection:
            return referred_to(connection, owner, refs)

    def existing(self, owner: str, refs: Iterable[FileRef], *, now: datetime) -> set[FileRef]:
        """Return those that are files."""
        wanted = set(refs)
        at = {"owner": owner, "wanted": list_parameter(sorted({ref.id for ref in wanted})), "now": to_micros(now)}
        with self._database.reading() as connection:
            return {FileRef(*row) for row in connection.execute(_select_existing(), at)} & wanted


def referred_to(connection: sa.Connection, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
    """Return those of *refs* that a memory of *owner* refers to."""
    named = dict(zip(ref_terms(refs := list(dict.fromkeys(refs))), refs, strict=True))
    found = connection.execute(_select_referred(), {"owner": owner, "wanted": list_parameter(named)})
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
    connection.execute(_delete_terms(), at | {"wanted": list_parameter(terms_of(file))})


@lru_cache(maxsize=1)
def _search() -> sa.Select[Any]:
    c = file_terms.c
    total = sa.func.sum(truncated(c.weight * sa.literal_column(str(float(_SCALE))) + sa.literal_column("0.5")))
    score = sa.cast(total, sa.BigInteger).label("score")
    ranked = (
        sa.select(c.row.label("number"), score)
        .where(
            c.owner == sa.bindparam("owner"),
            is_listed(c.project_id, "projects"),
            is_listed(c.term, "terms"),
        )
        .group_by(c.row)
        .subquery("chosen")
    )
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    return (
        sa.select(ranked.c.score, *FILE_COLUMNS)
        .join_from(ranked, files, files.c.row == ranked.c.number)
        .where(alive, is_listed(files.c.category, "categories"))
        .order_by(ranked.c.score.desc(), files.c.row.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


@lru_cache(maxsize=1)
def _select_referred() -> sa.Select[Any]:
    wanted = listed("wanted")
    known = sa.exists().where(memory_refs.c.owner == sa.bindparam("owner"), memory_refs.c.term == wanted.c.value)
    return sa.select(wanted.c.value).where(known)


@lru_cache(maxsize=1)
def _select_existing() -> sa.Select[Any]:
    alive = sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))
    wanted = is_listed(files.c.id, "wanted")
    return sa.select(files.c.category, files.c.id).where(
        wanted, unindexed(files.c.owner) == sa.bindparam("owner"), alive
    )


@lru_cache(maxsize=1)
def _delete_terms() -> sa.Delete:
    c = file_terms.c
    names = ("owner", "project_id", "row")
    terms = is_listed(c.term, "wanted")
    return sa.delete(file_terms).where(*(c[name] == sa.bindparam(name) for name in names), terms)
