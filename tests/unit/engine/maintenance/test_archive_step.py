"""What was not read for long, or takes too much room, is put away."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.maintenance import MaintenancePlan, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Scope
from tests.unit.engine.maintenance.engine_fixture import ADA, BOB, House, open_house

ARCHIVE = UpkeepStep.ARCHIVE


def archived(house: House, *memories: Memory) -> list[bool]:
    """Return which of the memories are archived."""
    return [house.now(memory).status is Status.ARCHIVED for memory in memories]


def test_what_was_not_read_for_ninety_days_is_archived(house: House) -> None:
    """Never read, or long ago; not what was read or changed since, nor the core, nor what is not long-term."""
    never, read, fresh, changed = (house.create(f"Number {number}.") for number in range(4))
    core = house.create("Always.", tier=Tier.CORE), house.create("And ever.", layer=Layer.CORE)
    house.read(read)
    house.clock.advance(days=1)
    house.read(fresh)
    house.update(changed, title="T")
    house.clock.advance(days=89, minutes=-30)

    changes, _ = house.run(ARCHIVE)

    assert [(one.memory_id, one.reason) for one in changes] == [
        (one.id, MaintenanceReason.UNREAD) for one in (never, read)
    ]
    assert archived(house, never, read, fresh, changed, *core) == [True, True, False, False, False, False]
    assert (house.now(never).content, house.now(never).tier) == (never.content, never.tier)
    assert house.differences() == []


def test_what_is_important_is_not_archived_unread(house: House) -> None:
    """A fact that matters is found after a year, too."""
    plain, important, vital = (house.create(f"Number {number}.", importance=number) for number in (3, 4, 5))
    house.clock.advance(days=400)

    assert [plain.id] == [one.memory_id for one in house.run(ARCHIVE)[0]]
    assert archived(house, plain, important, vital) == [True, False, False]
    assert sorted(house.listed()) == sorted([important.id, vital.id])


def test_how_important_is_a_setting(tmp_path: Path) -> None:
    """With the highest importance everything that is not read is archived; a limit archives the important, too."""
    with open_house(tmp_path / "all", archive_max_importance=5) as house:
        vital = house.create("v" * 10, importance=5)
        house.clock.advance(days=91)
        assert [vital.id] == [one.memory_id for one in house.run(ARCHIVE)[0]]
    with open_house(tmp_path / "limit", archive_max_importance=1, storage_limit_bytes=10) as house:
        plain, vital = house.create("p" * 10, importance=2), house.create("v" * 10, importance=5)
        house.clock.advance(days=91)
        assert [(plain.id, MaintenanceReason.OVER_LIMIT)] == [
            (one.memory_id, one.reason) for one in house.run(ARCHIVE)[0]
        ]
        assert archived(house, plain, vital) == [True, False]


@pytest.mark.parametrize("way", ["restore", "update"])
def test_archiving_can_be_undone(house: House, way: str) -> None:
    """The memory is in lists and searches again, and stays there for another ninety days."""
    otter = house.create("The otter sleeps.", key="otter", tier=Tier.ACTIVE)
    house.clock.advance(days=91)
    house.run(ARCHIVE)
    assert (archived(house, otter), house.listed(), house.found("otter")) == ([True], [], [])

    back = house.restore(otter) if way == "restore" else house.update(otter, status=Status.ACTIVE)

    assert (back.status, back.tier, back.key, back.content) == (Status.ACTIVE, Tier.ACTIVE, "otter", otter.content)
    assert (house.listed(), house.found("otter"), house.differences()) == ([otter.id], [otter.id], [])
    house.clock.advance(days=80)
    assert house.run(ARCHIVE)[0] == []


def test_what_was_not_valid_could_not_be_read(house: House) -> None:
    """Before valid_from nothing finds a memory: the ninety days begin then."""
    begins = house.clock() + timedelta(days=120)
    later = house.create("The rent is 1200.", valid_from=begins)
    since = house.create("The rent is 900.", valid_from=house.clock() - timedelta(days=9))

    house.clock.advance(days=91)
    assert [since.id] == [one.memory_id for one in house.run(ARCHIVE)[0]]
    house.clock.advance(days=110)
    assert ([], [later.id]) == (house.run(ARCHIVE)[0], house.listed())
    house.clock.advance(days=10)
    assert [later.id] == [one.memory_id for one in house.run(ARCHIVE)[0]]


def test_what_is_not_valid_yet_makes_no_room(tmp_path: Path) -> None:
    """It is of use later, whatever its importance."""
    with open_house(tmp_path, storage_limit_bytes=10) as house:
        later = house.create("l" * 10, importance=1, valid_from=house.clock() + timedelta(days=9))
        plain = house.create("p" * 10)
        house.clock.advance(seconds=1)

        assert [plain.id] == [one.memory_id for one in house.run(ARCHIVE)[0]]
        assert archived(house, later, plain) == [False, True]


def test_a_read_just_before_the_run_counts(house: House) -> None:
    """Reads are written down first, so what is in use is not put away."""
    otter = house.create("The otter sleeps.")
    house.clock.advance(days=91)
    house.application.memory_reader.get(ADA, otter.id)

    assert house.run(ARCHIVE)[0] == []


def test_what_goes_beyond_the_limit_is_archived(tmp_path: Path) -> None:
    """The least important first, of those the least often read, of those the oldest; each user for themselves."""
    with open_house(tmp_path, storage_limit_bytes=20) as house:
        vital = house.create("v" * 10, importance=5)
        plain, used, young = (house.create(letter * 5, importance=2) for letter in "puy")
        core = house.create("c" * 50, importance=1, tier=Tier.CORE)
        others = [house.create(letter * 10, BOB) for letter in "xyz"]
        small = house.create("s" * 20, Scope("eve"))
        house.read(used)

        changes, _ = house.run(ARCHIVE)

        due = [(one.memory_id, one.reason) for one in changes]
        assert due == [(plain.id, MaintenanceReason.OVER_LIMIT), (others[0].id, MaintenanceReason.OVER_LIMIT)]
        assert archived(house, vital, plain, used, young, core, small) == [False, True, False, False, False, False]
        assert house.run(ARCHIVE)[0] == []

        house.create("w" * 5)
        house.clock.advance(days=1)
        assert [one.memory_id for one in house.run(ARCHIVE, area=MaintenanceScope.of(BOB))[0]] == []
        assert [one.memory_id for one in house.run(ARCHIVE, area=MaintenanceScope.of(ADA))[0]] == [young.id]


def test_what_is_unread_makes_room_first(tmp_path: Path) -> None:
    """It does not count against the limit, and no more is put away than need be; a dry run says the very same."""
    with open_house(tmp_path, storage_limit_bytes=10) as house:
        old = house.create("o" * 30)
        house.clock.advance(days=91)
        new = house.create("n" * 10)
        house.clock.advance(seconds=1)

        foretold, _ = house.run(ARCHIVE, doing=MaintenancePlan.DRY_RUN)
        changes, _ = house.run(ARCHIVE)

        assert [one.memory_id for one in changes] == [old.id]
        assert foretold == changes
        assert archived(house, old, new) == [True, False]


def test_a_limit_that_takes_many_parts(tmp_path: Path) -> None:
    """Neither too many nor too few are archived when they do not fit one part, for several users, dry or not."""
    with open_house(tmp_path, storage_limit_bytes=1000) as house:
        for user in ("ada", "bob"):
            for number in range(450):
                house.create(f"{number:010}", Scope(user))

        foretold, _ = house.run(ARCHIVE, doing=MaintenancePlan.DRY_RUN)
        changes, end = house.run(ARCHIVE)

        assert foretold == changes
        assert len(changes) == len({one.memory_id for one in changes}) == 700
        assert end.tallies[ARCHIVE].is_complete
        assert house.application.statistics.of(BOB).counts.by_status == {"ACTIVE": 100, "ARCHIVED": 350}


def test_the_days_are_a_setting(tmp_path: Path) -> None:
    """As all thresholds are."""
    with open_house(tmp_path, archive_unread_days=1.0) as house:
        otter = house.create("The otter sleeps.")
        house.clock.advance(hours=25)
        assert timedelta(days=1) < house.clock() - otter.create_time

        assert [one.memory_id for one in house.run(ARCHIVE)[0]] == [otter.id]
