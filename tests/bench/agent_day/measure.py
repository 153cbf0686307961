"""What a service keeps of scripted users in each way of storing, and what its contexts tell of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.agent_day.mcp_mode import contexts_by_mcp, tell_by_mcp
from tests.bench.agent_day.scenarios import Said, ScriptedUser
from tests.bench.requests import timestamp
from tests.bench.seed import searchable
from tests.bench.server import Server, running_server

BUDGETS = (400, 1_500)
OTHER_MEMORIES = 120
PROJECT = "day"
_ROLES = {"user": types_pb.MESSAGE_ROLE_USER, "assistant": types_pb.MESSAGE_ROLE_ASSISTANT}
_KINDS = {
    "FACT": types_pb.MEMORY_KIND_FACT,
    "PREFERENCE": types_pb.MEMORY_KIND_PREFERENCE,
    "INSTRUCTION": types_pb.MEMORY_KIND_PREFERENCE,
    "TASK": types_pb.MEMORY_KIND_TASK,
}
_MARKED = re.compile(r"outdated|superseded|conflict|no longer|已过时|可能过时|冲突|已被取代", re.IGNORECASE)
"""What marks a line as not current."""
_OUTDATED = re.compile(r"outdated|superseded|已过时|可能过时|已被取代", re.IGNORECASE)
"""What marks a line as outdated; both sides of an open conflict are marked, too."""
_NEWER = re.compile(r"(?:see |见)(\[m\d+\])")
"""The handle of the newer memory in such a mark."""
_NOT_ANNOUNCED = {types_pb.CURRENCY_OUTDATED, types_pb.CURRENCY_POSSIBLY_OUTDATED}
"""What a reminder must not be to be announced."""
_ITEM = re.compile(r"^- ", re.MULTILINE)
_PIECE = 10
"""Characters of a memory from which on it tells the message that it comes from."""

Told = Callable[[str, int], Callable[[], None]]


@dataclass(slots=True)
class Tally:
    """Counts of one mode and budget, over all users."""

    questions: int = 0
    right: int = 0
    changed: int = 0
    unmarked: int = 0
    current_lines: int = 0
    current_marked: int = 0
    lines: int = 0
    tokens: int = 0
    misses: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Kept:
    """What a mode stored, over all users: memories, filler among them, and the reminders."""

    memories: int = 0
    filler: int = 0
    filler_rounds: int = 0
    reminders: int = 0
    reminders_right: int = 0
    misses: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ModeResult:
    """The results of one way of storing."""

    kept: Kept
    by_budget: Mapping[int, Tally]


async def measure_modes(
    users: Sequence[ScriptedUser], modes: Sequence[str], settings: Mapping[str, str], told: Told
) -> dict[str, ModeResult]:
    """Tell every user's conversations to one service for each mode, and ask the questions."""
    results = {}
    for mode in modes:
        step = told(mode, len(users))
        result = ModeResult(Kept(), {budget: Tally() for budget in BUDGETS})
        with TemporaryDirectory(prefix="memsvc-day-") as folder:
            async with running_server(Path(folder) / "data", settings) as server:
                for user in users:
                    await MODES[mode](server, user)
                await searchable(server)
                for user in users:
                    await _look(server, user, result.kept)
                    for budget, tally in result.by_budget.items():
                        await _ask(
                            server, user, budget, tally, await CONTEXTS.get(mode, _rendered)(server, user, budget)
                        )
                    step()
        results[mode] = result
    return results


# Ways of storing.


async def _tell_sessions(server: Server, user: ScriptedUser) -> None:
    """Append the messages to sessions that are closed at their end, with all defaults."""
    for number, messages in enumerate(user.sessions):
        await _append(server, user, number, messages)
        await server.sessions.CloseSession(session_pb.CloseSessionRequest(scope=_scope(user, f"s{number}")))


async def _tell_flushed(server: Server, user: ScriptedUser) -> None:
    """Append the messages to sessions, and flush them at the end of each."""
    for number, messages in enumerate(user.sessions):
        await _append(server, user, number, messages)
        batch = [_message(user, one) for one in messages]
        await server.memories.FlushMessages(memory_pb.FlushMessagesRequest(scope=_scope(user), messages=batch))
        await server.sessions.CloseSession(session_pb.CloseSessionRequest(scope=_scope(user, f"s{number}")))


async def _tell_memories(server: Server, user: ScriptedUser) -> None:
    """Create a memory of each fact as it is told, among notes about other things."""
    notes = iter(user.filler[:OTHER_MEMORIES])
    each = -(-OTHER_MEMORIES // len(user.facts))
    moments = {one.fact: one.moment for messages in user.sessions for one in messages if one.fact}
    for fact in user.facts.values():
        moment = timestamp(moments[fact.id])
        for _ in range(each):
            if note := next(notes, ""):
                memory = types_pb.Memory(content=note, kind=types_pb.MEMORY_KIND_NOTE, event_time=moment)
                await server.memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=_scope(user), memory=memory))
        kind = _KINDS[fact.kind]
        memory = types_pb.Memory(content=fact.write, kind=kind, event_time=moment)
        await server.memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=_scope(user), memory=memory))


async def _append(server: Server, user: ScriptedUser, number: int, messages: Sequence[Said]) -> None:
    scope = _scope(user, f"s{number}")
    await server.sessions.CreateSession(session_pb.CreateSessionRequest(scope=scope))
    for start in range(0, len(messages), 100):
        batch = [_message(user, one) for one in messages[start : start + 100]]
        await server.sessions.AppendMessages(session_pb.AppendMessagesRequest(scope=scope, messages=batch))


async def _tell_mcp(server: Server, user: ScriptedUser) -> None:
    await tell_by_mcp(server, user, PROJECT, user.filler[:OTHER_MEMORIES])


