"""Reminders: what is due, and noting that it was given (requirement L7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo

from memsvc.domain.context import is_in_use
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Memory, Slot
from memsvc.domain.reminders import Due, Moment, day_number, due, occurs_on, slots_of, window
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.conflicts.supersession import require_memory
from memsvc.ports.features import ReminderPlace
from memsvc.ports.metadata import MetadataStore, Transaction

_LOOKED_AT = 500
"""So many candidates are read at a time."""
_LOOKS = 10
"""A page looks at so many times as many at most; then it ends, maybe short, and says where to go on."""


class ReminderService:
    """Lists what is due, and takes note of what was given. Safe to use from several threads."""

    def __init__(
        self, store: MetadataStore, committer: GroupCommitter, now: Callable[[], datetime], zone: tzinfo = UTC
    ) -> None:
        """Read from *store*; *now* is the clock, *zone* that of those who name none."""
        self._store = store
        self._committer = committer
        self.now = now
        self.zone = zone

    def due(
        self, scope: Scope, moment: Moment, *, after: ReminderPlace | None, limit: int
    ) -> tuple[list[Due], ReminderPlace | None]:
        """Return the next *limit* memories to remind of, and where to go on: None when there are no more.

        First those of every year, then those of one day, by day; of the same day the earlier written first.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        reach, wanted = Reach.from_scope(scope), window(moment.now, moment.overdue_days)
        listed: list[Due] = []
        for _ in range(_LOOKS):
            page = self._store.reminders.page(reach=reach, window=wanted, after=after, limit=_LOOKED_AT)
            for one in self._of_page(scope, reach, page, moment):
                if len(listed) == limit:
                    return listed, _place(listed[-1].memory)
                listed.append(one)
            if len(page) < _LOOKED_AT:
                return listed, None
            after = _place(page[-1])
        return listed, after

    def acknowledge(
        self, scope: Scope, memory_id: str, *, day: date, slot: Slot | None, request_id: str
    ) -> tuple[Memory, datetime]:
        """Note that a reminder was given on a day in a slot, or in all of that day; return since when that is noted.

        Noting it again changes nothing. A day that is still ahead may be noted, too: then it is passed over.

        Raises:
            MemoryNotFoundError: The memory is not there, deleted, or another session's private one.
            InvalidRequestError: It has no reminder that is due on that day, in that slot.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, memory_id, day.isoformat(), slot) if request_id else ""
        request = IdempotentRequest("AcknowledgeReminder", request_id, digest, Reach.from_scope(scope))

        def work(transaction: Transaction) -> tuple[Memory, datetime]:
            answer = recall_answer(transaction, request)
            memory = require_memory(transaction, scope, memory_id)
            # A repetition that once was right is so still, whatever became of the memory.
            slots = _slots(memory, day, slot) if answer is None else tuple(map(Slot, answer))
            noted = [transaction.acknowledge(memory, day, one, self.now()) for one in slots]
            if answer is None:
                remember_answer(transaction, request, [one.value for one in slots])
            return memory, max(noted)

        return self._committer.submit(work).value

    def _of_page(self, scope: Scope, reach: Reach, page: list[Memory], moment: Moment) -> list[Due]:
        visible_now = [one for one in page if visible(one, scope) and is_in_use(one, moment.now)]
        since = (moment.now - timedelta(days=moment.overdue_days + 2)).date()
        given = self._store.reminders.given([one.row for one in visible_now], since=since, reach=reach)
        listed: list[Due] = []
        for memory in visible_now:
            if memory.reminder is not None:
                occurrence = due(memory.reminder, moment, given.get(memory.row, frozenset()))
                listed += [] if occurrence is None else [Due(memory, occurrence)]
        return listed


def _place(memory: Memory) -> ReminderPlace:
    return ReminderPlace(0 if memory.reminder is None else day_number(memory.reminder), memory.row)


def _slots(memory: Memory, day: date, slot: Slot | None) -> tuple[Slot, ...]:
    """Return the slots to note.

    Raises:
        InvalidRequestError: The memory does not remind then.
    """
    if memory.reminder is None:
        raise InvalidRequestError([Violation("memory_id", "Names a memory without a reminder.")])
    if not occurs_on(memory.reminder, day):
        description = f"Its reminder is not due on {day}: take the date that ListDueReminders gave."
        raise InvalidRequestError([Violation("date", description)])
    slots = slots_of(memory.reminder)
    if slot is not None and slot not in slots:
        allowed = " or ".join(one.value for one in slots)
        raise InvalidRequestError([Violation("slot", f"Its reminder is due in {allowed} only.")])
    return slots if slot is None else (slot,)
