"""Copies of rows between databases, and their verification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlalchemy as sa

from memsvc.domain.errors import MoveRefusedError
from memsvc_backends.sql.store_migration import change_triggers, migration_state, table_rows
from memsvc_backends.sql.store_migration.table_rows import MOVED, Digest, Key

Digests = dict[str, Digest]


@dataclass
class CopiedChanges:
    """Copied changes: the number of rows, and the numbers of the changes to delete from the log."""

    rows: int = 0
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def note(self, table: str, numbers: list[int]) -> None:
        """Note changes with ascending numbers."""
        spans = self.spans.setdefault(table, [])
        for number in numbers:
            if spans and spans[-1][1] == number - 1:
                spans[-1] = (spans[-1][0], number)
            else:
                spans.append((number, number))


def decode_key(table: sa.Table, key: list[object] | None) -> Key | None:
    """Return a key as `encode_key` wrote it."""
    if key is None:
        return None
    columns = table_rows.key_columns(table)
    return tuple(
        [
            bytes.fromhex(str(value)) if isinstance(column.type, sa.LargeBinary) else value
            for value, column in zip(key, columns, strict=True)
        ]
    )


def encode_key(key: Key) -> list[object]:
    """Return a key for JSON."""
    return [value.hex() if isinstance(value, bytes) else value for value in key]


def copy_changes(source: sa.Connection, target: sa.Connection, digests: Digests | None) -> CopiedChanges:
    """Bring the target to the state that *source* shows, in the transaction of *target*; keep its digests.

    What was changed is taken out first, of all tables, and then put in: so no unique index is ever in the way. What was
    put in is read back and compared.

    Raises:
        MoveRefusedError: The target does not give back what it was given.
    """
    carried = CopiedChanges()
    tables = change_triggers.tables_with_changes(source)
    for table in tables:
        for _, keys in change_triggers.changed_keys(source, table):
            if keys:
                _delete_rows(target, table, keys, digests)
    for table in tables:
        for numbers, keys in change_triggers.changed_keys(source, table):
            carried.note(table.name, numbers)
            if keys:
                _insert_rows(source, target, table, keys, digests)
                carried.rows += len(keys)
    return carried


def _delete_rows(target: sa.Connection, table: sa.Table, keys: list[Key], digests: Digests | None) -> None:
    if digests is not None:
        digests[table.name].remove(table_rows.rows_with(target, table, keys))
    table_rows.delete_rows(target, table, keys)


def _insert_rows(
    source: sa.Connection, target: sa.Connection, table: sa.Table, keys: list[Key], digests: Digests | None
) -> None:
    rows = table_rows.rows_with(source, table, keys)
    table_rows.write_rows(target, table, rows)
    there = table_rows.rows_with(target, table, keys)
    if sorted(map(repr, rows)) != sorted(map(repr, there)):
        raise differ([table.name])
    if digests is not None:
        digests[table.name].add(there)


def digests_of(connection: sa.Connection) -> Iterator[tuple[str, Digest]]:
    """Yield the digest of each table so far, after every page; the last one of a table is that of all of it."""
    for table in MOVED:
        digest = Digest()
        yield table.name, digest
        for page in table_rows.pages(connection, table):
            digest.add(page)
            yield table.name, digest


def differ_only_incidentally(ours: sa.Connection, theirs: sa.Connection, table: sa.Table) -> bool:
    """Return whether two databases have the same rows of a table but for the columns that reads change."""
    if table.name not in table_rows.INCIDENTAL_COLUMNS:
        return False
    digests = []
    for connection in (ours, theirs):
        digest = Digest()
        for page in table_rows.pages(connection, table):
            digest.add(table_rows.without_incidental(table, page))
        digests.append(digest.to_table(table.name))
    return digests[0] == digests[1]


def compare(ours: Digests, theirs: Digests) -> None:
    """Return when both are the same.

    Raises:
        MoveRefusedError: They differ; the message names the tables.
    """
    wrong = [name for name in ours if ours[name].to_table(name) != theirs[name].to_table(name)]
    if wrong:
        raise differ(wrong)


def differ(tables: list[str]) -> MoveRefusedError:
    """Return what says that tables are not the same on both sides."""
    return MoveRefusedError(
        f"The target does not hold what the source does: {', '.join(tables)}. Another client may have written to it. "
        "Nothing was switched; give the move up with --abort, and begin again with an empty target.",
        subject="verification",
    )


def into_of(connection: sa.Connection) -> migration_state.Move:
    """Return what the target says of the move.

    Raises:
        MoveRefusedError: Nothing any more: the target was cleared.
    """
    into = migration_state.load_move(connection, migration_state.INTO)
    if into is None:
        message = "The target was cleared while the store was moved to it; begin again."
        raise MoveRefusedError(message)
    return into
