"""Any sequence of writes, and then: what is known as of each moment is what a plain model had at that moment."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsvc.domain.errors import MemoryNotFoundError, MemsvcError
from memsvc.domain.filters import AnyOf, Field, Not
from memsvc.domain.memory import Memory, Status
from memsvc.domain.search import OrderField, Selection
from tests.unit.engine.history.history_fixture import Archive, open_archive
from tests.unit.engine.memories.write_path import ADA

CONTENTS = ("The kettle is blue.", "水壶是蓝色的。", "The kettle is red.", "猫叫小白。")
KEYS = ("", "kettle", "猫")
ACTIONS = ("create", "update", "update", "delete", "restore", "rollback", "rollback", "purge", "checkpoint", "return")
ALIVE = Selection(Not(AnyOf(Field.STATUS, (Status.DELETED.value,))))

steps = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7), st.integers(0, 3))


@dataclass
class Model:
    """What was stored at each moment, kept whole."""

    now: dict[str, Memory] = field(default_factory=dict)
    past: list[tuple[datetime, dict[str, Memory]]] = field(default_factory=list)

    def note(self, moment: datetime) -> None:
        """Remember how everything is, and that what was purged is gone from the past, too."""
        self.past = [(then, {k: v for k, v in state.items() if k in self.now}) for then, state in self.past]
        self.past.append((moment, dict(self.now)))


def plain(memory: Memory) -> Memory:
    """Return a memory without the traces of reading."""
    return replace(memory, access_count=0, access_time=None)


def stored(archive: Archive, ids: list[str]) -> dict[str, Memory]:
    """Return what the store holds now: the truth that the model copies."""
    found = (archive.desk.stored(memory_id) for memory_id in ids)
    return {memory.id: plain(memory) for memory in found if memory is not None}


def step(archive: Archive, ids: list[str], action: str, choice: int, value: int) -> None:
    """Do one thing; what is refused changes nothing."""
    with suppress(MemsvcError):
        if action == "create":
            ids.append(archive.create(CONTENTS[value], key=KEYS[choice % len(KEYS)]).id)
        elif action == "checkpoint":
            archive.name_now(f"c{value}")
        elif action == "return":
            archive.roll_back_to(f"c{value}")
        elif ids:
            memory = archive.desk.stored(ids[choice % len(ids)])
            if memory is None:
                return
            if action == "update":
                archive.update(memory, content=CONTENTS[value], key=KEYS[(choice + value) % len(KEYS)])
            elif action == "rollback":
                archive.rollback(memory, value + 1)
            elif action == "restore":
                archive.restore(memory)
            else:
                archive.delete(memory, hard=action == "purge")


@settings(
    max_examples=8, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(sequence=st.lists(steps, min_size=4, max_size=18))
def test_the_past_is_what_it_was(sequence: list[tuple[str, int, int]]) -> None:
    """By id, by key and as a list in any order, at every moment; a checkpoint brings all of it back but what is purged."""
    with TemporaryDirectory() as directory, open_archive(Path(directory)) as archive:
        model, ids = Model(), list[str]()
        for action, choice, value in sequence:
            step(archive, ids, action, choice, value)
            model.now = stored(archive, ids)
            model.note(archive.now)
            archive.tick()
        for number, (moment, state) in enumerate(model.past):
            alive = {memory.id: memory for memory in state.values() if memory.status is not Status.DELETED}
            for memory_id in ids:
                if memory_id in alive:
                    assert alive[memory_id] == plain(archive.at(memory_id, moment))
                else:
                    with pytest.raises(MemoryNotFoundError):
                        archive.at(memory_id, moment)
            order = list(OrderField)[number % len(OrderField)]
            listed = archive.listed(moment, selection=ALIVE, field=order, descending=number % 2 == 0)
            assert len(listed) == len(alive)
            assert {memory.id: plain(memory) for memory in listed} == alive
        _returns(archive, model)


def _returns(archive: Archive, model: Model) -> None:
    moment, state = model.past[len(model.past) // 2]
    archive.checkpoints.create(scope=ADA, name="middle", note="", known_time=moment, request_id="")
    report = archive.roll_back_to("middle")

    expected = {memory.id: said(memory) for memory in state.values() if memory.status is not Status.DELETED}
    found = archive.listed(archive.now, selection=ALIVE)
    assert {memory.id: said(memory) for memory in found} == expected
    assert not [one for one in archive.differences("middle") if one.kind.value != "PURGED"]
    assert report.undo or not report.counts
    assert all(one.reason.value == "PURGED" for one in report.unreturned)


def said(memory: Memory) -> Memory:
    """Return what a memory says, whichever revision says it."""
    return replace(plain(memory), revision=0, update_time=memory.create_time)
