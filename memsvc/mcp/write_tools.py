"""The tools that change something: remember, update_memory, forget, capture, resolve_conflict, reminders."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from memsvc.mcp.formatting import (
    DATA,
    Captured,
    Contradiction,
    Due,
    Dues,
    Forgotten,
    Remembered,
    Resolved,
    Statement,
    currency_facts,
    currency_name,
    cut,
    framed,
    kind_of,
)
from memsvc.mcp.tool_inputs import (
    Capture,
    Forget,
    Remember,
    Reminders,
    Reply,
    ResolveConflict,
    ToolCall,
    UpdateMemory,
)
from memsvc.text.context_phrases import as_data
from memsvc.text.recalled_text import citation
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from memsvc.client import AsyncMemsvc, Changes, NewMemory
    from memsvc.mcp.connection import BridgeScope

_UNDO = "forget with undo of it brings it back"
_IN_USE = frozenset({types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_CONFLICTED})
_DONE = {"CREATED": "Remembered", "UPDATED": "Updated", "DUPLICATE": "It was remembered already"}


async def remember(asked: ToolCall, given: Remember) -> Reply:
    """Store a memory, or put it in the place of another."""
    client = asked.link.everywhere if given.everywhere else asked.link.here
    fields: NewMemory = {
        "key": given.key,
        "tags": given.tags,
        "importance": given.importance or 0,
        "speaker": given.speaker,
    }
    if given.kind is not None:
        fields["kind"] = given.kind
    if given.layer is not None:
        fields["layer"] = given.layer
    if given.happened is not None:
        fields["event_time"] = asked.link.place.moment(given.happened)
    if given.replaces:
        return await _supersede(asked, given, fields)
    reply = await asked.link.call(lambda: client.create(given.content, request_id=asked.request_id, **fields))
    outcome = types_pb.WriteOutcome.Name(reply.outcome).removeprefix("WRITE_OUTCOME_")
    unchanged = list(_unchanged(reply.memory, given, asked.link.place)) if outcome != "CREATED" else []
    return _remembered(reply.memory, outcome, reply.conflicts, len(reply.redactions), unchanged)


async def _supersede(asked: ToolCall, given: Remember, fields: NewMemory) -> Reply:
    here = asked.link.here
    if given.everywhere:
        older = await asked.link.call(lambda: here.get(given.replaces))
        if project := older.scope.project_id:
            message = (
                f"everywhere: {citation(older.id)} belongs to the project {project!r}, and so would what replaces it. "
                "Remember the new one everywhere without replaces, then forget the old one"
            )
            raise ValueError(message)
    kept: dict[str, Any] = {name: value for name, value in fields.items() if value}
    reply = await asked.link.call(
        lambda: here.supersede(given.replaces, given.content, request_id=asked.request_id, **kept)
    )
    replaced = f"{citation(reply.superseded.id)} is superseded; {_UNDO}."
    return _remembered(reply.memory, "CREATED", reply.conflicts, len(reply.redactions), replaced=replaced)


def _unchanged(memory: types_pb.Memory, given: Remember, place: BridgeScope) -> Iterator[str]:
    """Yield the arguments that were given and that the memory, which was there already, does not have."""
    layer = types_pb.MemoryLayer.Name(memory.layer).removeprefix("MEMORY_LAYER_")
    if given.kind is not None and given.kind != kind_of(memory):
        yield "kind"
    if given.layer is not None and given.layer != layer:
        yield "layer"
    if given.importance is not None and given.importance != memory.importance:
        yield "importance"
    if not set(given.tags) <= set(memory.tags):
        yield "tags"
    if given.key and given.key != memory.key:
        yield "key"
    known = memory.event_time.ToDatetime(tzinfo=UTC) if memory.HasField("event_time") else None
    if given.happened is not None and place.moment(given.happened) != known:
        yield "happened"


def _contradictions(memory_id: str, conflicts: Iterable[types_pb.Conflict]) -> tuple[list[Contradiction], list[str]]:
    """Return what a written memory contradicts, and the lines that tell so."""
    against, told, asked = [], [], []
    for each in conflicts:
        is_late = each.older_memory_id == memory_id
        other = each.newer_memory if is_late else each.older_memory
        against.append(Contradiction(memory_id=other.id, text=cut(other.content)))
        order = "was said before, and gives way to" if is_late else "takes precedence over"
        told.append(f"It contradicts, and {order}: {citation(other.id)} {as_data(against[-1].text)}")
        if each.state == types_pb.CONFLICT_STATE_OPEN:
            asked.append(f"To settle it, ask the user: {as_data(each.question)}")
    return against, told + asked


def _remembered(
    memory: types_pb.Memory,
    outcome: Any,
    conflicts: Iterable[types_pb.Conflict],
    redacted: int,
    unchanged: Sequence[str] = (),
    *,
    replaced: str = "",
) -> Reply:
    against, contradicted = _contradictions(memory.id, conflicts)
    told = [f"{_DONE[outcome]}: {citation(memory.id)}", *([replaced] if replaced else [])]
    if unchanged:
        told.append(f"Not changed: its {', '.join(unchanged)}. To change that, call update_memory.")
    told += contradicted
    if redacted:
        told.append(f"{redacted} secrets were replaced.")
    answer = Remembered(id=memory.id, outcome=outcome, revision=memory.revision, contradicts=against, redacted=redacted)
    return Reply("\n".join(told), answer)


async def update_memory(asked: ToolCall, given: UpdateMemory) -> Reply:
    """Change fields of a memory."""
    changes: Changes = given.changed()  # type: ignore[assignment]  # the names are those of Changes, but for one
    if given.happened is not None:
        changes["event_time"] = asked.link.place.moment(given.happened)
        changes.pop("happened", None)  # type: ignore[typeddict-item]  # see above
    reply = await asked.link.call(
        lambda: asked.link.here.update(
            given.id, expected_revision=given.expected_revision, request_id=asked.request_id, **changes
        )
    )
    return _remembered(reply.memory, "UPDATED", reply.conflicts, len(reply.redactions))


async def forget(asked: ToolCall, given: Forget) -> Reply:
    """Delete a memory, or take that back."""
    if given.undo:
        return await _brought_back(asked, given.id)
    here, name = asked.link.here, citation(given.id)
    await asked.link.call(lambda: here.delete(given.id, purge=given.permanently, request_id=asked.request_id))
    if given.permanently:
        return Reply(f"Removed for good: {given.id}", Forgotten(id=given.id, state="REMOVED"))
    return Reply(f"Forgotten: {name}; forget with undo brings it back.", Forgotten(id=given.id, state="DELETED"))


async def _brought_back(asked: ToolCall, memory_id: str) -> Reply:
    """Restore a memory, or the last state of a superseded one in which it was in use."""
    here = asked.link.here
    before, earlier = await asked.link.call(lambda: _superseded_since(here, memory_id))
    if before is None:
        restored = await asked.link.call(lambda: here.restore(memory_id, request_id=asked.request_id))
        return await _restored(asked, restored.memory)
    newer_id = before.memory.superseded_by_id
    if not earlier:
        told = f"Nothing was done: {citation(memory_id)} is superseded by {citation(newer_id)} since it was stored."
        return Reply(told, Forgotten(id=memory_id, state="SUPERSEDED", newer_id=newer_id))
    # The rollback of a repeated call has no effect, so it needs no request_id.
    rolled = await asked.link.call(lambda: here.rollback(memory_id, earlier, expected_revision=before.memory.revision))
    return await _restored(asked, rolled.memory, replaced_by=newer_id)


async def _superseded_since(here: AsyncMemsvc, memory_id: str) -> tuple[memory_pb.Revision | None, int]:
    """Return the latest revision of a SUPERSEDED memory, and the number of the last one in which it was in use, or 0.

    Any other memory: None and 0.
    """
    latest: memory_pb.Revision | None = None
    async with aclosing(here.revisions(memory_id)) as revisions:
        async for revision in revisions:
            latest = latest or revision
            if not _is_superseded(latest.memory):
                return None, 0
            if revision.memory.status in _IN_USE:
                return latest, revision.memory.revision
    return latest, 0


def _is_superseded(memory: types_pb.Memory) -> bool:
    return memory.status == types_pb.MEMORY_STATUS_SUPERSEDED and bool(memory.superseded_by_id)


async def _restored(asked: ToolCall, memory: types_pb.Memory, *, replaced_by: str = "") -> Reply:
    """Return what a restored memory is now, and the memories in use that say otherwise."""
    here, name = asked.link.here, citation(memory.id)
    if _is_superseded(memory):
        newer_id = memory.superseded_by_id
        text = f"It is superseded by {citation(newer_id)}, as before it was forgotten: {name}. Undo again to use it."
        return Reply(text, Forgotten(id=memory.id, state="SUPERSEDED", newer_id=newer_id))
    status = types_pb.MemoryStatus.Name(memory.status).removeprefix("MEMORY_STATUS_")
    told = [f"It is back: {name}" if status == "ACTIVE" else f"It is back, {status.lower()}: {name}"]
    contradicted = await asked.link.call(
        lambda: _gathered(here.conflicts(states=("OPEN", "REJECTED"), memory_id=memory.id))
    )
    others = {other.id: other for each in contradicted for other in (each.older_memory, each.newer_memory)}
    if replaced_by and replaced_by not in others:
        found = await asked.link.call(lambda: here.get_many([replaced_by]))
        others |= {each.id: each for each in found.memories}
    told += [
        f"In use, too: {citation(each.id)} {as_data(cut(each.content))} Forget the one that is wrong."
        for each in others.values()
        if each.id != memory.id and each.status in _IN_USE
    ]
    return Reply("\n".join(told), Forgotten(id=memory.id, state="RESTORED"))


async def _gathered(listed: AsyncGenerator[types_pb.Conflict, None]) -> list[types_pb.Conflict]:
    return [each async for each in listed]


async def capture(asked: ToolCall, given: Capture) -> Reply:
    """Hand over what was said; the service decides."""
    reply = await asked.link.call(
        lambda: asked.link.here.capture(
            given.text,
            role=given.role,
            speaker=given.speaker,
            dry_run=given.dry_run,
            request_id=asked.request_id,
        )
    )
    statements = [_statement(each) for each in reply.decisions]
    kept = [each for each in statements if each.remembered]
    would = "would be remembered" if given.dry_run else "remembered"
    told = [f"{len(kept)} of {len(statements)} statements {would}."]
    for each, decision in zip(statements, reply.decisions, strict=True):
        if each.remembered:
            told.append(f"- {citation(each.id) if each.id else each.reason} {as_data(each.text)}")
            told += _contradictions(each.id, decision.conflicts)[1]
    if any(each.reason == "FORGET" for each in statements):
        told.append("To delete what it names: recall it, then forget it by its id.")
    if reply.redactions:
        told.append(f"{len(reply.redactions)} secrets were replaced.")
    told += [reply.notice] if reply.notice else []
    answer = Captured(statements=statements, redacted=len(reply.redactions), note=reply.notice)
    return Reply("\n".join(told), answer)


def _statement(decision: memory_pb.CaptureDecision) -> Statement:
    reason = memory_pb.CaptureReason.Name(decision.reason).removeprefix("CAPTURE_REASON_")
    return Statement(text=cut(decision.statement), remembered=decision.remember, reason=reason, id=decision.memory.id)


async def resolve_conflict(asked: ToolCall, given: ResolveConflict) -> Reply:
    """Settle a conflict by what the user said."""
    reply = await asked.link.call(
        lambda: asked.link.here.resolve(given.id, given.resolution, request_id=asked.request_id)
    )
    state = types_pb.ConflictState.Name(reply.conflict.state).removeprefix("CONFLICT_STATE_")
    gone = [one for one in (reply.conflict.older_memory, reply.conflict.newer_memory) if one.status not in _IN_USE]
    told = [
        f"The conflict is settled: {state}.",
        *(f"Not in use: {citation(one.id)}; {_UNDO}." for one in gone if one.id),
    ]
    return Reply(" ".join(told), Resolved(id=given.id, state=state))


async def reminders(asked: ToolCall, given: Reminders) -> Reply:
    """Return due reminders, and record those that were shown."""
    place, here = asked.link.place, asked.link.here

    async def listed() -> list[lifecycle_pb.DueReminder]:
        return [each async for each in here.due_reminders(time_zone=place.time_zone, days_ahead=given.days_ahead)]

    due = {each.memory.id: each for each in await asked.link.call(listed)}
    given_now = [each for each in dict.fromkeys(given.given) if each in due]
    for memory_id in given_now:
        day = _day(due.pop(memory_id))
        await asked.link.call(partial(here.acknowledge_reminder, memory_id, day))
    today = place.local(datetime.now(UTC)).date()
    not_due = [each for each in dict.fromkeys(given.given) if each not in given_now]
    return _due([_due_shown(each, today) for each in due.values()], today, given_now, not_due)


def _day(reminder: lifecycle_pb.DueReminder) -> date:
    day = reminder.occurrence.date
    return date(day.year, day.month, day.day)


def _due_shown(reminder: lifecycle_pb.DueReminder, today: date) -> Due:
    day = _day(reminder)
    return Due(
        id=reminder.memory.id,
        text=cut(reminder.memory.content),
        date=day.isoformat(),
        overdue_days=max(0, (today - day).days),
        currency=currency_name(reminder.currency),
        newer_id=reminder.newer_memory_id,
    )


def _due(due: list[Due], today: date, given: list[str], not_due: list[str]) -> Reply:
    answer = Dues(today=today.isoformat(), due=due, acknowledged=given)
    ignored = f"\nNot due, so nothing was recorded of it: {', '.join(not_due)}" if not_due else ""
    now = f"Today is {today:%A} {today.isoformat()}."
    if not due:
        return Reply(f"{now} Nothing is due.{ignored}", answer)
    cited = framed(
        f"- {citation(each.id)} ({', '.join((_due_day(each, today), *currency_facts(each)))}) {as_data(each.text)}"
        for each in due
    )
    return Reply(f"{now} {len(due)} due ({DATA}):\n{cited}{ignored}", answer)


def _due_day(due: Due, today: date) -> str:
    """Return the day of a reminder and how far it is from today, such as "Friday 2026-01-09, overdue by 2 days"."""
    day = date.fromisoformat(due.date)
    days = (day - today).days
    count = f"{abs(days)} day{'' if abs(days) == 1 else 's'}"
    distance = "today" if days == 0 else f"in {count}" if days > 0 else f"overdue by {count}"
    return f"{day:%A} {due.date}, {distance}"
