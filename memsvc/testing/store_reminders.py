"""Reminders are found by their days while their memories are ACTIVE, and what was given of them is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Recurrence, Reminder, Slot, Status
from memsvc.domain.reminders import day_number, window
from memsvc.ports.features import ReminderPlace
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, StoreSeams, insert, purge, reach_of, revise

TODAY = NOW.date()
"""6 February 2026."""
YEARLY = Reminder(2, 6)
_numbers = count(1)


def once(month: int, day: int, year: int = 2026) -> Reminder:
    """Return a reminder of one day."""
    return Reminder(month, day, year, Recurrence.NONE)


def reminder_detector(reminder: Reminder | None = YEARLY, **fields: Any) -> Memory:
    """Return a memory with a reminder, whose content no other has."""
    return factories.memory(f"Call {next(_numbers)}.", reminder=reminder, **fields)


def recurring(first: date, recurrence: Recurrence, is_lunar: bool = False) -> Memory:  # noqa: FBT001, FBT002
    """Return a memory with a reminder that recurs from a day on."""
    return reminder_detector(Reminder(first.month, first.day, first.year, recurrence, is_lunar=is_lunar))


def found(store: MetadataStore, now: datetime = NOW, **asked: Any) -> list[Memory]:
    """Return a page of reminders, long enough for all."""
    arguments: dict[str, Any] = {"reach": ADA, "window": window(now, 7), "after": None, "limit": 99}
    return store.reminders.page(**arguments | asked)


class StoreRemindersContract(StoreSeams):
    """Contract of reminders."""

    def test_reminders_are_found_by_day(self, store: MetadataStore) -> None:
        """Yearly ones of any year from the day before to the day after, and those of one day that are not long over."""
        near = [reminder_detector(Reminder(2, day, 1988)) for day in (5, 6, 7)]
        single = [reminder_detector(once(1, 29)), reminder_detector(once(2, 6)), reminder_detector(once(2, 7))]
        far = [Reminder(2, 4), Reminder(2, 8), Reminder(12, 6), once(1, 28), once(2, 8), once(2, 6, 2025), None]
        insert(store, *(reminder_detector(one) for one in far), *reversed(near), *single)

        assert [one.reminder for one in near + single] == [one.reminder for one in found(store)]

    def test_29_february_is_found_on_the_28th(self, store: MetadataStore) -> None:
        """In years without it only, and in others on its own day."""
        [leap] = insert(store, reminder_detector(Reminder(2, 29)))
        last = datetime(2027, 2, 28, 12, tzinfo=UTC)

        assert found(store, last) == [leap]
        assert found(store, last.replace(year=2028, day=27)) == []
        assert found(store, last.replace(year=2028, day=29)) == [leap]

    def test_recurring_reminders_are_found_by_their_days(self, store: MetadataStore) -> None:
        """Weekly ones by the day of the week, monthly ones by that of the month, lunar ones by the other calendar."""
        kinds = [(date(2026, 1, 30), Recurrence.WEEKLY, False), (date(2026, 1, 6), Recurrence.MONTHLY, False),
                 (date(2025, 1, 17), Recurrence.YEARLY, True)]  # fmt: skip
        near = [recurring(*kind) for kind in kinds]
        far = [recurring(date(2026, 1, 27), Recurrence.WEEKLY), recurring(date(2026, 1, 9), Recurrence.MONTHLY)]
        insert(store, *far, *near)

        assert [one.reminder for one in near] == [one.reminder for one in found(store)]
        ahead = found(store, window=window(NOW, 7, 366))
        assert len(ahead) == len(far) + len(near)

    def test_single_reminders_are_found_from_a_day_on(self, store: MetadataStore) -> None:
        """Those of one day and one project, by day, then by row; none that recurs or is in no use."""
        days = [once(2, 9), once(2, 6), once(2, 6), once(2, 5), YEARLY, once(12, 31, 2999)]
        written = insert(store, *(reminder_detector(one) for one in days))
        archived, _ = insert(store, reminder_detector(once(2, 7)), reminder_detector(once(2, 7), project_id="web"))
        revise(store, archived, status=Status.ARCHIVED)

        def single(limit: int = 10, project_id: str = "") -> list[int]:
            with store.transaction() as transaction:
                rows = transaction.single_reminders(ADA.owner, project_id, since=date(2026, 2, 6), limit=limit)
            return [one.row for one in rows]

        expected = [written[place].row for place in (1, 2, 0, 5)]
        assert single() == expected
        assert single(limit=2) == expected[:2]
        assert len(single(project_id="web")) == 1
        assert single(project_id="other") == []

    def test_reminders_are_read_in_order(self, store: MetadataStore) -> None:
        """By day and row over all projects, page by page, whole strings of the reach and no more than asked for."""
        places = [(Reminder(2, 7), "web"), (once(2, 6), ""), (YEARLY, "web"), (YEARLY, ""), (once(2, 6), "web")]
        written = insert(store, *(reminder_detector(one, project_id=project) for one, project in places))
        insert(
            store,
            reminder_detector(user_id="ada2"),
            reminder_detector(project_id="other"),
            reminder_detector(tenant_id="t"),
        )

        expected = [written[number] for number in (2, 3, 0, 1, 4)]
        assert found(store) == expected
        assert found(store, reach=reach_of(projects=("web",))) == [written[2], written[0], written[4]]
        pages, after = list[Memory](), None
        while page := found(store, after=after, limit=2):
            last = page[-1].reminder
            assert last is not None
            pages, after = pages + page, ReminderPlace(day_number(last), page[-1].row)
        assert pages == expected
        assert found(store, limit=0) == []

    def test_reminders_follow_their_memories(self, store: MetadataStore) -> None:
        """Only an ACTIVE memory reminds, of the day that it has now, and one that is purged no more."""
        [memory] = insert(store, reminder_detector())
        moved = revise(store, memory, reminder=once(2, 7))
        assert found(store) == [moved]
        away = revise(store, moved, ChangeAction.DELETED, status=Status.DELETED)
        assert found(store) == []
        back = revise(store, away, ChangeAction.RESTORED, status=Status.ACTIVE)
        assert found(store) == [back]
        with store.transaction() as transaction:
            [put] = transaction.set_status([back], Status.EXPIRED)
        assert found(store) == []
        back = revise(store, put, status=Status.ACTIVE)
        none = revise(store, back, reminder=None)
        assert found(store) == []
        again = revise(store, none, reminder=YEARLY)
        assert found(store) == [again]
        purge(store, again)
        assert found(store) == []

    def test_a_transaction_that_fails_reminds_of_nothing(self, store: MetadataStore) -> None:
        """Neither of what it wrote nor of what it noted."""
        [memory] = insert(store, reminder_detector())
        with suppress(ZeroDivisionError), store.transaction() as transaction:
            transaction.insert([])
            transaction.acknowledge(memory, TODAY, Slot.MORNING, NOW)
            raise ZeroDivisionError

        assert store.reminders.acknowledgements([memory.row], since=TODAY, reach=ADA) == {}

    def test_what_was_given_is_noted_once(self, store: MetadataStore) -> None:
        """The first time stays, whatever becomes of the memory short of a purge."""
        one, two, other = insert(store, reminder_detector(), reminder_detector(), reminder_detector(project_id="other"))
        later, day = NOW + timedelta(hours=1), timedelta(days=1)
        with store.transaction() as transaction:
            assert transaction.acknowledge(one, TODAY, Slot.MORNING, NOW) == NOW
            assert transaction.acknowledge(one, TODAY, Slot.MORNING, later) == NOW
            assert transaction.acknowledge(one, TODAY, Slot.AFTERNOON, later) == later
            transaction.acknowledge(one, TODAY - day, Slot.AFTERNOON, NOW)
            transaction.acknowledge(other, TODAY, Slot.MORNING, NOW)
        changed = revise(store, one, title="T", reminder=once(2, 7))
        rows = [one.row, two.row, other.row]

        today = {(TODAY, Slot.MORNING), (TODAY, Slot.AFTERNOON)}
        assert store.reminders.acknowledgements(rows, since=TODAY, reach=ADA) == {one.row: today}
        assert store.reminders.acknowledgements(rows, since=date(1, 1, 1), reach=ADA)[one.row] > today
        assert store.reminders.acknowledgements([], since=TODAY, reach=ADA) == {}
        assert store.reminders.acknowledgements(rows, since=TODAY, reach=reach_of("bob")) == {}
        purge(store, changed)
        assert store.reminders.acknowledgements(rows, since=TODAY, reach=ADA) == {}

    def test_what_was_given_is_copied_to_a_successor(self, store: MetadataStore) -> None:
        """With its times; what is noted of both stays."""
        source, successor, none = insert(store, reminder_detector(), reminder_detector(), reminder_detector())
        later = NOW + timedelta(hours=1)
        with store.transaction() as transaction:
            transaction.acknowledge(source, TODAY, Slot.MORNING, NOW)
            transaction.acknowledge(source, TODAY, Slot.AFTERNOON, NOW)
            transaction.acknowledge(successor, TODAY, Slot.MORNING, later)
            transaction.copy_acknowledgements(source, successor)
            transaction.copy_acknowledgements(none, source)

            assert transaction.acknowledge(successor, TODAY, Slot.MORNING, later) == later
            assert transaction.acknowledge(successor, TODAY, Slot.AFTERNOON, later) == NOW
        both = {(TODAY, Slot.MORNING), (TODAY, Slot.AFTERNOON)}
        rows = [source.row, successor.row, none.row]
        assert store.reminders.acknowledgements(rows, since=TODAY, reach=ADA) == {source.row: both, successor.row: both}

    def test_what_was_given_outlives_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """A store that keeps its data knows what was given when it is opened again."""
        [memory] = insert(store, reminder_detector())
        with store.transaction() as transaction:
            transaction.acknowledge(memory, TODAY, Slot.MORNING, NOW)
        again = reopen()

        assert found(again) == [memory]
        assert again.reminders.acknowledgements([memory.row], since=TODAY, reach=ADA) == {
            memory.row: {(TODAY, Slot.MORNING)}
        }
