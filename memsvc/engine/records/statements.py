"""Which memories take part in contradictions, and what they state.

Not those that record what was said or done at a time (messages, notes, tasks), nor long texts that would be put aside
for one of their sentences, nor the private ones of a session.
"""

from __future__ import annotations

from memsvc.domain.conflicts import Rule, Statement, contradicts
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.text.facts import USER, statements_in
from memsvc.text.sentences import sentences

STATEMENT_KINDS = frozenset({Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.OPINION, Kind.KNOWLEDGE, Kind.DECISION})


def statements_of(memory: Memory) -> tuple[Statement, ...]:
    """Return what *memory* states, whatever its status."""
    if memory.kind not in STATEMENT_KINDS or memory.layer is Layer.SESSION:
        return ()
    return statements_in(memory.content, speaker=memory.speaker, is_titled=bool(memory.title))


def extract_statements(memory: Memory) -> tuple[Statement, ...]:
    """Return what others can contradict: what an ACTIVE memory states."""
    return statements_of(memory) if memory.status is Status.ACTIVE else ()


def states_more(memory: Memory, statement: Statement) -> bool:
    """Return whether *memory* says more than one of its statements: another sentence, or something on another topic.

    A job and an employer are one thing: they are said together, and change together.
    """
    if len(sentences(memory.content)) > 1:
        return True
    others = (one for one in statements_of(memory) if one.topic != statement.topic)
    return any(not one.rule is statement.rule is Rule.OCCUPATION for one in others)


def is_personal(statement: Statement) -> bool:
    """Return whether a statement is of the user's own home, work or name: that is so in every project."""
    topic = statement.topic
    if statement.rule in {Rule.LOCATION, Rule.OCCUPATION}:
        return topic.endswith(f" of {USER}") or topic.startswith(f"{USER} ")
    return topic in {f"is name {USER}", f"{USER} 名字"}


def differs_in_project(older: Memory, newer: Memory) -> bool:
    """Return whether the older memory is not of the newer one's project: it is global, and stays in use for others."""
    return older.scope.project_id != newer.scope.project_id


def find_contradiction(older: Memory, newer: Memory) -> tuple[Statement, Statement] | None:
    """Return the first two statements that contradict each other, by the order of the newer one's, or None."""
    known = {statement.topic: statement for statement in statements_of(older)}
    for said in statements_of(newer):
        before = known.get(said.topic)
        if before is not None and contradicts(before, said):
            return before, said
    return None
