"""Writes of the rows of memories and of their dependent rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.conflicts import Fact, Rule, ValuePart
from memsvc.domain.index_entries import MAX_ORDINAL, Chunk, View, entry_id
from memsvc.domain.memory import Memory, Slot, Status, fingerprint
from memsvc.domain.reminders import Acknowledged, day_number, reminds
from memsvc.domain.sessions import message_state
from memsvc.ports.metadata import Record, UniquenessRaceError
from memsvc.text.ranking_cues import pack_cues
from memsvc_backends.sql.dialect import (
    BLOCK_PARAMETERS,
    FRACTION,
    NUMBER,
    TEXT,
    cached_statement,
    execute,
    in_json_list,
    insert_new,
    json_column_pairs,
    json_column_values,
    json_text,
    json_value,
    list_parameter,
    pair_of,
    pairs,
    pairs_parameter,
)
from memsvc_backends.sql.memory_codec import (
    Values,
    chunk_values,
    decode_terms,
    memory_ref_terms,
    memory_values,
    record_row,
    record_values,
    snapshot_text,
)
from memsvc_backends.sql.tables import (
    IS_LIVE,
    conflicts,
    memories,
    memory_chunks,
    memory_keywords,
    memory_metadata,
    memory_refs,
    memory_tags,
    memory_vectors,
    messages,
    passage_tokens,
    reminders,
    reminders_given,
    revisions,
    statements,
)

_EMBEDDED = ("title", "speaker", "event_time")
"""Columns that are embedded with the content: token vectors of the text before must not be compared."""
_TERM_TABLES = (memory_tags, memory_metadata, memory_keywords, memory_refs)
_BETWEEN = memories.c.row.between(sa.bindparam("first"), sa.bindparam("last"))


def insert_records(connection: sa.Connection, records: Sequence[Record]) -> None:
    """Insert memories that have their rows, and their dependent rows except revisions."""
    insert_rows(connection, memories, [record_row(record, pack_cues(record.memory.content)) for record in records])
    _insert_terms(connection, [record.memory for record in records])
    insert_many(connection, memory_chunks, _flat(chunk_values(r.memory.row, r.chunks) for r in records))
    insert_many(connection, memory_vectors, [_vector_values(record) for record in records if record.given_vector])
    insert_rows(connection, statements, statement_rows(records))
    insert_rows(connection, reminders, reminder_rows(record.memory for record in records))


def update_record(connection: sa.Connection, before: Memory, after: Record) -> None:
    """Write what differs between a memory and its next revision.

    Raises:
        UniquenessRaceError: *before* is no longer the stored revision.
    """
    keeps_text = before.content == after.memory.content
    old, new = memory_values(before), record_values(after, 0 if keeps_text else pack_cues(after.memory.content))
    if keeps_text:
        del new["cues"]
    keeps_content = before.content_hash == after.memory.content_hash
    if keeps_content and not after.chunks:
        del new["chunk_count"]
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    statement = (
        sa.update(memories)
        .where(memories.c.row == sa.bindparam("at_row"), memories.c.revision == sa.bindparam("at_revision"))
        .values({name: sa.bindparam(f"new_{name}") for name in changed})
    )
    parameters = {f"new_{name}": value for name, value in changed.items()}
    at = {"at_row": before.row, "at_revision": before.revision}
    if execute(connection, statement, parameters | at).rowcount != 1:
        message = "Another writer changed the memory; repeat the transaction."
        raise UniquenessRaceError(message)
    _replace_terms(connection, before, after.memory)
    move_reminder(connection, before, after.memory)
    # A message stays one of its session when its kind changes.
    if before.scope.session_id and before.status is not after.memory.status:
        state = message_state(after.memory.status).value
        execute(connection, _update_message_state(), {"at_row": before.row, "new_state": state})
    if not keeps_content or after.chunks:
        _delete_chunks(connection, before.row)
        insert_many(connection, memory_chunks, chunk_values(before.row, after.chunks))
    if not keeps_content or any(name in changed for name in _EMBEDDED):
        delete_tokens(connection, [before.row])
    if not keeps_content or after.given_vector:
        execute(connection, _delete_by_row(memory_vectors), {"at_row": before.row})
        if after.given_vector:
            insert_many(connection, memory_vectors, [_vector_values(after)])
    if after.statements is not None:
        delete_statements(connection, before.row)
        insert_rows(connection, statements, statement_rows([after]))


def rewrite_parts(connection: sa.Connection, memory: Memory, chunks: Sequence[Chunk]) -> None:
    """Write the chunks and terms of a memory again."""
    _delete_chunks(connection, memory.row)
    insert_many(connection, memory_chunks, chunk_values(memory.row, chunks))
    execute(connection, _set_chunk_count(), {"at_row": memory.row, "new_count": max(1, len(chunks))})
    for table in _TERM_TABLES:
        rows = _term_rows(table, memory)
        execute(connection, sa.delete(table).where(table.c.owner == memory.scope.owner, table.c.row == memory.row))
        insert_rows(connection, table, sorted(rows))


def update_statuses(connection: sa.Connection, before: Sequence[Memory], after: Sequence[Memory]) -> None:
    """Write the next revision of memories of which only status and time change.

    Raises:
        UniquenessRaceError: One of *before* is no longer the stored revision.
    """
    status, moment = after[0].status, to_micros(after[0].update_time)
    stamped = [(old.row, old.revision, fingerprint(new)) for old, new in zip(before, after, strict=True)]
    changes = {"new_status": status.value, "new_time": moment}
    if execute(connection, _update_status(), {"wanted": pairs_parameter(stamped), **changes}).rowcount != len(before):
        message = "Another writer changed a memory; repeat the transaction."
        raise UniquenessRaceError(message)
    kept = pairs_parameter((old.row, old.revision, snapshot_text(old)) for old in before)
    execute(connection, _keep_snapshots(), {"wanted": kept})
    delete_reminders(connection, before)
    rows = list_parameter(old.row for old in before if old.scope.session_id)
    execute(connection, _update_message_states(), {"wanted": rows, "new_state": message_state(status).value})


def delete_rows(connection: sa.Connection, memory: Memory) -> None:
    """Remove a memory and all that is stored of it. *memory* must be as it is stored."""
    _delete_terms(connection, memory)
    _delete_chunks(connection, memory.row)
    delete_statements(connection, memory.row)
    delete_conflicts(connection, memory)
    delete_reminders(connection, [memory])
    delete_acknowledgements(connection, memory.row)
    for table in (memory_vectors, revisions, messages, memories):
        execute(connection, _delete_by_row(table), {"at_row": memory.row})
    delete_tokens(connection, [memory.row])


def insert_many(connection: sa.Connection, table: sa.Table, values: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows given by the names of all columns of *table*."""
    if values:
        insert_rows(connection, table, list(map(itemgetter(*table.columns.keys()), values)))


