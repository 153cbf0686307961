"""What is past its time is put away, and work is finished."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.maintenance import MaintenancePlan, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode
from memsvc.domain.write_requests import Draft, WriteOptions
from tests.unit.engine.maintenance.engine_fixture import ADA, BOB, House

EXPIRE = UpkeepStep.EXPIRE


def test_what_is_past_its_time_leaves_the_indexes(house: House) -> None:
    """It is EXPIRED, with all that it says; not what has time left, nor the core."""
    note = house.create("The otter sleeps.", layer=Layer.SHORT_TERM, key="otter", tags=("animal",))
    core = house.create("Say please.", layer=Layer.CORE, ttl=timedelta(days=1))
    lasting = house.create("A heron stands.", tier=Tier.ACTIVE)
    house.settle()
    house.clock.advance(days=14)

    changes, _ = house.run(EXPIRE)

    after = house.now(note)
    assert [(one.memory_id, one.reason) for one in changes] == [(note.id, MaintenanceReason.EXPIRED)]
    assert (after.status, after.content, after.tags) == (Status.EXPIRED, note.content, note.tags)
    assert (after.revision, after.expire_time) == (2, note.expire_time)
    assert (house.now(core), house.now(lasting)) == (core, lasting)
    assert house.differences() == []
    assert house.application.statistics.of(ADA).vector_count == 2
    assert house.run(EXPIRE)[0] == []


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Rewrite the parser.", "(Finished: its time was over on 2026-02-08.)"),
        ("正在重写解析器。", "（已完成：期限为 2026-02-08。）"),
    ],
)
def test_work_whose_time_is_over_is_finished(house: House, said: str, line: str) -> None:
    """Text and tags say so, in its language; it stays in use, is found by its new text, and has 14 days."""
    work = house.create(
        said, layer=Layer.SHORT_TERM, ttl=timedelta(days=2), work_in_progress=True, tags=("WIP", "进行中", "parser")
    )
    house.clock.advance(days=2)

    changes, _ = house.run(EXPIRE)

    after = house.now(work)
    assert [(one.memory_id, one.reason) for one in changes] == [(work.id, MaintenanceReason.FINISHED)]
    assert after.content == f"{said}\n\n{line}"
    assert after.tags == ("parser", "finished")
    assert (after.status, after.work_in_progress, after.revision) == (Status.ACTIVE, False, 2)
    assert after.expire_time == after.update_time + timedelta(days=14)
    assert house.found(said) == [work.id]
    assert house.differences() == []


def test_finished_work_of_another_layer_lasts(house: House) -> None:
    """It no longer expires; a text and a list of tags that are full stay as they are."""
    tags = tuple(f"tag {number}" for number in range(32))
    fields: dict[str, Any] = {"ttl": timedelta(days=2), "work_in_progress": True, "tags": tags}
    work = house.create("x" * 1_000_000, **fields)
    house.clock.advance(days=2)
    house.run(EXPIRE)

    after = house.now(work)
    assert (after.content, after.tags, after.expire_time) == (work.content, tags, None)
    assert (after.status, after.work_in_progress) == (Status.ACTIVE, False)


def test_what_expired_comes_back_by_a_restore(house: House) -> None:
    """With new time, into lists, searches and indexes."""
    note = house.create("The otter sleeps.", layer=Layer.SHORT_TERM)
    house.clock.advance(days=14)
    house.run(EXPIRE)
    assert (house.listed(), house.found("otter", mode=Mode.SEMANTIC)) == ([], [])

    back = house.restore(note)

    assert (back.status, back.expire_time) == (Status.ACTIVE, house.clock() + timedelta(days=14))
    assert (house.listed(), house.found("otter", mode=Mode.SEMANTIC)) == ([note.id], [note.id])
    assert (house.run()[0], house.differences()) == ([], [])


@pytest.mark.parametrize("layer", [Layer.SHORT_TERM, Layer.LONG_TERM])
def test_what_is_written_under_the_key_of_an_expired_memory_counts_anew(house: House, layer: Layer) -> None:
    """It is in use again, and is not put away the next moment; likewise by an update, and by an append."""
    made = house.create("One.", key="k", layer=layer, ttl=timedelta(days=1))
    append = house.application.memory_appender.append
    ways: tuple[Callable[[], Memory], ...] = (
        lambda: house.create("Two.", key="k"),
        lambda: house.update(made, status=Status.ACTIVE),
        lambda: append(ADA, "k", "Three.", separator=None, options=WriteOptions()).memory,
    )
    for way in ways:
        house.clock.advance(days=15)
        house.update(made, expire_time=house.clock() - timedelta(days=1))
        house.run()
        assert house.now(made).status is Status.EXPIRED

        again = way()

        assert (again.id, again.status) == (made.id, Status.ACTIVE)
        expected = house.now(again).update_time + timedelta(days=14) if layer is Layer.SHORT_TERM else None
        assert again.expire_time == expected
        assert house.run()[0] == []


def test_only_the_area_is_looked_after(house: House) -> None:
    """One user's project, or all of a user's."""
    fields: dict[str, Any] = {"expire_time": house.clock()}
    here, there, others = (
        house.create("x", **fields), house.create("y", BOB, **fields), house.create("z", Scope("ada", "web"), **fields)
    )  # fmt: skip

    assert [one.memory_id for one in house.run(area=MaintenanceScope.of(ADA))[0]] == [here.id]
    assert [one.memory_id for one in house.run(area=MaintenanceScope.of(Scope("ada")))[0]] == [others.id]
    assert [one.memory_id for one in house.run()[0]] == [there.id]


def test_expiry_settles_conflicts(house: House) -> None:
    """What a memory that has expired contradicted is in use again."""
    older = house.create("Anna lives in Lisbon.")
    newer = house.create("Anna lives in Porto.", ttl=timedelta(days=1))
    assert house.now(older).status is Status.CONFLICTED
    house.clock.advance(days=1)

    house.run(EXPIRE)

    assert (house.now(newer).status, house.now(older).status) == (Status.EXPIRED, Status.ACTIVE)


@pytest.mark.parametrize("finished", ["older", "newer", "both", "none"])
def test_both_sides_of_a_conflict_that_are_over_at_once(house: House, finished: str) -> None:
    """Each is expired or finished, in one run, whatever the other's end does to it."""
    older = house.create("Anna lives in Lisbon.", ttl=timedelta(days=2), work_in_progress=finished in {"older", "both"})
    newer = house.create("Anna lives in Porto.", ttl=timedelta(days=1), work_in_progress=finished in {"newer", "both"})
    assert house.now(older).status is Status.CONFLICTED
    house.clock.advance(days=3)
    foretold, _ = house.run(EXPIRE, doing=MaintenancePlan.DRY_RUN)

    changes, _ = house.run(EXPIRE)

    assert [one.memory_id for one in changes] == [newer.id, older.id]
    assert foretold == changes
    expected = {"older": ("ACTIVE", "EXPIRED"), "newer": ("EXPIRED", "ACTIVE"), "none": ("EXPIRED", "EXPIRED")}
    states = (house.now(older), house.now(newer))
    assert tuple(one.status for one in states) == expected.get(finished, ("CONFLICTED", "ACTIVE"))
    assert [one.work_in_progress for one in states] == [False, False]
    assert house.run(EXPIRE)[0] == []
    assert house.differences() == []


def test_a_draft_with_a_past_expiry_is_kept_as_asked(house: House) -> None:
    """A caller may say that something was over before: it is put away, and writing it again changes nothing."""
    past = house.clock() - timedelta(days=1)
    made = house.create("One.", key="k", expire_time=past)
    again = house.application.memory_creator.create(
        ADA, Draft("One.", key="k", expire_time=past), WriteOptions()
    ).memory

    assert (again.revision, again.expire_time) == (1, past)
    assert [one.memory_id for one in house.run()[0]] == [made.id]
