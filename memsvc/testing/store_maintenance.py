"""A store finds what upkeep is due, keeps expired memories from the indexes, and gives a lease to one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from memsvc.domain.maintenance import EVERYBODY, MaintenanceScope
from memsvc.domain.memory import Kind, Layer, Memory, Recurrence, Reminder, Status, Tier
from memsvc.domain.scope import Scope
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import LogPlace, MaintenanceCandidate, ScanPosition, UnreadRule, UpkeepReads
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, Clock, StoreSeams, insert, revise

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
TICK = timedelta(microseconds=1)
OLD: dict[str, Any] = {"create_time": NOW - DAY, "update_time": NOW - DAY}
LEFT_ALONE: tuple[dict[str, Any], ...] = (
    {"tier": Tier.CORE},
    *({"status": status} for status in Status if status is not Status.ACTIVE),
)
"""Upkeep is never due of such memories."""
CONFLICTED = {"status": Status.CONFLICTED}
ANY_IMPORTANCE = 5
_numbers = count(1)


def unread(age: timedelta, max_importance: int = ANY_IMPORTANCE) -> UnreadRule:
    """Return the rule of memories unread for *age*."""
    return UnreadRule(NOW - age, max_importance)


Listing = Callable[[UpkeepReads, MaintenanceScope, ScanPosition, int], list[MaintenanceCandidate]]
LISTS: dict[str, tuple[dict[str, Any], Listing]] = {
    "expired": (
        {"expire_time": NOW},
        lambda reads, area, after, limit: reads.expired_memories(area, at=NOW, after=after, limit=limit),
    ),
    "read often": (
        {"layer": Layer.SHORT_TERM, "access_count": 5},
        lambda reads, area, after, limit: reads.frequently_read(area, least=5, at=NOW, after=after, limit=limit),
    ),
    "unread": (
        {"access_time": NOW - 2 * SECOND},
        lambda reads, area, after, limit: reads.unread(area, rule=unread(SECOND), after=after, limit=limit),
    ),
    "never read": (
        {},
        lambda reads, area, after, limit: reads.unread(area, rule=unread(timedelta(0)), after=after, limit=limit),
    ),
    "least useful": (
        {},
        lambda reads, area, after, limit: reads.least_useful(
            area, owner=OWNER, rule=unread(2 * DAY), at=NOW, after=after, limit=limit
        ),
    ),
}
"""Each list, and what a memory is like that is in it."""


def distinct(**fields: Any) -> Memory:
    """Return a memory of yesterday whose content no other has."""
    return factories.memory(**{"content": f"Number {next(_numbers)}."} | OLD | fields)


def rows(listed: list[MaintenanceCandidate]) -> list[int]:
    """Return the rows of a list."""
    return [waiting.row for waiting in listed]


class StoreUpkeepContract(StoreSeams):
    """Upkeep and leases."""

    @pytest.mark.parametrize("name", LISTS)
    def test_a_list_of_upkeep_is_read_part_by_part(self, store: MetadataStore, name: str) -> None:
        """Equal ones in the order of rows; what was read is not read again, also when it stays as it is."""
        fields, listing = LISTS[name]
        written = insert(store, *(distinct(**fields) for _ in range(5)))
        first = listing(store.upkeep, EVERYBODY, (), 2)
        second = listing(store.upkeep, EVERYBODY, first[-1].place, 2)
        third = listing(store.upkeep, EVERYBODY, second[-1].place, 2)

        assert rows(first + second + third) == [memory.row for memory in written]
        assert listing(store.upkeep, EVERYBODY, third[-1].place, 2) == []
        assert listing(store.upkeep, EVERYBODY, (), 0) == []

    @pytest.mark.parametrize("name", LISTS)
    def test_upkeep_leaves_some_memories_alone(self, store: MetadataStore, name: str) -> None:
        """Those of tier or layer CORE, and of every status but ACTIVE, withheld ones among them.

        CONFLICTED memories expire.
        """
        fields, listing = LISTS[name]
        left_alone = [other for other in LEFT_ALONE if name != "expired" or other != CONFLICTED]
        insert(store, *(distinct(**fields | other) for other in (*left_alone, {"layer": Layer.CORE})))
        reminder = Reminder(3, 5, 2026, Recurrence.NONE)
        rest = {"session_id": "s", "agent_id": "a", "reminder": reminder, "valid_from": NOW}
        [due] = insert(store, distinct(**fields, project_id="web", **rest))

        [found] = listing(store.upkeep, EVERYBODY, (), 9)
        assert (found.reminder, found.valid_from) == (reminder, NOW)
        assert (found.row, found.memory_id, found.scope) == (due.row, due.id, due.scope)
        assert (found.work_in_progress, found.content_bytes) == (False, len(due.content))

    @pytest.mark.parametrize("name", LISTS)
    def test_upkeep_keeps_to_its_area(self, store: MetadataStore, name: str) -> None:
        """Those of all owners, an owner's in all projects, or those of one project."""
        fields, listing = LISTS[name]
        made = [
            distinct(**fields, **place)
            for place in ({}, {"project_id": "web"}, {"project_id": "web-2"}, {"user_id": "ada-2"})
        ]
        own, web, _, _ = [memory.row for memory in insert(store, *made)]

        everybody = [own, web, web + 1] if name == "least useful" else [own, web, web + 1, web + 2]
        assert rows(listing(store.upkeep, EVERYBODY, (), 9)) == everybody
        assert rows(listing(store.upkeep, MaintenanceScope(OWNER), (), 9)) == [own, web, web + 1]
        assert rows(listing(store.upkeep, MaintenanceScope(OWNER, "web"), (), 9)) == [web]
        assert rows(listing(store.upkeep, MaintenanceScope(OWNER, "we"), (), 9)) == []

    def test_expired_memories_come_by_their_time(self, store: MetadataStore) -> None:
        """The first to expire first, up to the very moment; finished work is distinguished, CONFLICTED ones are due."""
        late, early, conflicted, work, *_ = insert(
            store,
            distinct(expire_time=NOW),
            distinct(expire_time=NOW - SECOND, layer=Layer.SHORT_TERM),
            distinct(expire_time=NOW, **CONFLICTED),
            distinct(expire_time=NOW, work_in_progress=True, content="进行中"),
            distinct(expire_time=NOW + TICK),
            distinct(expire_time=NOW, tier=Tier.CORE, **CONFLICTED),
            distinct(**CONFLICTED),
            distinct(),
        )

        found = store.upkeep.expired_memories(EVERYBODY, at=NOW, after=(), limit=9)
        assert rows(found) == [early.row, late.row, conflicted.row, work.row]
        assert [(one.work_in_progress, one.content_bytes) for one in found][-1] == (True, 9)

    def test_deleted_memories_come_by_their_time(self, store: MetadataStore) -> None:
        """The first deleted first, of every layer and tier, in parts and within an area; none of that moment."""
        deleted: dict[str, Any] = {"status": Status.DELETED}
        late, early, core, web, *_ = insert(
            store,
            distinct(update_time=NOW - SECOND, **deleted),
            distinct(update_time=NOW - 3 * SECOND, kind=Kind.MESSAGE, **deleted),
            distinct(update_time=NOW - 2 * SECOND, tier=Tier.CORE, layer=Layer.CORE, **deleted),
            distinct(update_time=NOW - SECOND, project_id="web", **deleted),
            distinct(update_time=NOW, **deleted),
            distinct(update_time=NOW - SECOND),
        )

        def found(area: MaintenanceScope, after: ScanPosition = (), limit: int = 9) -> list[MaintenanceCandidate]:
            return store.upkeep.deleted_memories(area, before=NOW, after=after, limit=limit)

        first = found(EVERYBODY, limit=2)
        assert rows(first) == [early.row, core.row]
        assert rows(found(EVERYBODY, first[-1].place)) == [late.row, web.row]
        assert rows(found(MaintenanceScope(OWNER, "web"))) == [web.row]

    def test_what_is_read_often_is_short_term_and_settled(self, store: MetadataStore) -> None:
        """Not what is read less, expires by then, is still worked on, is a message, or was changed just now."""
        fields: dict[str, Any] = {"layer": Layer.SHORT_TERM}
        often, enough, *_ = insert(
            store,
            distinct(**fields, access_count=9, expire_time=NOW + TICK),
            distinct(**fields, access_count=5, update_time=NOW - TICK),
            distinct(**fields, access_count=4),
            distinct(**fields, access_count=5, expire_time=NOW),
            distinct(**fields, access_count=5, work_in_progress=True),
            distinct(**fields, access_count=5, kind=Kind.MESSAGE),
            distinct(**fields | {"update_time": NOW}, access_count=5),
            distinct(access_count=5),
        )

        assert rows(store.upkeep.frequently_read(EVERYBODY, least=5, at=NOW, after=(), limit=9)) == [
            enough.row,
            often.row,
        ]

    def test_unread_memories_come_by_importance_and_last_use(self, store: MetadataStore) -> None:
        """Of equals never read ones first, by age; not what is more important, or was read, made or changed since."""
        rule = unread(10 * DAY, 3)

        def kept(created: int, read: int | None = None, changed: int | None = None, **fields: Any) -> Memory:
            times = {
                "create_time": NOW - created * DAY,
                "update_time": NOW - (created if changed is None else changed) * DAY,
                "access_time": None if read is None else NOW - read * DAY,
            }
            return distinct(**fields | times)

        made = [
            kept(30, 12), kept(40, 20), kept(11), kept(50), kept(50, 20), kept(10), kept(60, 10), kept(60, 10, 10),
            kept(60, changed=3), kept(60, 30, layer=Layer.SHORT_TERM),
            kept(11, importance=1), kept(90, 20, importance=2), kept(90, importance=4), kept(90, 80, importance=5),
        ]  # fmt: skip
        later, read, young, old, longer, *_, least, less, _, _ = [memory.row for memory in insert(store, *made)]

        expected = [least, less, old, young, longer, read, later]
        assert rows(store.upkeep.unread(EVERYBODY, rule=rule, after=(), limit=9)) == expected
        found: list[MaintenanceCandidate] = []
        while part := store.upkeep.unread(EVERYBODY, rule=rule, after=found[-1].place if found else (), limit=1):
            found += part
        assert rows(found) == expected

    def test_owners_who_keep_too_much_are_told(self, store: MetadataStore) -> None:
        """By how many bytes; only what may be archived and is not of this very moment counts."""
        insert(
            store,
            distinct(content="12345"),
            distinct(content="一二", project_id="web"),
            distinct(content="1234567890", user_id="bob"),
            distinct(content="123456789a", update_time=NOW),
            distinct(content="123456789b", layer=Layer.SHORT_TERM),
            *(distinct(**other) for other in LEFT_ALONE),
        )
        bob, used = OWNER.replace("ada", "bob"), unread(2 * DAY)

        def above(area: MaintenanceScope, content_bytes: int, rule: UnreadRule = used) -> dict[str, int]:
            return store.upkeep.above(area, content_bytes=content_bytes, rule=rule, at=NOW)

        assert above(EVERYBODY, 9) == {OWNER: 2, bob: 1}
        assert above(EVERYBODY, 10) == {OWNER: 1}
        assert above(MaintenanceScope(bob), 9) == {bob: 1}
        assert above(MaintenanceScope(OWNER, "web"), 10) == {OWNER: 1}
        assert above(EVERYBODY, 11) == {}
        assert above(EVERYBODY, 9, unread(timedelta(0))) == {}
        assert above(EVERYBODY, 9, unread(timedelta(0), 2)) == {OWNER: 2, bob: 1}

    def test_the_least_useful_come_first(self, store: MetadataStore) -> None:
        """The least important, of those the least often read, of those the oldest; no one else's."""
        made = [
            distinct(importance=5), distinct(importance=1, access_count=2), distinct(importance=1),
            distinct(importance=1), distinct(importance=1, user_id="bob"), distinct(importance=1, update_time=NOW),
            distinct(importance=1, create_time=NOW - 3 * DAY, update_time=NOW - 3 * DAY),
            distinct(importance=4, create_time=NOW - 3 * DAY, update_time=NOW - 3 * DAY),
        ]  # fmt: skip
        vital, used, first, second, *_, important = [memory.row for memory in insert(store, *made)]

        found = store.upkeep.least_useful(EVERYBODY, owner=OWNER, rule=unread(2 * DAY, 3), at=NOW, after=(), limit=9)
        assert rows(found) == [first, second, used, important, vital]

    def test_expired_memories_are_not_for_the_indexes(self, store: MetadataStore) -> None:
        """Their entries go and come back with them; all else of them stays where it was."""
        memory, other = insert(store, factories.memory("put away"), factories.memory("kept"))
        store.feed.mark_applied(store.feed.pending_changes(limit=9))
        with store.transaction() as transaction:
            [expired] = transaction.set_status([memory], Status.EXPIRED)

        assert [change.row for change in store.feed.pending_changes(limit=9)] == [memory.row]
        assert [document.memory for document in store.feed.documents([memory.row, other.row])] == [other]
        assert [document.memory for document in store.feed.scan(after_row=0, limit=9)] == [other]
        assert [one.row for one in store.feed.expected_entries(after_row=0, limit=9)] == [other.row]
        assert store.feed.indexable() == 1
        assert store.memories.get([memory.id], reach=ADA) == {memory.id: expired}

        revise(store, expired, status=Status.ACTIVE)
        assert store.feed.indexable() == 2

    def test_a_lease_is_had_by_one(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """Until it expires or is released; its holder may renew it; leases of other names are independent."""

        def take(name: str, holder: str, minutes: float) -> bool:
            return store.leases.take(name, holder=holder, now=clock(), term=timedelta(minutes=minutes))

        assert take("n", "a", 10)
        assert not take("n", "b", 10)
        assert take("名", "b", 10)
        assert take("n", "a", 20)
        let_pass(timedelta(minutes=15))
        assert not take("n", "b", 60)

        let_pass(timedelta(minutes=5))
        assert take("n", "b", 60)
        let_pass(timedelta(minutes=1))
        assert not take("n", "a", 60)
        store.leases.release("n", holder="a", ended=clock())
        assert not take("n", "a", 60)
        store.leases.release("n", holder="b", ended=None)
        assert take("n", "a", 60)

    def test_the_end_of_work_is_remembered(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """The last one that was finished, independent of the later holder; only a holder can finish one."""
        leases = store.leases
        assert leases.last_end("n") is None
        leases.release("n", holder="a", ended=clock())
        assert leases.last_end("n") is None

        def passed() -> timedelta:
            """Return the time since the end, in whole minutes: a clock of the store's own goes on."""
            end = leases.last_end("n")
            assert end is not None
            return (clock() - end) // timedelta(minutes=1) * timedelta(minutes=1)

        leases.take("n", holder="a", now=clock(), term=timedelta(minutes=1))
        leases.release("n", holder="a", ended=clock())
        let_pass(DAY)
        leases.take("n", holder="b", now=clock(), term=DAY)
        leases.release("n", holder="a", ended=clock())
        assert passed() == DAY
        leases.release("n", holder="b", ended=None)
        assert passed() == DAY

    def test_one_of_many_gets_a_lease(self, store: MetadataStore) -> None:
        """However many ask at the same time."""
        start, taken = threading.Barrier(8), []

        def ask(number: int) -> None:
            start.wait()
            if store.leases.take("n", holder=str(number), now=NOW, term=timedelta(minutes=1)):
                taken.append(number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(taken) == 1


# Daily logs that have grown old are found without looking at the other memories.


_TODAY = "daily/2026-02-06"


class StoreLogsContract(StoreSeams):
    """Old logs of all owners."""

    def test_old_logs_are_the_active_ones_before_a_day(self, store: MetadataStore) -> None:
        """In the order of their days, not those of that day and later, nor other keys, nor archived memories."""
        days = ("daily/2026-02-06", "daily/2026-01-30", "daily/2025-12-31", "daily/2026-02-05")
        logs = insert(store, *(factories.memory(day, key=day) for day in days))
        others = ("daily", "dailz/2025-01-01", "context/A", "")
        insert(store, *(factories.memory(f"Other {key}.", key=key) for key in others))
        put_away = {Status.ARCHIVED: "daily/2024-01-01", Status.EXPIRED: "daily/2024-01-02"}
        insert(store, *(factories.memory(key, key=key, status=status) for status, key in put_away.items()))
        wanted = [logs[2], logs[1], logs[3]]

        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=9) == wanted
        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=2) == wanted[:2]
        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=0) == []

    def test_logs_of_one_day_are_told_by_their_rows(self, store: MetadataStore) -> None:
        """So that reading goes on where it stopped, for logs of any owner."""
        day = "daily/2026-01-30"
        users = ("ada", "ada-2", "bob")
        logs = insert(store, *(factories.memory(f"Log of {user}.", key=day, user_id=user) for user in users))
        found = [
            store.logs.old_logs(EVERYBODY, before=_TODAY, after=place, limit=1)
            for place in (LogPlace(), *(LogPlace(log.key, log.row) for log in logs))
        ]

        assert found == [[logs[0]], [logs[1]], [logs[2]], []]

    def test_logs_are_held_to_the_area(self, store: MetadataStore) -> None:
        """To an owner, and to one of their projects; owners are compared as a whole."""
        day = "daily/2026-01-30"
        scopes = (("ada", ""), ("ada", "web"), ("ada", "web-2"), ("ada-2", "web"))
        logs = insert(
            store,
            *(
                factories.memory(f"{user} {project}", key=day, user_id=user, project_id=project)
                for user, project in scopes
            ),
        )

        def found(area: MaintenanceScope) -> list[str]:
            return [log.id for log in store.logs.old_logs(area, before=_TODAY, after=LogPlace(), limit=9)]

        assert found(MaintenanceScope(OWNER)) == [log.id for log in logs[:3]]
        assert found(MaintenanceScope(OWNER, "web")) == [logs[1].id]
        assert found(MaintenanceScope(Scope("bob").owner)) == []
