"""Due reminders and their acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo

from memsvc.domain.context import is_in_use
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import DueReminder, Moment, Window, day_number, due_occurrence, occurs_on, slots_of, window
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.conflicts.supersession import require_memory
from memsvc.ports.features import ReminderPlace
from memsvc.ports.metadata import MetadataStore, Transaction

_PAGE = 500
"""Number of candidates read at a time."""
_MOST_PAGES = 10
"""Limit of candidate pages for one call; a short result then carries the position to continue from."""


class ReminderService:
    """Lists due reminders and records acknowledgements. Thread-safe."""

    def __init__(
        self, store: MetadataStore, committer: GroupCommitter, now: Callable[[], datetime], zone: tzinfo = UTC
    ) -> None:
        """Read from *store*; *now* is the clock, *zone* the time zone of reminders without one."""
        self._store = store
        self._committer = committer
        self.now = now
        self.zone = zone

    def due(
        self, scope: Scope, moment: Moment, *, after: ReminderPlace | None, limit: int
    ) -> tuple[list[DueReminder], ReminderPlace | None]:
        """Return the next *limit* due memories, and the position to continue from, None at the end.

        Recurring reminders come first, then those of a single day, by day; of the same day the earlier written first.
        When the moment looks ahead, all are in the order of the days on which they are due.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        reach, wanted = Reach.from_scope(scope), window(moment.now, moment.overdue_days, moment.days_ahead)
        if moment.days_ahead:
            return self._ahead(scope, reach, moment, wanted, after=after, limit=limit)
        listed: list[DueReminder] = []
        for _ in range(_MOST_PAGES):
            page = self._store.reminders.page(reach=reach, window=wanted, after=after, limit=_PAGE)
            for one in self._due_of_page(scope, reach, page, moment):
                if len(listed) == limit:
                    return listed, _place(listed[-1].memory)
                listed.append(one)
            if len(page) < _PAGE:
                return listed, None
            after = _place(page[-1])
        return listed, after

    def acknowledge(
        self, scope: Scope, memory_id: str, *, day: date, slot: Slot | None, request_id: str
    ) -> tuple[Memory, datetime]:
        """Record that a reminder was given on a day in a slot, or in all its slots; return the time of the record.

        Idempotent. Acknowledging a future day skips that day.

        Raises:
            MemoryNotFoundError: The memory does not exist, is deleted, or is private to another session.
            InvalidRequestError: The memory has no reminder due on that day in that slot.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, memory_id, day.isoformat(), slot) if request_id else ""
        request = IdempotentRequest("AcknowledgeReminder", request_id, digest, Reach.from_scope(scope))

        def work(transaction: Transaction) -> tuple[Memory, datetime]:
            answer = recall_answer(transaction, request)
            memory = require_memory(transaction, scope, memory_id)
            # A repeated request that was valid stays valid, even if the memory changed since.
            slots = _slots(memory, day, slot) if answer is None else tuple(map(Slot, answer))
            times = [transaction.acknowledge(memory, day, one, self.now()) for one in slots]
            if answer is None:
                remember_answer(transaction, request, [one.value for one in slots])
            return memory, max(times)

        return self._committer.submit(work, owner=scope.owner).value

    def _ahead(
        self, scope: Scope, reach: Reach, moment: Moment, wanted: Window, *, after: ReminderPlace | None, limit: int
    ) -> tuple[list[DueReminder], ReminderPlace | None]:
        # Reads every candidate for each page: the store orders them by number, which is not that of their next days.
        listed: list[DueReminder] = []
        page: list[Memory] = []
        while True:
            page = self._store.reminders.page(
                reach=reach, window=wanted, after=_place(page[-1]) if page else None, limit=_PAGE
            )
            found = self._due_of_page(scope, reach, page, moment)
            listed += [one for one in found if after is None or _place_ahead(one) > after]
            listed = sorted(listed, key=_place_ahead)[: limit + 1]
            if len(page) < _PAGE:
                break
        more = len(listed) > limit
        return listed[:limit], _place_ahead(listed[limit - 1]) if more else None

    def _due_of_page(self, scope: Scope, reach: Reach, page: list[Memory], moment: Moment) -> list[DueReminder]:
        visible_now = [one for one in page if visible(one, scope) and is_in_use(one, moment.now)]
        since = (moment.now - timedelta(days=moment.overdue_days + 2)).date()
        given = self._store.reminders.acknowledgements([one.row for one in visible_now], since=since, reach=reach)
        listed: list[DueReminder] = []
        for memory in visible_now:
            if memory.reminder is not None:
                occurrence = due_occurrence(memory.reminder, moment, given.get(memory.row, frozenset()))
                listed += [] if occurrence is None else [DueReminder(memory, occurrence)]
        return listed


def _place(memory: Memory) -> ReminderPlace:
    return ReminderPlace(0 if memory.reminder is None else day_number(memory.reminder), memory.row)


def _place_ahead(due: DueReminder) -> ReminderPlace:
    day = due.occurrence.day
    return ReminderPlace(day.year * 10_000 + day.month * 100 + day.day, due.memory.row)


def _slots(memory: Memory, day: date, slot: Slot | None) -> tuple[Slot, ...]:
    """Return the slots to acknowledge.

    Raises:
        InvalidRequestError: The memory has no reminder due then.
    """
    if memory.reminder is None:
        raise InvalidRequestError([Violation("id", "Names a memory without a reminder.")])
    if not occurs_on(memory.reminder, day):
        description = f"Its reminder is not due on {day}: use a date that ListDueReminders returned."
        raise InvalidRequestError([Violation("date", description)])
    slots = slots_of(memory.reminder)
    if slot is not None and slot not in slots:
        allowed = " or ".join(one.value for one in slots)
        raise InvalidRequestError([Violation("slot", f"Its reminder is due in {allowed} only.")])
    return slots if slot is None else (slot,)
