"""What is read often is kept for good."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.drafts import Draft, OnDuplicate, WriteOptions
from memsvc.domain.memory import Kind, Layer, Status
from memsvc.domain.query import Mode, SearchQuery
from memsvc.domain.upkeep import Reason, UpkeepStep
from tests.unit.engine.upkeep.house import ADA, House

PROMOTE = UpkeepStep.PROMOTE
SHORT: dict[str, Any] = {"layer": Layer.SHORT_TERM}


def test_what_was_read_five_times_becomes_long_term(house: House) -> None:
    """As PromoteMemory does it: a new memory that does not expire, with the key; the source is archived and linked."""
    often, seldom = house.create("The otter sleeps.", key="otter", **SHORT), house.create("水獭在睡觉。", **SHORT)
    house.read(often, 5)
    house.read(seldom, 4)

    changes, _ = house.run(PROMOTE)

    source = house.now(often)
    new = house.all_of(ADA, *source.related_ids)[source.related_ids[0]]
    assert [(one.memory_id, one.reason) for one in changes] == [(often.id, Reason.READ_OFTEN)]
    assert (source.status, source.key) == (Status.ARCHIVED, "")
    assert (new.layer, new.content, new.key, new.expire_time) == (Layer.LONG_TERM, often.content, "otter", None)
    assert (new.derived_from, new.access_count) == ((often.id,), 5)
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
    hits = house.application.recall.search(query, Deadline()).hits
    assert {hit.memory.id for hit in hits} == {note.id, new.id}
    assert len({hit.score for hit in hits}) == 1


def test_reads_within_an_hour_count_once(house: House) -> None:
    """So a program that reads in a loop keeps nothing for good."""
    note = house.create("The otter sleeps.", **SHORT)
    for _ in range(20):
        house.application.recollect.get(ADA, note.id)
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


def test_what_cannot_be_promoted_is_skipped(house: House) -> None:
    """What is trusted too little by now, and the others are promoted all the same."""
    first, second = house.create("One.", **SHORT), house.create("Two.", **SHORT)
    house.read(first, 5)
    house.read(second, 5)
    twin = house.application.remember.create(
        ADA, Draft("One.", **SHORT), WriteOptions(on_duplicate=OnDuplicate.KEEP_BOTH)
    ).memory
    house.read(twin, 5)

    changes, end = house.run(PROMOTE)

    assert [one.memory_id for one in changes] == [first.id, second.id]
    tally = end.tallies[PROMOTE]
    assert (tally.due, tally.changed, tally.skipped, tally.is_complete) == (3, 2, 1, True)
    assert house.now(twin).status is Status.ACTIVE


def test_a_promotion_is_undone_by_a_restore(house: House) -> None:
    """The source is in use again, beside what was made of it."""
    note = house.create("The otter sleeps.", **SHORT)
    house.read(note, 5)
    house.run(PROMOTE)
    new = house.all_of(ADA, *house.now(note).related_ids)
    for memory in new.values():
        house.application.revise.delete(ADA, memory.id, hard=False, expected_revision=0, options=WriteOptions())

    assert house.restore(note).status is Status.ACTIVE
    assert (house.found("otter"), house.differences()) == ([note.id], [])
