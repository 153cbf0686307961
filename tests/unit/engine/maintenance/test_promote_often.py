"""What is read often is kept for good."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.maintenance import MaintenancePlan, MaintenanceReason, StepTally, UpkeepProgress, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, OnDuplicate, WriteOptions
from tests.unit.engine.maintenance.engine_fixture import ADA, House

PROMOTE = UpkeepStep.PROMOTE
SHORT: dict[str, Any] = {"layer": Layer.SHORT_TERM}


def tally(end: UpkeepProgress) -> StepTally:
    """Return how far promoting came."""
    return end.tallies[PROMOTE]


def test_what_was_read_five_times_becomes_long_term(house: House) -> None:
    """As PromoteMemory does it: a new memory that does not expire, with the key; the source is archived and linked."""
    often, seldom = house.create("The otter sleeps.", key="otter", **SHORT), house.create("水獭在睡觉。", **SHORT)
    house.read(often, 5)
    house.read(seldom, 4)

    changes, _ = house.run(PROMOTE)

    source = house.now(often)
    new = house.all_of(ADA, *source.related_ids)[source.related_ids[0]]
    assert [(one.memory_id, one.reason) for one in changes] == [(often.id, MaintenanceReason.READ_OFTEN)]
    assert (source.status, source.key) == (Status.ARCHIVED, "")
    assert (new.layer, new.content, new.key, new.expire_time) == (Layer.LONG_TERM, often.content, "otter", None)
    assert (new.derived_from_ids, new.access_count) == ((often.id,), 5)
    assert house.now(seldom).layer is Layer.SHORT_TERM
    assert house.differences() == []
    assert house.run(PROMOTE)[0] == []


def test_a_given_vector_goes_along(house: House) -> None:
    """A promotion as it stands needs no embedding anew."""
    vector = [1.0] + [0.0] * (house.application.dimension - 1)
    note = house.create("The otter sleeps.", vector=vector, **SHORT)
    house.read(note, 5)
    house.run(PROMOTE)
    [new] = house.all_of(ADA, *house.now(note).related_ids).values()
    house.settle()

    query = replace(SearchQuery(scope=ADA, vector=vector), mode=Mode.SEMANTIC)
    hits = house.application.search.search(query, Deadline()).hits
    assert {hit.memory.id for hit in hits} == {note.id, new.id}
    assert len({hit.score for hit in hits}) == 1


def test_reads_within_an_hour_count_once(house: House) -> None:
    """So a program that reads in a loop keeps nothing for good."""
    note = house.create("The otter sleeps.", **SHORT)
    for _ in range(20):
        house.application.memory_reader.get(ADA, note.id)
    house.clock.advance(hours=1)
    house.read(note, 3)

    assert house.run(PROMOTE)[0] == []
    house.read(note)
    assert len(house.run(PROMOTE)[0]) == 1


def test_some_memories_are_left_as_they_are(house: House) -> None:
    """Work in progress, messages, what has expired, and what is in the core or long-term anyway."""
    kinds: tuple[dict[str, Any], ...] = (
        {"work_in_progress": True},
        {"kind": Kind.MESSAGE},
        {"ttl": timedelta(hours=12)},
        {"layer": Layer.CORE},
        {"layer": Layer.LONG_TERM},
    )
    for number, fields in enumerate(kinds):
        house.read(house.create(f"Number {number}.", **SHORT | fields), 12)

    assert house.run(PROMOTE)[0] == []


def twin_of(house: House, memory: Memory, **fields: Any) -> Memory:
    """Store a second memory that says the same, read as often; the first one keeps the claim on the content."""
    draft = Draft(memory.content, **SHORT | fields)
    twin = house.application.memory_creator.create(
        memory.scope, draft, WriteOptions(on_duplicate=OnDuplicate.KEEP_BOTH)
    )
    house.read(twin.memory, 5)
    return twin.memory


def test_what_another_memory_says_is_not_due(house: House) -> None:
    """It stays, no run lists or counts it, and the others are promoted all the same."""
    first, second = house.create("One.", **SHORT), house.create("Two.", **SHORT)
    house.read(first, 5)
    house.read(second, 5)
    twin = twin_of(house, first)

    foretold, _ = house.run(PROMOTE, doing=MaintenancePlan.DRY_RUN)
    changes, end = house.run(PROMOTE)

    assert [one.memory_id for one in foretold] == [one.memory_id for one in changes] == [first.id, second.id]
    assert (tally(end).due, tally(end).changed, tally(end).skipped, tally(end).is_complete) == (2, 2, 0, True)
    assert house.now(twin).status is Status.ACTIVE
    assert house.run(PROMOTE, doing=MaintenancePlan.DRY_RUN)[0] == []


def test_what_stands_beside_a_promoted_memory_is_not_due(house: House) -> None:
    """No run finds it again and again."""
    note = house.create("The otter sleeps.", **SHORT)
    house.read(note, 5)
    house.run(PROMOTE)
    twin_of(house, note)

    for doing in (MaintenancePlan.DRY_RUN, MaintenancePlan.PERFORM, MaintenancePlan.PERFORM):
        changes, end = house.run(PROMOTE, doing=doing)
        assert (changes, tally(end).due, tally(end).skipped, tally(end).is_complete) == ([], 0, 0, True)


@pytest.mark.parametrize("part", [1, 200])
def test_of_several_that_none_claims_one_is_due(house: House, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dry run knows that the first one will have the claim, also when it was in an earlier part."""
    monkeypatch.setattr("memsvc.engine.maintenance.runner.PART", part)
    holder = house.create("水獭在睡觉。", layer=Layer.LONG_TERM)
    twins = [twin_of(house, holder), twin_of(house, holder)]
    house.application.memory_updater.delete(ADA, holder.id, hard=False, expected_revision=0, options=WriteOptions())

    foretold, _ = house.run(PROMOTE, doing=MaintenancePlan.DRY_RUN)
    changes, end = house.run(PROMOTE)

    assert [one.memory_id for one in foretold] == [one.memory_id for one in changes] == [twins[0].id]
    assert (tally(end).due, tally(end).skipped, tally(end).is_complete) == (1, 0, True)
    assert house.now(twins[1]).status is Status.ACTIVE


@pytest.mark.parametrize("is_work", [False, True])
def test_what_ends_in_the_same_run_is_in_nobodys_way(house: House, is_work: bool) -> None:  # noqa: FBT001 - a case
    """The step before puts it away, or finishes it; a dry run foresees that."""
    ending = house.create("The otter sleeps.", ttl=timedelta(hours=12), work_in_progress=is_work, **SHORT)
    twin = twin_of(house, ending)
    house.clock.advance(days=1)

    foretold, _ = house.run(UpkeepStep.EXPIRE, PROMOTE, doing=MaintenancePlan.DRY_RUN)
    changes, end = house.run(UpkeepStep.EXPIRE, PROMOTE)

    assert [one.memory_id for one in foretold] == [one.memory_id for one in changes] == [ending.id, twin.id]
    assert tally(end).skipped == 0


def test_a_promotion_is_undone_by_a_restore(house: House) -> None:
    """The source is in use again, beside what was made of it."""
    note = house.create("The otter sleeps.", **SHORT)
    house.read(note, 5)
    house.run(PROMOTE)
    new = house.all_of(ADA, *house.now(note).related_ids)
    for memory in new.values():
        house.application.memory_updater.delete(ADA, memory.id, hard=False, expected_revision=0, options=WriteOptions())

    assert house.restore(note).status is Status.ACTIVE
    assert (house.found("otter"), house.differences()) == ([note.id], [])
