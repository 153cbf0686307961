"""What a store keeps beside a memory: chunks, a given vector, the claim on its content, the line before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from memsvc.domain.memory import Kind, Memory
from memsvc.engine.conflicts.statements import extract_statements
from memsvc.engine.records.memory_builder import MemoryBuilder, chunks_of, claims_content, content_name
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import Record, Transaction
from memsvc.text.token_estimate import count_tokens


class RecordBuilder:
    """Makes records of memories that exist, and ties new ones to their sessions."""

    def __init__(self, drafting: MemoryBuilder, feed: IndexFeed, count: Callable[[str], int] = count_tokens) -> None:
        """Find the vectors that memories came with by *feed*; *count* tells how many tokens a text takes."""
        self._drafting = drafting
        self._feed = feed
        self._count = count

    def record(self, before: Memory, after: Memory, vector: bytes = b"") -> Record:
        """Return the record of *after*, which claims no content yet.

        A new given *vector* is taken; else the one that *before* came with stays while the content does.
        """
        record = Record(after, chunks_of(after.content), is_unique=False, statements=extract_statements(after))
        if vector:
            return replace(record, given_vector=vector, given_model=self._drafting.model)
        if after.content_hash != before.content_hash:
            return record
        given, model = self.given_vector(before)
        return replace(record, given_vector=given, given_model=model)

    @staticmethod
    def relabelled(after: Memory) -> Record:
        """Return the record of a next revision with the same content, which claims none yet; it costs no read.

        The store leaves chunks and a given vector as they are while the content stays.
        """
        return Record(after, is_unique=False, statements=extract_statements(after))

    def next_record(self, before: Memory, after: Memory, vector: bytes = b"") -> Record | None:
        """Return the record of the next revision, or None when neither the memory nor its vector changes."""
        if after is not before:
            return self.record(before, after, vector)
        if not vector or self.given_vector(before) == (vector, self._drafting.model):
            return None
        renewed = replace(before, update_time=self._drafting.now(), revision=before.revision + 1)
        return self.record(before, renewed, vector)

    def claimed(self, transaction: Transaction, record: Record) -> tuple[Record, Memory | None]:
        """Return *record* with the claim on its content if that is free, and the other memory that has it if not."""
        holder = self.holder(transaction, record.memory)
        is_unique = holder is None and claims_content(record.memory)
        return (record if record.is_unique == is_unique else replace(record, is_unique=is_unique)), holder

    @staticmethod
    def holder(transaction: Transaction, memory: Memory) -> Memory | None:
        """Return the other memory that claims the content of *memory*, if *memory* would claim it at all."""
        if not claims_content(memory):
            return None
        name = content_name(memory)
        holder = transaction.find_contents(memory.scope.owner, [name]).get(name)
        return None if holder is None or holder.id == memory.id else holder

    @staticmethod
    def linked(transaction: Transaction, records: Sequence[Record]) -> list[Record]:
        """Return new *records* with the first of each session tied to the newest stored line of that session."""
        linked = list(records)
        seen: set[tuple[str, str]] = set()
        for place, record in enumerate(records):
            scope = record.memory.scope
            session = (scope.project_id, scope.session_id)
            if scope.session_id and session not in seen:
                seen.add(session)
                row = transaction.last_row(scope.owner, *session)
                if row is not None:
                    linked[place] = replace(record, memory=replace(record.memory, previous_row=row))
        return linked

    def recount(self, transaction: Transaction, before: Memory, after: Memory) -> None:
        """Have a session know how many tokens more or less a message takes that says something else now."""
        if before.kind is Kind.MESSAGE and before.content_hash != after.content_hash:
            more = self._count(after.content) - self._count(before.content)
            transaction.sessions.add_tokens(before.row, more)

    def given_vector(self, memory: Memory) -> tuple[bytes, str]:
        """Return the vector that a stored memory came with, and its model; both are empty when it came without."""
        documents = self._feed.documents([memory.row])
        return (documents[0].given_vector, documents[0].given_model) if documents else (b"", "")
