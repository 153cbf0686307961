"""Which memories get a reminder out of their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.memory import Kind, Layer, Origin
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft
from memsvc.engine.records.memory_builder import MemoryBuilder, ReminderDetector
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.testing.factories import NOW
from tests.unit.engine.memories.write_path import open_desk

SAID = "Mom's birthday is March 5."


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": Kind.MESSAGE}, {"kind": Kind.MESSAGE, "speaker": "Anna"}, {"kind": Kind.DOCUMENT}, {"kind": Kind.KNOWLEDGE},
        {"kind": Kind.OPINION}, {"kind": Kind.SKILL}, {"kind": Kind.SUMMARY}, {"layer": Layer.SESSION},
        {"origin": Origin.TOOL}, {"origin": Origin.DOCUMENT},
    ],
    ids=str,
)  # fmt: skip
def test_not_every_memory_is_looked_at(fields: dict[str, Any]) -> None:
    """Not what was merely said, holds for everybody, is private, or comes from a tool or a document."""
    scope = Scope("ada", session_id="s")
    memory_builder = MemoryBuilder(model="m", dimension=1, now=lambda: NOW, search_priority=SearchPriority())

    assert memory_builder.prepare(scope, Draft(SAID)).record.memory.reminder is not None
    assert memory_builder.prepare(scope, Draft(SAID, speaker="Anna")).record.memory.reminder is not None
    assert memory_builder.prepare(scope, Draft(SAID, **fields)).record.memory.reminder is None


def test_looking_can_be_turned_off() -> None:
    """By the settings."""
    memory_builder = MemoryBuilder(
        model="m",
        dimension=1,
        now=lambda: NOW,
        reminder_detector=ReminderDetector(is_on=False),
        search_priority=SearchPriority(),
    )

    assert memory_builder.prepare(Scope("ada"), Draft(SAID)).record.memory.reminder is None


def test_a_draft_under_a_key_brings_its_reminder(tmp_path: Path) -> None:
    """The memory under the key has the reminder of what it says now, and keeps its own when the words stay."""
    with open_desk(tmp_path) as desk:
        first = desk.create(SAID, key="k").memory
        again = desk.create(SAID, key="k", title="T").memory
        assert first.reminder is not None
        assert again.reminder == first.reminder
        moved = desk.create("Mom's birthday is May 6.", key="k").memory.reminder
        assert moved is not None
        assert (moved.month, moved.day) == (5, 6)
        assert desk.create("Mom lives in Rome.", key="k").memory.reminder is None
