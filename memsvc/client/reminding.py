"""What is due, and noting that it was given."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import date as calendar_date
from datetime import datetime
from uuid import uuid4

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.request_types import Slot
from memsvc.v1 import reminders_pb2


class Reminders(Connected):
    """The calls about reminders."""

    async def due_reminders(
        self,
        *,
        time: datetime | None = None,
        time_zone: str = "",
        slot: Slot | None = None,
        overdue_days: int | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[reminders_pb2.DueReminder, None]:
        """Yield the memories that are due now, or at *time*, in the user's *time_zone*, page by page.

        They come again until they are acknowledged. The timeout holds for each page.
        """
        request = reminders_pb2.ListDueRemindersRequest(
            scope=self.scope,
            time=None if time is None else to_proto.timestamp_to_proto("time", time),
            time_zone=time_zone,
            slot=to_proto.named("slot", slot),
            overdue_days=overdue_days,
            page_size=page_size,
        )
        while True:
            page = await self._remote.unary(self._remote.lifecycle.ListDueReminders, request, timeout)
            for reminder in page.reminders:
                yield reminder
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def acknowledge_reminder(
        self,
        memory_id: str,
        date: calendar_date,
        *,
        slot: Slot | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> reminders_pb2.AcknowledgeReminderResponse:
        """Say that the reminder of a memory was given on that day, in that slot or in all of them."""
        request = reminders_pb2.AcknowledgeReminderRequest(
            scope=self.scope,
            memory_id=memory_id,
            date=to_proto.date_to_proto(date),
            slot=to_proto.named("slot", slot),
            request_id=request_id or str(uuid4()),
        )
        return await self._remote.unary(self._remote.lifecycle.AcknowledgeReminder, request, timeout)
