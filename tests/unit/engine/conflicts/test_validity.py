"""What was superseded was true until then; and what is not true at present contradicts nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.conflicts import ConflictPolicy, ConflictState, Resolution
from memsvc.domain.memory import Memory, Status
from memsvc.domain.write_requests import Draft, Patch, WriteOptions
from tests.unit.engine.memories.write_path import ADA, Desk

DAY = timedelta(days=1)
PLAIN = WriteOptions()


def supersede(desk: Desk, old: Memory, content: str, **given: Any) -> tuple[Memory, Memory]:
    """Supersede by a new memory a day later; return the old one and the new one."""
    desk.clock.advance(days=1)
    new, before = desk.writing.supersede.by_new(
        ADA, old.id, Draft(content, **given), expected_revision=0, options=PLAIN
    )
    return before.memory, new.memory


def stored(desk: Desk, memory: Memory) -> Memory:
    found = desk.stored(memory.id)
    assert found is not None
    return found


def spans(*memories: Memory) -> list[tuple[datetime | None, datetime | None]]:
    return [(memory.valid_from, memory.valid_to) for memory in memories]


def test_old_memory_was_true_until_now(desk: Desk) -> None:
    """The new one is true from then on, by whichever way it took the place."""
    start = desk.clock.time
    first = desk.create("v1").memory
    assert spans(*supersede(desk, first, "v2")) == [(None, start + DAY), (start + DAY, None)]

    third, fourth = desk.create("v3").memory, desk.create("v4").memory
    new, old = desk.writing.supersede.by_existing(ADA, third.id, fourth.id, expected_revision=0, options=PLAIN)
    assert spans(old.memory, new.memory) == [(None, start + DAY), (start + DAY, None)]

    home = desk.create("Anna lives in Lisbon.").memory
    away = desk.create("Anna moved to Porto.", on_conflict=ConflictPolicy.SUPERSEDE).memory
    assert spans(stored(desk, home), away) == [(None, start + DAY), (start + DAY, None)]

    job = desk.create("I work as a nurse.").memory
    conflict = desk.create("I work as a baker.").conflicts[0].conflict
    desk.writing.resolve.resolve(ADA, conflict.id, Resolution.CONFIRM, PLAIN)
    assert spans(stored(desk, job)) == [(None, start + DAY)]


@pytest.mark.parametrize("name", ["valid_from", "event_time"])
def test_new_memory_says_since_when(desk: Desk, name: str) -> None:
    """Its own beginning is the old one's end, else the time of what happened."""
    start = desk.clock.time
    first = desk.create("v1", valid_from=start - 9 * DAY).memory

    since = start - 3 * DAY
    assert spans(*supersede(desk, first, "v2", **{name: since})) == [(start - 9 * DAY, since), (since, None)]


def test_what_is_said_of_the_end_stands(desk: Desk) -> None:
    """Neither a given valid_to nor a valid_from after the new one's is contradicted; what lies ahead ends nothing."""
    start = desk.clock.time
    ended = desk.create("v1", valid_to=start - DAY).memory
    assert spans(*supersede(desk, ended, "v2")) == [(None, start - DAY), (start - DAY, None)]

    late = desk.create("v3", valid_from=start).memory
    assert spans(*supersede(desk, late, "v4", valid_from=start - DAY)) == [(start, None), (start - DAY, None)]

    party = desk.create("v5").memory
    old, new = supersede(desk, party, "v6", event_time=desk.clock.time + 9 * DAY)
    assert spans(old, new) == [(None, desk.clock.time), (desk.clock.time, None)]


def test_purge_of_the_new_memory_gives_its_time_back(desk: Desk) -> None:
    """What was true until the new one was is true again without it."""
    old, new = supersede(desk, desk.create("v1").memory, "v2")
    last, _ = supersede(desk, new, "v3")[::-1]
    desk.writing.revise.delete(ADA, new.id, hard=True, expected_revision=0, options=PLAIN)
    assert spans(stored(desk, old), stored(desk, last)) == [(None, last.valid_from), (last.valid_from, None)]

    desk.writing.revise.delete(ADA, last.id, hard=True, expected_revision=0, options=PLAIN)
    back = desk.writing.revise.restore(ADA, old.id, expected_revision=0, options=PLAIN).memory
    assert (back.status, back.valid_to) == (Status.ACTIVE, None)


@pytest.mark.parametrize("older", [{"valid_to": -1}, {"valid_from": 1}, {}], ids=str)
@pytest.mark.parametrize("newer", [{"valid_to": -1}, {"valid_from": 1}, {}], ids=str)
@pytest.mark.parametrize(
    "texts", [("Anna lives in Lisbon.", "Anna moved to Porto."), ("小王住在北京。", "小王搬到了上海。")]
)
def test_only_what_is_true_at_present_contradicts(
    desk: Desk, texts: tuple[str, str], older: dict[str, int], newer: dict[str, int]
) -> None:
    """What was so once, or will be, may well be otherwise."""
    times: list[dict[str, Any]] = [
        {name: desk.clock.time + days * DAY for name, days in given.items()} for given in (older, newer)
    ]
    desk.create(texts[0], **times[0])
    written = desk.create(texts[1], **times[1])

    assert bool(written.conflicts) is not bool(older or newer)


def test_conflict_ends_with_what_was_true(desk: Desk) -> None:
    """An older memory that is said to have been true until yesterday is in nobody's way."""
    older = desk.create("Anna lives in Lisbon.").memory
    [told] = desk.create("Anna moved to Porto.").conflicts
    desk.writing.revise.update(
        ADA, memory_id=older.id, key="", patch=Patch({"valid_to": desk.clock.time - DAY}), expected_revision=0,
        options=PLAIN,
    )  # fmt: skip

    [(_, page)] = [(one, one.conflict) for one in _all(desk)]
    assert (page.id, page.state) == (told.conflict.id, ConflictState.CLOSED)
    assert stored(desk, older).status is Status.ACTIVE


def _all(desk: Desk) -> list[Any]:
    found, _ = desk.writing.resolve.page(ADA, states=tuple(ConflictState), memory_id="", before="", limit=50)
    return found
