"""What is loaded at a start: lists, order, and a cache that every write is seen through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.context import REMINDER_SPAN, CoreContext
from memsvc.domain.memory import Kind, Layer, Memory, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.services import Services

ADA, WEB = Scope("ada"), Scope("ada", "web")


def remember(application: Services, scope: Scope, content: str, **fields: Any) -> Memory:
    """Store a memory."""
    return application.memory_creator.create(scope, Draft(content, **fields), WriteOptions()).memory


def contents(essentials: CoreContext) -> list[list[str]]:
    """Return the contents of the lists."""
    lists = (essentials.core, essentials.active, essentials.preferences, essentials.reminders)
    return [[memory.content for memory in part] for part in lists]


def test_each_memory_is_in_the_first_list_it_fits(application: Services) -> None:
    """The most important first, equals in the order of writing; private and expired ones are not there."""
    now = datetime.now(UTC)
    remember(application, ADA, "b", layer=Layer.CORE, kind=Kind.PREFERENCE)
    remember(application, WEB, "a", tier=Tier.CORE, importance=5)
    remember(application, ADA, "c", tier=Tier.ACTIVE, kind=Kind.PREFERENCE)
    remember(application, WEB, "d", kind=Kind.PREFERENCE)
    remember(application, WEB, "e", kind=Kind.TASK, event_time=now + timedelta(hours=3))
    remember(application, ADA, "f", tags=("提醒",), event_time=now - timedelta(hours=3))
    remember(application, ADA, "far", kind=Kind.TASK, event_time=now + timedelta(days=3))
    remember(application, ADA, "old", layer=Layer.CORE, expire_time=now - timedelta(seconds=1))
    remember(application, Scope("ada", "other"), "other", layer=Layer.CORE)
    remember(application, Scope("ada", session_id="s"), "mine", layer=Layer.SESSION, tier=Tier.CORE)
    remember(application, ADA, "plain")

    assert contents(application.core_memories.load(WEB, limit=50)) == [["a", "b"], ["c"], ["d"], ["f", "e"]]
    assert contents(application.core_memories.load(ADA, limit=50)) == [["b"], ["c"], [], ["f"]]
    assert application.core_memories.load(WEB, limit=1).is_incomplete
    assert contents(application.core_memories.load(WEB, limit=1))[0] == ["a"]


@pytest.mark.parametrize("hard", [False, True])
def test_every_write_is_seen_at_once(application: Services, *, hard: bool) -> None:
    """A new memory, a changed one, one that is gone; writes of others leave what is kept as it is."""
    core = application.core_memories
    assert contents(core.load(WEB, limit=9))[0] == []

    made = remember(application, WEB, "a", layer=Layer.CORE)
    assert contents(core.load(WEB, limit=9))[0] == ["a"]
    remember(application, ADA, "b", layer=Layer.CORE)
    assert contents(core.load(WEB, limit=9))[0] == ["a", "b"]
    kept = core._entries[WEB.owner, "web"]
    remember(application, Scope("bob", "web"), "c", layer=Layer.CORE)
    assert contents(core.load(WEB, limit=9))[0] == ["a", "b"]
    assert core._entries[WEB.owner, "web"] is kept
    application.memory_updater.delete(WEB, made.id, hard=hard, expected_revision=0, options=WriteOptions())
    assert contents(core.load(WEB, limit=9))[0] == ["b"]
    remember(application, ADA, "d", layer=Layer.CORE)
    assert contents(core.load(ADA, limit=9))[0] == ["b", "d"]


def test_many_changes_are_not_looked_through(application: Services) -> None:
    """What is kept is read anew, and right."""
    core = application.core_memories
    core.load(ADA, limit=9)
    for number in range(300):
        remember(application, Scope("bob"), f"{number}")
    remember(application, ADA, "a", layer=Layer.CORE)

    assert contents(core.load(ADA, limit=9))[0] == ["a"]


def test_what_has_ended_takes_no_place(application: Services) -> None:
    """However many core memories, tasks and notes have ended or lie far off: what holds now is loaded."""
    now = datetime.now(UTC)
    for number in range(105):
        remember(application, ADA, f"Ended {number}.", layer=Layer.CORE, importance=5, valid_to=now - timedelta(days=1))
        remember(application, ADA, f"Task {number}.", kind=Kind.TASK, event_time=now - timedelta(hours=30))
    remember(application, ADA, "a", layer=Layer.CORE, tier=Tier.ARCHIVED)
    remember(application, ADA, "b", layer=Layer.CORE, importance=3)
    remember(application, ADA, "牙医", kind=Kind.TASK, event_time=now + timedelta(hours=2))

    loaded = application.core_memories.load(ADA, limit=50)

    assert contents(loaded) == [["b"], [], [], ["牙医"]]
    assert not loaded.is_incomplete


def test_what_is_kept_ends_and_begins_in_time(application: Services) -> None:
    """Nobody writes, and still each memory is loaded from the moment it begins to hold until it ends."""
    clock = [datetime.now(UTC) + timedelta(minutes=1)]
    core = CoreMemoryCache(
        application.core_memories._reads, application.core_memories._feed, lambda: clock[0], application.reminders
    )
    begin, end = (clock[0] + timedelta(seconds=seconds) for seconds in (10, 20))
    remember(application, ADA, "a", layer=Layer.CORE, valid_to=end)
    remember(application, ADA, "b", layer=Layer.CORE, valid_from=begin)
    remember(application, ADA, "c", kind=Kind.TASK, event_time=end, valid_from=begin)
    remember(application, ADA, "d", kind=Kind.TASK, event_time=begin + REMINDER_SPAN)
    remember(application, ADA, "e", kind=Kind.TASK, event_time=end - REMINDER_SPAN)
    assert contents(core.load(ADA, limit=9)) == [["a"], [], [], ["e"]]

    seen = []
    for clock[0] in (begin - timedelta(microseconds=1), begin, end, end + timedelta(microseconds=1)):
        loaded = contents(core.load(ADA, limit=9))
        seen.append((loaded[0], loaded[3]))

    assert seen == [
        (["a"], ["e"]),
        (["a", "b"], ["e", "c", "d"]),
        (["b"], ["e", "c", "d"]),
        (["b"], ["c", "d"]),
    ]
