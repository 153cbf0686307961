"""Text of files: passages, the words that they are found by, and the queue of extractions.

The words are an inverted index. A row holds the postings of one term in one file: a number of 32 bits for each passage
that has it, its ordinal in the upper 24 bits and the weight of the term in the lower 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from memsvc.domain.api_keys import Usage
from memsvc.domain.clock import to_micros
from memsvc.domain.file_text import FilePassage, FileText, TextReason, TextState
from memsvc.domain.files import File, FileCategory
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundPassage
from memsvc.ports.features import OrphanText
from memsvc.text.bm25 import rarity
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import cached_statement, database_clock, execute, in_json_list, list_parameter
from memsvc_backends.sql.file_rows import FILE_COLUMNS, file_from_row, is_text_due, text_values
from memsvc_backends.sql.row_writer import insert_many
from memsvc_backends.sql.tables import HAS_CONTENT, TEXT_IS_WAITING, file_passages, file_words, files
from memsvc_backends.sql.write_session import UsageLedger

ORDINAL_BITS = 24
_WEIGHT_BITS = 8
_MOST_WEIGHT = (1 << _WEIGHT_BITS) - 1
_PASSAGE = (
    file_passages.c.ordinal,
    file_passages.c.text,
    file_passages.c.start_line,
    file_passages.c.end_line,
    file_passages.c.page,
    file_passages.c.section,
)
_IS_INDEXED = files.c.text_state == sa.literal_column("'INDEXED'")


def encode_postings(postings: Iterable[tuple[int, float]]) -> bytes:
    """Return the ordinals and weights of a term in a file as bytes."""
    numbers = [(ordinal << _WEIGHT_BITS) | max(1, round(weight * _MOST_WEIGHT)) for ordinal, weight in postings]
    return np.asarray(numbers, dtype="<u4").tobytes()


class SqlFileTextReads:
    """`memsvc.ports.features.FileTextReads`."""

    _database: Database

    def search_passages(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
        limit_per_file: int,
    ) -> list[FoundPassage]:
        """Return the best passages."""
        wanted = list(dict.fromkeys(terms))
        if not wanted or limit <= 0 or not categories:
            return []
        place = {"owner": reach.owner, "projects": list_parameter(reach.project_ids), "now": to_micros(now)}
        kinds = {"categories": list_parameter(sorted(categories))}
        with self._database.snapshot() as connection:
            found = execute(connection, _select_postings(), {**place, **kinds, "terms": list_parameter(wanted)}).all()
            if not found:
                return []
            total = execute(connection, _count_passages(), place).scalar_one()
            best = _best_passages(wanted, found, int(total or 0), limit, limit_per_file)
            rows = sorted({file for _, file, _ in best})
            chosen = {
                row[0]: file_from_row(row)
                for row in execute(connection, _select_files(), {"wanted": list_parameter(rows)})
            }
            ordinals: dict[int, list[int]] = {}
            for _, file, ordinal in best:
                ordinals.setdefault(file, []).append(ordinal)
            texts = {
                (file, row[0]): FilePassage(*row)
                for file, numbers in ordinals.items()
                for row in execute(connection, _select_passages(), {"file": file, "wanted": list_parameter(numbers)})
            }
        return [
            FoundPassage(chosen[file], texts[file, ordinal], score)
            for score, file, ordinal in best
            if file in chosen and (file, ordinal) in texts
        ]

    def passages(self, file: File, *, after: int = -1, limit: int = 100) -> list[FilePassage]:
        """Return the next passages of a file."""
        c = file_passages.c
        mine = sa.select(*_PASSAGE).where(c.file == file.row, c.ordinal > after, c.owner == file.scope.owner)
        with self._database.read_connection() as connection:
            return [FilePassage(*row) for row in execute(connection, mine.order_by(c.ordinal).limit(limit))]

    def passages_of_owner(self, owner: str, *, limit: int) -> list[str]:
        """Return the texts of some passages."""
        mine = sa.select(file_passages.c.text).where(file_passages.c.owner == owner).limit(limit)
        with self._database.read_connection() as connection:
            return list(execute(connection, mine).scalars())

    def pending_texts(self) -> int:
        """Count the queue."""
        counted = sa.select(sa.func.count()).select_from(files).where(TEXT_IS_WAITING)
        with self._database.read_connection() as connection:
            return int(execute(connection, counted).scalar_one())

    def stray_texts(self, *, owner: str | None, after: int, limit: int) -> list[OrphanText]:
        """Return the next rows without a file."""
        found: dict[int, str] = {}
        with self._database.read_connection() as connection:
            for table in (file_passages, file_words):
                strays = sa.select(table.c.file, sa.func.min(table.c.owner)).where(
                    table.c.file > after, _is_stray(table)
                )
                if owner is not None:
                    strays = strays.where(table.c.owner == owner)
                found |= dict(
                    map(tuple, execute(connection, strays.group_by(table.c.file).order_by(table.c.file).limit(limit)))
                )
        return [OrphanText(row, found[row]) for row in sorted(found)[:limit]]


def _best_passages(
    terms: Sequence[str], found: Iterable[Sequence[Any]], total: int, limit: int, limit_per_file: int
) -> list[tuple[float, int, int]]:
    """Return score, file and ordinal of the best passages, from rows of term, file and postings."""
    keys: dict[str, list[Any]] = {}
    for term, file, postings in found:
        numbers = np.frombuffer(postings, dtype="<u4").astype(np.int64)
        # Both of a passage's numbers in one: files have rows of up to 2^39.
        key = (np.int64(file) << ORDINAL_BITS) | (numbers >> _WEIGHT_BITS)
        keys.setdefault(term, []).append((key, (numbers & _MOST_WEIGHT) / _MOST_WEIGHT))
    held = {term: sum(len(key) for key, _ in parts) for term, parts in keys.items()}
    entries = max(total, *held.values())
    weights = {term: rarity(entries, max(1, held.get(term, 0))) for term in terms}
    every = np.concatenate([key for parts in keys.values() for key, _ in parts])
    values = np.concatenate([weights[term] * value for term, parts in keys.items() for _, value in parts])
    passages, places = np.unique(every, return_inverse=True)
    scores = np.bincount(places, weights=values) / sum(weights.values())
    # Equal scores, but for the last bits of a sum: the newest file, then the order in the file.
    rounded = np.round(scores, 9)
    order = np.lexsort((passages & ((1 << ORDINAL_BITS) - 1), -(passages >> ORDINAL_BITS), -rounded))
    best: list[tuple[float, int, int]] = []
    taken: dict[int, int] = {}
    for at in order:
        file, ordinal = int(passages[at]) >> ORDINAL_BITS, int(passages[at]) & ((1 << ORDINAL_BITS) - 1)
        if taken.get(file, 0) < limit_per_file:
            taken[file] = taken.get(file, 0) + 1
            best.append((float(rounded[at]), file, ordinal))
            if len(best) == limit:
                break
    return best


class SqlFileTextWrites:
    """`memsvc.ports.features.FileTextWrites`, on a connection that is in a transaction."""

    _ledger: UsageLedger
    _connect: Callable[[], sa.Connection]
    _refuse_erased: Callable[[Iterable[str]], None]
    _time: int

    def claim_texts(self, *, now: datetime, term: timedelta, limit: int) -> list[File]:
        """Claim the next ones."""
        connection = self._connect()
        due = {"now": to_micros(now), "most": limit}
        rows = list(execute(connection, _select_due(), due).scalars())
        if not rows:
            return []
        # Another process may have claimed some since: the condition is tested again under the lock of the row.
        at = {"wanted": list_parameter(rows), "now": to_micros(now), "term": term // timedelta(microseconds=1)}
        claimed = list(execute(connection, _claim(), at).scalars())
        # What an interrupted attempt stored.
        self.delete_texts(claimed)
        found = execute(connection, _select_files(), {"wanted": list_parameter(claimed)})
        return sorted(map(file_from_row, found), key=lambda file: file.row)

    def release_claims(self, *, now: datetime) -> None:
        """Make all due."""
        due = sa.func.coalesce(database_clock(), to_micros(now))
        execute(self._connect(), sa.update(files).where(TEXT_IS_WAITING).values(text_time=due))

    def retry_texts(self, reasons: AbstractSet[TextReason], *, now: datetime) -> int:
        """Make some pending again."""
        state = files.c.text_state == TextState.UNSUPPORTED.value
        named = files.c.text_reason.in_(sorted(reasons))
        due = sa.case((HAS_CONTENT, sa.func.coalesce(database_clock(), to_micros(now))), else_=None)
        values = {"text_state": TextState.PENDING.value, "text_reason": "", "text_attempts": 0, "text_time": due}
        return execute(self._connect(), sa.update(files).where(state, named).values(values)).rowcount

    def store_text(
        self, claim: File, passages: Sequence[FilePassage], words: Mapping[str, Sequence[tuple[int, float]]]
    ) -> bool:
        """Add to a text."""
        if not self._holds(claim):
            return False
        scope = claim.scope
        place = {"file": claim.row, "owner": scope.owner, "project_id": scope.project_id}
        insert_many(
            self._connect(),
            file_passages,
            [
                place
                | {name: getattr(one, name) for name in ("ordinal", "text", "start_line", "end_line", "page")}
                | {"section": one.section}
                for one in passages
            ],
        )
        insert_many(
            self._connect(),
            file_words,
            [place | {"term": term, "postings": encode_postings(found)} for term, found in sorted(words.items())],
        )
        return True

    def finish_text(self, claim: File, text: FileText, *, pause: timedelta | None = None) -> bool:
        """Set the state of a text."""
        if not self._holds(claim):
            return False
        if text.state is not TextState.INDEXED:
            self.delete_texts([claim.row])
        self._ledger.add(claim.scope.owner, Usage(file_bytes=text.size_bytes), is_paid=False)
        values = text_values(text, None)
        if pause is not None:
            present = sa.func.coalesce(database_clock(), self._time)
            values["text_time"] = present + pause // timedelta(microseconds=1)
        execute(self._connect(), sa.update(files).where(files.c.row == claim.row).values(values))
        return True

    def _make_due(self, file: File) -> None:
        """Make the text of a new file due at once, whatever the clock of this process says."""
        if is_text_due(file):
            execute(self._connect(), _set_due(), {"at_row": file.row})

    def discard_stray_texts(self, rows: Sequence[int]) -> int:
        """Remove what no file has."""
        strays: set[int] = set()
        for table in (file_passages, file_words):
            wanted = in_json_list(table.c.file, "wanted")
            found = sa.select(table.c.file).distinct().where(wanted, _is_stray(table))
            strays |= set(execute(self._connect(), found, {"wanted": list_parameter(rows)}).scalars())
        self.delete_texts(sorted(strays))
        return len(strays)

    def delete_texts(self, rows: Sequence[int]) -> None:
        """Remove the passages and words of files."""
        for table in (file_passages, file_words):
            execute(self._connect(), _delete_of(table), {"wanted": list_parameter(rows)})

    def _holds(self, claim: File) -> bool:
        """Return whether a claim is the latest one, and keep it until the end of the transaction."""
        self._refuse_erased([claim.scope.owner])
        at = {"row": claim.row, "attempts": claim.text.attempts}
        return execute(self._connect(), _select_claim(), at).first() is not None


def _is_stray(table: sa.Table) -> sa.ColumnElement[bool]:
    return ~sa.exists().where(files.c.row == table.c.file, files.c.owner == table.c.owner)


def _is_alive() -> sa.ColumnElement[bool]:
    return sa.or_(files.c.expire_time.is_(None), files.c.expire_time > sa.bindparam("now"))


@lru_cache(maxsize=1)
def _select_postings() -> sa.Select[Any]:
    c = file_words.c
    return (
        sa.select(c.term, c.file, c.postings)
        .join_from(file_words, files, files.c.row == c.file)
        .where(
            c.owner == sa.bindparam("owner"),
            in_json_list(c.project_id, "projects"),
            in_json_list(c.term, "terms"),
            files.c.owner == c.owner,
            files.c.project_id == c.project_id,
            in_json_list(files.c.category, "categories"),
            _IS_INDEXED,
            _is_alive(),
        )
    )


@lru_cache(maxsize=1)
def _count_passages() -> sa.Select[Any]:
    mine = (files.c.owner == sa.bindparam("owner"), in_json_list(files.c.project_id, "projects"))
    return sa.select(sa.func.sum(files.c.text_passages)).where(*mine, _IS_INDEXED, _is_alive())


@cached_statement
def _select_files() -> sa.Select[Any]:
    return sa.select(*FILE_COLUMNS).where(in_json_list(files.c.row, "wanted"))


@cached_statement
def _select_passages() -> sa.Select[Any]:
    c = file_passages.c
    return sa.select(*_PASSAGE).where(c.file == sa.bindparam("file"), in_json_list(c.ordinal, "wanted"))


def _present() -> sa.ScalarSelect[int]:
    """Return the time by which texts are due; a subquery, since no index is entered by a time that goes on."""
    return sa.select(sa.func.coalesce(database_clock(), sa.bindparam("now", type_=sa.BigInteger))).scalar_subquery()


@cached_statement
def _select_due() -> sa.Select[Any]:
    due = (TEXT_IS_WAITING, files.c.text_time <= _present())
    most = sa.bindparam("most", type_=sa.Integer)
    return sa.select(files.c.row).where(*due).order_by(files.c.text_time, files.c.row).limit(most)


@cached_statement
def _claim() -> sa.Executable:
    due = (in_json_list(files.c.row, "wanted"), TEXT_IS_WAITING, files.c.text_time <= _present())
    until = _present() + sa.bindparam("term", type_=sa.BigInteger)
    values = {"text_time": until, "text_attempts": files.c.text_attempts + 1}
    return sa.update(files).where(*due).values(values).returning(files.c.row)


@cached_statement
def _set_due() -> sa.Update:
    waiting = (files.c.row == sa.bindparam("at_row"), TEXT_IS_WAITING)
    return sa.update(files).where(*waiting).values(text_time=sa.func.coalesce(database_clock(), files.c.text_time))


@cached_statement
def _select_claim() -> sa.Select[Any]:
    is_claimed = (TEXT_IS_WAITING, files.c.text_attempts == sa.bindparam("attempts"))
    return sa.select(files.c.row).where(files.c.row == sa.bindparam("row"), *is_claimed).with_for_update()


@cached_statement
def _delete_of(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(in_json_list(table.c.file, "wanted"))