def _insert_terms(connection: sa.Connection, written: Sequence[Memory]) -> None:
    """Insert the terms of memories that lie row by row; tags and keywords come out of the rows that were written.

    In the order of the key: neighbours go to the same page.
    """
    between = {"first": written[0].row, "last": written[-1].row}
    if any(memory.tags for memory in written):
        execute(connection, _insert_tags(), between)
    if any(memory.keywords for memory in written):
        execute(connection, _insert_keywords(), between)
    metadata = sorted(_flat(_term_rows(memory_metadata, memory) for memory in written if memory.metadata))
    insert_rows(connection, memory_metadata, metadata)
    refs = sorted(_flat(_term_rows(memory_refs, memory) for memory in written))
    insert_rows(connection, memory_refs, refs)


def _replace_terms(connection: sa.Connection, before: Memory, after: Memory) -> None:
    for table in _TERM_TABLES:
        old, new = set(_term_rows(table, before)), set(_term_rows(table, after))
        gone = [{"at_owner": row[0], "at_term": row[1], "at_row": row[2]} for row in old - new]
        if gone:
            execute(connection, _delete_term(table), gone)
        insert_rows(connection, table, sorted(new - old))


def _delete_terms(connection: sa.Connection, memory: Memory) -> None:
    _replace_terms(connection, memory, replace(memory, tags=(), metadata={}, keywords=(), file_refs=(), summary=""))


def _term_rows(table: sa.Table, memory: Memory) -> Iterable[tuple[Any, ...]]:
    owner, row = memory.scope.owner, memory.row
    if table is memory_tags:
        return [(owner, tag, row) for tag in dict.fromkeys(memory.tags)]
    if table is memory_metadata:
        return [(owner, term, row) for term in decode_terms(memory)]
    if table is memory_refs:
        return [(owner, term, row) for term in memory_ref_terms(memory)]
    if memory.status is Status.DELETED:
        return []
    # As the indexes, the table of keywords does not hold deleted memories.
    return [(owner, term, row, weight) for term, weight in {k.term: k.weight for k in memory.keywords}.items()]


def _vector_values(record: Record) -> Values:
    return {"row": record.memory.row, "model": record.given_model, "vector": record.given_vector}


