"""Statements of memories for conflict detection.

Excluded are records of events (messages, notes, tasks), long texts, which one sentence would put into conflict, and
memories private to a session.
"""

from __future__ import annotations

from memsvc.domain.conflicts import Rule, Statement, contradicts
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.text.facts import USER, statements_in
from memsvc.text.sentences import sentences

STATEMENT_KINDS = frozenset({Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.OPINION, Kind.KNOWLEDGE, Kind.DECISION})


def statements_of(memory: Memory) -> tuple[Statement, ...]:
    """Return the statements of *memory*, whatever its status."""
    if memory.kind not in STATEMENT_KINDS or memory.layer is Layer.SESSION:
        return ()
    return statements_in(memory.content, speaker=memory.speaker, is_titled=bool(memory.title))


def extract_statements(memory: Memory) -> tuple[Statement, ...]:
    """Return the statements that others can contradict: those of an ACTIVE memory."""
    return statements_of(memory) if memory.status is Status.ACTIVE else ()


def states_more(memory: Memory, statement: Statement) -> bool:
    """Return whether *memory* states more than *statement*: another sentence, or another topic.

    A job and an employer count as one: they are stated together and change together.
    """
    if len(sentences(memory.content)) > 1:
        return True
    others = (one for one in statements_of(memory) if one.topic != statement.topic)
    return any(not one.rule is statement.rule is Rule.OCCUPATION for one in others)


def is_personal(statement: Statement) -> bool:
    """Return whether a statement is about the home, work or name of the user, and thus valid in every project."""
    topic = statement.topic
    if statement.rule in {Rule.LOCATION, Rule.OCCUPATION}:
        return topic.endswith(f" of {USER}") or topic.startswith(f"{USER} ")
    return topic in {f"is name {USER}", f"{USER} 名字"}


def differs_in_project(older: Memory, newer: Memory) -> bool:
    """Return whether the older memory is global and the newer one is not: it stays in use in other projects."""
    return older.scope.project_id != newer.scope.project_id


def find_contradiction(older: Memory, newer: Memory) -> tuple[Statement, Statement] | None:
    """Return the first pair of contradicting statements, in the order of the newer memory, or None."""
    by_topic = {statement.topic: statement for statement in statements_of(older)}
    for newer_statement in statements_of(newer):
        before = by_topic.get(newer_statement.topic)
        if before is not None and contradicts(before, newer_statement):
            return before, newer_statement
    return None
