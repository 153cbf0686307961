"""Whatever is done to memories, in whatever order: nothing is lost, links hold both ways, indexes equal the store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsvc.domain.errors import MemsvcError
from memsvc.domain.maintenance import EVERYBODY, MaintenancePlan, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.write_requests import WriteOptions
from tests.unit.engine.maintenance.engine_fixture import ADA, House, open_house

CONTENTS = ("Anna lives in Lisbon.", "Anna lives in Porto.", "水壶是蓝色的。", "The kettle is blue.", "猫叫小白。")
KEYS = ("", "", "kettle", "猫")
ACTIONS = ("note", "work", "fact", "read", "archive", "restore", "update", "maintain", "maintain", "one step", "wait")

steps = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9), st.integers(0, 4))


class History:
    """What was ever written, by id, and what it said."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.said: dict[str, str] = {}

    def note(self, memory: Memory) -> None:
        """Remember a memory that was written."""
        if memory.id not in self.said:
            self.ids.append(memory.id)
        self.said[memory.id] = memory.content


def step(house: House, history: History, action: str, choice: int, value: int) -> None:
    """Do one thing; what is refused changes nothing."""
    content, key = CONTENTS[value % len(CONTENTS)], KEYS[choice % len(KEYS)]
    short: dict[str, Any] = {"layer": Layer.SHORT_TERM, "key": key}
    with suppress(MemsvcError):
        if action == "note":
            history.note(house.create(content, **short))
        elif action == "work":
            history.note(house.create(f"{content} {choice}", **short, work_in_progress=True))
        elif action == "fact":
            history.note(house.create(content, key=key))
        elif action == "wait":
            house.clock.advance(days=(1, 13, 15, 60, 91)[value])
        elif action == "maintain":
            _maintained(house)
        elif action == "one step":
            house.run(list(UpkeepStep)[choice % 3], area=MaintenanceScope.of(ADA))
        elif history.ids:
            _touch(
                house, history, house.all_of(ADA, history.ids[choice % len(history.ids)]).popitem()[1], action, value
            )


def _touch(house: House, history: History, memory: Memory, action: str, value: int) -> None:
    if action == "read":
        house.read(memory, 1 + value * 2)
    elif action == "archive":
        house.application.memory_archiver.archive(ADA, memory.id, expected_revision=0, options=WriteOptions())
    elif action == "restore":
        house.restore(memory)
    else:
        history.note(house.update(memory, content=CONTENTS[value]))


def _maintained(house: House) -> None:
    """Run all steps; a dry run just before says the very same. What is merged depends on what the others put away."""
    *others, last = UpkeepStep
    for kinds in (others, [last]):
        foretold = list(house.application.maintenance.run(EVERYBODY, kinds, MaintenancePlan.DRY_RUN))
        changes, end = house.run(*kinds)

        skipped = sum(tally.skipped for tally in end.tallies.values())
        expected = [change for progress in foretold for change in progress.changes]
        assert expected == changes
        assert skipped == 0


def check(house: House, history: History) -> None:
    """Hold the store against what was done, and the indexes against the store."""
    stored = house.all_of(ADA, *history.ids)
    assert stored.keys() == history.said.keys()
    for memory in stored.values():
        said = history.said[memory.id]
        assert memory.content == said or (memory.content.startswith(said) and "finished" in memory.tags)
        assert memory.status is not Status.DELETED
        made = house.all_of(ADA, *memory.related_ids)
        assert made.keys() == set(memory.related_ids)
        # A write under its key gives a promoted memory another content, and with it another origin.
        linked = (memory.id in one.derived_from_ids or one.revision > 1 for one in made.values())
        assert any(linked) or not made
    assert house.differences() == []


@settings(
    max_examples=8, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(sequence=st.lists(steps, min_size=5, max_size=20))
def test_upkeep_loses_nothing(sequence: list[tuple[str, int, int]]) -> None:
    """Every memory ever written is there, and says what was written last, or that it is finished."""
    with TemporaryDirectory() as directory, open_house(Path(directory)) as house:
        history = History()
        for action, choice, value in sequence:
            step(house, history, action, choice, value)
        check(house, history)
        _maintained(house)
        check(house, history)