MODES = {"sessions": _tell_sessions, "flush": _tell_flushed, "create": _tell_memories, "mcp": _tell_mcp}


def _scope(user: ScriptedUser, session: str = "") -> types_pb.Scope:
    return types_pb.Scope(user_id=user.name, project_id=PROJECT, session_id=session)


def _message(user: ScriptedUser, one: Said) -> types_pb.ChatMessage:
    speaker = user.speaker if one.role == "user" else ""
    return types_pb.ChatMessage(
        role=_ROLES[one.role], content=one.text, event_time=timestamp(one.moment), speaker=speaker
    )


# What was kept, and what contexts tell.


async def _look(server: Server, user: ScriptedUser, kept: Kept) -> None:
    memories = await _memories(server, user)
    kept.memories += len(memories)
    kept.filler_rounds += len(user.filler)
    texts = [one.content.casefold() for one in memories]
    for note in user.filler:
        folded = note.casefold()
        if any(folded in text or (len(text) >= _PIECE and text in folded) for text in texts):
            kept.filler += 1
            kept.misses.append(f"filler {user.name}: {note}")
    reminders = await _due_reminders(server, user)
    for wanted in user.reminders:
        is_known = any(
            (day.month, day.day) == (wanted.due_on.month, wanted.due_on.day) and user.facts[wanted.fact].is_in(content)
            for day, content in reminders
        )
        kept.reminders += 1
        kept.reminders_right += is_known is wanted.live
        if is_known is not wanted.live:
            kind = "missing" if wanted.live else "still there"
            kept.misses.append(f"reminder {user.name} {kind}: {wanted.due_on} {user.facts[wanted.fact].say}")


async def _due_reminders(server: Server, user: ScriptedUser) -> list[tuple[types_pb.CalendarDate, str]]:
    """Return the day and the content of each reminder of the next year that is not marked as outdated."""
    found: list[tuple[types_pb.CalendarDate, str]] = []
    request = lifecycle_pb.ListDueRemindersRequest(
        scope=_scope(user), time=timestamp(user.asked_at), days_ahead=366, overdue_days=0
    )
    while True:
        reply = await server.lifecycle.ListDueReminders(request)
        found += [
            (one.occurrence.date, one.memory.content) for one in reply.reminders if one.currency not in _NOT_ANNOUNCED
        ]
        if not reply.next_page_token:
            return found
        request.page_token = reply.next_page_token


async def _memories(server: Server, user: ScriptedUser) -> list[types_pb.Memory]:
    """Return the memories in use that are no messages."""
    found: list[types_pb.Memory] = []
    token = ""
    while True:
        request = memory_pb.ListMemoriesRequest(scope=_scope(user), page_size=500, page_token=token)
        reply = await server.memories.ListMemories(request)
        found += reply.memories
        token = reply.next_page_token
        if not token:
            kinds = {types_pb.MEMORY_KIND_MESSAGE, types_pb.MEMORY_KIND_NOTE}
            return [one for one in found if one.kind not in kinds]


async def _rendered(server: Server, user: ScriptedUser, budget: int) -> list[tuple[str, int]]:
    """Return the context of each question and its tokens."""
    options = search_pb.ContextOptions(total_tokens=budget, locale="zh" if user.language == "zh" else "en")
    found = []
    for question in user.questions:
        request = search_pb.RenderContextRequest(scope=_scope(user), query=question.text, options=options)
        reply = await server.searches.RenderContext(request)
        found.append((reply.markdown, reply.summary.token_count))
    return found


async def _told_by_mcp(server: Server, user: ScriptedUser, budget: int) -> list[tuple[str, int]]:
    """Return what the tool context says about each question, and its budget: the tool does not tell its tokens."""
    texts = await contexts_by_mcp(server, user, PROJECT, [one.text for one in user.questions], budget)
    return [(text, budget) for text in texts]


CONTEXTS = {"mcp": _told_by_mcp}


async def _ask(
    server: Server, user: ScriptedUser, budget: int, tally: Tally, contexts: Sequence[tuple[str, int]]
) -> None:
    outdated = user.outdated
    for question, (markdown, tokens) in zip(user.questions, contexts, strict=True):
        lines = [one.split("\n## ")[0] for one in _ITEM.split(markdown)[1:]]
        tally.lines += len(lines)
        tally.tokens += tokens
        tally.questions += 1
        right = [user.facts[one] for one in question.right]
        is_right = any(fact.is_in(line) for fact in right for line in lines)
        tally.right += is_right
        if not is_right:
            tally.misses.append(f"{user.name}: {question.text} | {right[0].say}")
        if question.outdated:
            tally.changed += 1
            old = [user.facts[one] for one in question.outdated]
            bad = [line for line in lines if _carries(line, old, right) and not _MARKED.search(line)]
            tally.unmarked += bool(bad)
            if bad:
                tally.misses.append(f"unmarked {user.name}: {question.text} | {bad[0].strip()} | {right[0].say}")
        for line in lines:
            current = [one for one in user.facts.values() if one.id not in outdated and one.is_in(line)]
            if current and not any(user.facts[one].is_in(line) for one in outdated):
                tally.current_lines += 1
                is_marked = bool(_OUTDATED.search(line))
                tally.current_marked += is_marked
                if is_marked:
                    newer = _NEWER.search(line)
                    by = next((one for one in lines if newer and one.startswith(newer[1])), "")
                    tally.misses.append(f"marked {user.name}: {line.strip()} | {by.strip()}")


def _carries(line: str, old: Sequence[object], right: Sequence[object]) -> bool:
    return any(one.is_in(line) for one in old) and not any(one.is_in(line) for one in right)  # type: ignore[attr-defined]
