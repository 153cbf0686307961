"""A batch finds what the same memories would contradict that are written one by one, with few reads of the store."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from memsvc.domain.conflicts import ConflictPolicy, ConflictState
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions, WriteResult
from memsvc.engine.conflicts.detection import CANDIDATES
from tests.unit.engine.memories.write_path import Desk

STATEMENTS = (
    "Anna lives in Lisbon.", "Anna moved to Porto.", "Anna relocated to Faro.", "Anna lives in Lisbon and likes tea.",
    "I work as a nurse.", "I work as a baker.", "I like coffee.", "I don't like coffee anymore.", "I like tea.",
    "The deadline of Apollo is March 3.", "The deadline of Apollo is March 9.",
    "Dentist appointment on March 3.", "The dentist appointment was moved to March 9.",
    "The dentist appointment was cancelled.",
    "小王住在北京。", "小王搬到了上海。", "王芳在腾讯工作。", "王芳跳槽到了百度。", "用户喜欢吃辣。", "用户讨厌吃辣。",
    "3月5日看牙医。", "看牙医改到3月8日。",
)  # fmt: skip
POLICIES = (ConflictPolicy.MARK, ConflictPolicy.SUPERSEDE, ConflictPolicy.KEEP_BOTH)
PROJECTS = ("", "web")


def drafts(seed: int) -> list[Draft]:
    """Return statements in random order, each with words of its own, in two places."""
    chance = random.Random(seed)
    return [Draft(f"{chance.choice(STATEMENTS)} {n}", project_id=chance.choice(PROJECTS)) for n in range(30)]


def outcome(desk: Desk, scope: Scope, memories: Sequence[Memory]) -> tuple[Sequence[object], Counter[object]]:
    """Return the present state of memories in order, and the conflicts between them by their places in it."""
    found = [desk.stored(one.id, Scope(scope.user_id, one.scope.project_id)) for one in memories]
    assert None not in found
    places = {one.id: place for place, one in enumerate(found) if one is not None}
    states = [
        (one.content, one.status, one.reminder, places.get(one.superseded_by_id)) for one in found if one is not None
    ]
    conflicts: Counter[object] = Counter()
    for project in PROJECTS:
        page, _ = desk.writing.resolve.page(
            Scope(scope.user_id, project), states=list(ConflictState), memory_id="", before="", limit=500
        )
        conflicts.update(
            (one.topic, one.older_value, one.newer_value, one.state, places[one.older_id], places[one.newer_id])
            for one in (found.conflict for found in page)
            if one.project_id == project
        )
    return states, conflicts


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_is_compared_as_single_writes_are(desk: Desk, policy: ConflictPolicy, seed: int) -> None:
    """The same statements lead to the same conflicts, states and reminders, whatever was stored before."""
    options = WriteOptions(on_conflict=policy)
    told = drafts(seed)
    before, batch = told[:10], told[10:]
    ends = []
    for scope in (Scope("ada"), Scope("ben")):
        written = [desk.writing.remember.create(scope, draft, options).memory for draft in before]
        if scope.user_id == "ada":
            results = desk.writing.remember.create_batch(scope, batch, options).results
            written += [one.memory for one in results if isinstance(one, WriteResult)]
        else:
            written += [desk.writing.remember.create(scope, draft, options).memory for draft in batch]
        assert len(written) == len(told)
        ends.append(outcome(desk, scope, written))

    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("said", "other"),
    [("Anna lives in Town{}.", "Anna moved to Porto. {}"), ("小王住在苏州第{}村。", "小王搬到了上海。{}")],
)
def test_a_batch_finds_the_statements_behind_those_that_it_supersedes(desk: Desk, said: str, other: str) -> None:
    """Of a topic of which more is stated than is read at once, every statement is superseded in the end."""
    scope, count = Scope("ada"), CANDIDATES + 6
    for number in range(count):
        desk.create(said.format(number), scope, on_conflict=None)

    options = WriteOptions(on_conflict=ConflictPolicy.SUPERSEDE)
    batch = desk.writing.remember.create_batch(scope, [Draft(other.format(number)) for number in range(8)], options)

    assert sum(len(one.conflicts) for one in batch.results if isinstance(one, WriteResult)) == count


@pytest.mark.parametrize(
    ("older", "newer", "batch"),
    [
        ("Anna lives in Lisbon.", "Anna moved to Porto.", ("Anna moved to Lisbon again.", "Anna moved to Faro.")),
        ("小王住在北京。", "小王搬到了上海。", ("小王搬回了北京。", "小王搬到了广州。")),
    ],
)
def test_a_batch_finds_what_it_made_active(desk: Desk, older: str, newer: str, batch: tuple[str, ...]) -> None:
    """The first memory ends the conflict of an older one, which then holds again and is superseded by the second."""
    scope, options = Scope("ada"), WriteOptions(on_conflict=ConflictPolicy.SUPERSEDE)
    first = desk.create(older, scope).memory
    desk.create(newer, scope)

    written = desk.writing.remember.create_batch(scope, [Draft(text) for text in batch], options).results

    stored = desk.stored(first.id, scope)
    assert stored is not None
    assert stored.superseded_by_id == [one.memory.id for one in written if isinstance(one, WriteResult)][-1]