def _flat(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return [item for several in lists for item in several]


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in the order of the columns.

    In blocks, since the driver releases the interpreter lock for every statement that it steps through, and with
    busy threads waits for it each time. A block is a power of two of rows: so few texts recur, and stay compiled.
    """
    start, block = 0, 1 << (BLOCK_PARAMETERS // len(table.columns)).bit_length() - 1
    while start < len(rows):
        while block > len(rows) - start:
            block >>= 1
        flat = tuple(chain.from_iterable(rows[start : start + block]))
        execute(connection, _insert_sql(connection.dialect, table, block), flat)
        start += block


@cache
def _insert_sql(dialect: sa.Dialect, table: sa.Table, rows: int) -> str:
    head, word, places = str(sa.insert(table).compile(dialect=dialect)).partition(" VALUES ")
    return head + word + ", ".join([places] * rows)


@cached_statement
def _insert_tags() -> sa.Insert:
    tag = json_column_values(memories.c.tags)
    rows = sa.select(memories.c.owner, tag.c.value, memories.c.row).select_from(memories, tag).where(_BETWEEN)
    return insert_new(memory_tags).from_select(list(memory_tags.c), rows.order_by(tag.c.value))


@cached_statement
def _insert_keywords() -> sa.Insert:
    pair = json_column_pairs(memories.c.keywords)
    term, weight = pair_of(pair, TEXT, FRACTION)
    # As the indexes, the table of keywords does not hold deleted memories.
    rows = sa.select(memories.c.owner, term, memories.c.row, weight).select_from(memories, pair)
    return insert_new(memory_keywords).from_select(
        list(memory_keywords.c), rows.where(_BETWEEN, IS_LIVE).order_by(term)
    )


@cached_statement
def _delete_by_row(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(table.c.row == sa.bindparam("at_row"))


@cached_statement
def _set_chunk_count() -> sa.Update:
    return (
        sa.update(memories)
        .where(memories.c.row == sa.bindparam("at_row"))
        .values(chunk_count=sa.bindparam("new_count"))
    )


@cached_statement
def _update_message_state() -> sa.Update:
    return sa.update(messages).where(messages.c.row == sa.bindparam("at_row")).values(state=sa.bindparam("new_state"))


@cached_statement
def _update_message_states() -> sa.Update:
    wanted = in_json_list(messages.c.row, "wanted")
    return sa.update(messages).where(wanted).values(state=sa.bindparam("new_state"))


@cached_statement
def _update_status() -> sa.Update:
    wanted = pairs("wanted")
    row, revision, stamp = pair_of(wanted, NUMBER, NUMBER, NUMBER)
    return (
        sa.update(memories)
        .where(memories.c.row == row, memories.c.revision == revision)
        .values(
            status=sa.bindparam("new_status"),
            update_time=sa.bindparam("new_time"),
            revision=memories.c.revision + 1,
            fingerprint=stamp,
            is_unique=0,
        )
    )


@cached_statement
def _keep_snapshots() -> sa.Update:
    wanted = pairs("wanted")
    row, revision, text = pair_of(wanted, NUMBER, NUMBER, TEXT)
    return sa.update(revisions).where(revisions.c.row == row, revisions.c.revision == revision).values(snapshot=text)


@cached_statement
def _delete_term(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(
        table.c.owner == sa.bindparam("at_owner"),
        table.c.term == sa.bindparam("at_term"),
        table.c.row == sa.bindparam("at_row"),
    )


def _delete_chunks(connection: sa.Connection, row: int) -> None:
    first = entry_id(row, View.CHUNK, 0)
    entry = memory_chunks.c.entry
    statement = sa.delete(memory_chunks).where(entry.between(sa.bindparam("first"), sa.bindparam("last")))
    execute(connection, statement, {"first": first, "last": first + MAX_ORDINAL})


def delete_tokens(connection: sa.Connection, rows: Iterable[int]) -> int:
    """Remove the token vectors of memories; return how many passages had some.

    If the memories are removed too, call it after that: a concurrent `SqlTokenStore.replace` locks their rows.
    """
    firsts = [entry_id(row, View.CHUNK, 0) for row in rows]
    spans = [{"first": first, "last": first + MAX_ORDINAL} for first in firsts]
    return sum(execute(connection, _delete_tokens(), span).rowcount for span in spans)


@cached_statement
def _delete_tokens() -> sa.Delete:
    entry = passage_tokens.c.entry
    return sa.delete(passage_tokens).where(entry.between(sa.bindparam("first"), sa.bindparam("last")))


# What memories state and contradict: the rows of it that come and go with them.


def statement_rows(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Return the rows of the statements of *records*, in the order of the columns and of the key."""
    return sorted(
        (
            record.memory.scope.owner,
            record.memory.scope.project_id,
            statement.topic,
            record.memory.row,
            statement.rule.value,
            json_text([(part.sort, part.text) for part in statement.parts]),
            int(statement.positive),
        )
        for record in records
        for statement in record.statements or ()
    )


def read_facts(connection: sa.Connection, rows: Iterable[int]) -> dict[int, tuple[Fact, ...]]:
    """Return the facts of memories by row and topic; memories without facts are omitted."""
    found: dict[int, list[Fact]] = defaultdict(list)
    for row, rule, topic, parts, positive in execute(connection, _select_of_rows(), {"wanted": list_parameter(rows)}):
        found[row].append(Fact(Rule(rule), topic, parts_of(parts), bool(positive)))
    return {row: tuple(stated) for row, stated in found.items()}


def delete_statements(connection: sa.Connection, row: int) -> None:
    """Remove what a memory states."""
    execute(connection, _delete_statements(), {"at_row": row})


def delete_conflicts(connection: sa.Connection, memory: Memory) -> None:
    """Remove the conflicts of a memory."""
    for side in (conflicts.c.older_id, conflicts.c.newer_id):
        execute(connection, sa.delete(conflicts).where(side == memory.id))


def parts_of(text: str) -> tuple[ValuePart, ...]:
    """Return the parts of a statement that were stored as a text."""
    return tuple(ValuePart(sort, said) for sort, said in json_value(text))


@cached_statement
def _select_of_rows() -> sa.Select[Any]:
    columns = (statements.c.row, statements.c.rule, statements.c.topic, statements.c.parts, statements.c.positive)
    wanted = in_json_list(statements.c.row, "wanted")
    return sa.select(*columns).where(wanted).order_by(statements.c.row, statements.c.topic)


@cached_statement
def _delete_statements() -> sa.Delete:
    return sa.delete(statements).where(statements.c.row == sa.bindparam("at_row"))


# The rows of reminders, and of what was given of them.


def reminder_rows(written: Iterable[Memory]) -> list[tuple[Any, ...]]:
    """Return the rows of the reminders of memories, in the order of the columns and of the key."""
    return sorted(_place(memory) for memory in written if reminds(memory))


def move_reminder(connection: sa.Connection, before: Memory, after: Memory) -> None:
    """Put the reminder of a memory where that of its next revision belongs."""
    old, new = ([_place(one)] if reminds(one) else [] for one in (before, after))
    if old == new:
        return
    delete_reminders(connection, [before])
    for owner, project, day, row in new:
        values = {"owner": owner, "project_id": project, "day": day, "row": row}
        execute(connection, sa.insert(reminders), values)


def delete_reminders(connection: sa.Connection, stored: Iterable[Memory]) -> None:
    """Remove the reminders of memories, which must be as they are stored."""
    for owner, project, day, row in reminder_rows(stored):
        at = {"at_owner": owner, "at_project_id": project, "at_day": day, "at_row": row}
        execute(connection, _delete_one(), at)


def delete_acknowledgements(connection: sa.Connection, row: int) -> None:
    """Remove what is noted of the reminders of a memory."""
    execute(connection, _delete_acknowledgements(), {"at_row": row})


def read_acknowledgements(connection: sa.Connection, rows: Iterable[int]) -> dict[int, tuple[Acknowledged, ...]]:
    """Return what is noted of the reminders of memories, by row, in order; those without any are left out."""
    found: dict[int, list[Acknowledged]] = {}
    for row, day, slot, noted in execute(connection, _select_acknowledged(), {"wanted": list_parameter(rows)}):
        found.setdefault(row, []).append((day_of(day), Slot(slot), from_micros(noted)))
    return {row: tuple(sorted(noted)) for row, noted in found.items()}


def acknowledgement_values(row: int, acknowledged: Iterable[Acknowledged]) -> list[dict[str, Any]]:
    """Return the rows of what is noted of the reminder of a memory."""
    return [
        {"row": row, "day": number_of(day), "slot": slot.value, "time": to_micros(noted)}
        for day, slot, noted in acknowledged
    ]


def _place(memory: Memory) -> tuple[str, str, int, int]:
    reminder, scope = memory.reminder, memory.scope
    return scope.owner, scope.project_id, 0 if reminder is None else day_number(reminder), memory.row


def number_of(day: date) -> int:
    """Return a day as it is stored."""
    return day.year * 10_000 + day.month * 100 + day.day


def day_of(number: int) -> date:
    """Return the day that was stored as a number."""
    return date(number // 10_000, number // 100 % 100, number % 100)


@cached_statement
def _select_acknowledged() -> sa.Select[Any]:
    noted = reminders_given.c
    return sa.select(noted.row, noted.day, noted.slot, noted.time).where(in_json_list(noted.row, "wanted"))


@cached_statement
def _delete_one() -> sa.Delete:
    place = [reminders.c[name] == sa.bindparam(f"at_{name}") for name in ("owner", "project_id", "day", "row")]
    return sa.delete(reminders).where(*place)


@cached_statement
def _delete_acknowledgements() -> sa.Delete:
    return sa.delete(reminders_given).where(reminders_given.c.row == sa.bindparam("at_row"))
