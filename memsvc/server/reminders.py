"""ListDueReminders and AcknowledgeReminder: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.server import call_context
from memsvc.server.convert import reminders as convert
from memsvc.server.convert.enums import REMINDER_SLOT
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.times import fill_time
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import reminders as validate
from memsvc.server.validate.contexts import known_zone
from memsvc.v1 import reminders_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ReminderMethods:
    """What LifecycleService does with what comes due."""

    _edge: ServerContext

    async def ListDueReminders(
        self, request: pb.ListDueRemindersRequest, context: Context
    ) -> pb.ListDueRemindersResponse:
        """Return a page of what is due."""
        validate.check_list_due(request)
        reminders = self._edge.application.reminders
        zone = (known_zone(request.time_zone) if request.time_zone else None) or reminders.zone
        moment, after = convert.asked_from_proto(request, now=self._edge.now(), zone=zone)
        found, following = await self._edge.executors.meta.run(
            reminders.due,
            scope_from(request.scope, call_context.principal.get()),
            moment,
            after=after,
            limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
        )
        response = pb.ListDueRemindersResponse(next_page_token=convert.page_token(request, moment, following))
        for one in found:
            listed = response.reminders.add()
            fill_memory(listed.memory, one.memory)
            convert.fill_occurrence(listed.occurrence, one)
        return response

    async def AcknowledgeReminder(
        self, request: pb.AcknowledgeReminderRequest, context: Context
    ) -> pb.AcknowledgeReminderResponse:
        """Take note that a reminder was given."""
        validate.check_acknowledge(request)
        memory, moment = await self._edge.executors.write.run(
            self._edge.application.reminders.acknowledge,
            scope_from(request.scope, call_context.principal.get()),
            request.memory_id.lower(),
            day=convert.date_from_proto(request.date),
            slot=REMINDER_SLOT.optional(request.slot),
            request_id=request.request_id,
        )
        response = pb.AcknowledgeReminderResponse()
        fill_memory(response.memory, memory)
        fill_time(response.acknowledge_time, moment)
        return response
