"""What the tests of exports, imports and erasures have in common: a user with something of everything, and the calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, write
from tests.support.server_process import Stubs

LONG_TIMEOUT = 300.0
Line = dict[str, Any]


def _reminded(stubs: Stubs, scope: types_pb.Scope, secret: str) -> None:
    """Store a reminder that is found in what is said, and one of every year that was given once."""
    create(stubs, scope, f"王芳的生日是3月5日，{secret}。")
    day = types_pb.CalendarDate(year=2026, month=2, day=28)
    yearly = types_pb.Reminder(
        date=types_pb.CalendarDate(month=2, day=29), recurrence=types_pb.REMINDER_RECURRENCE_YEARLY,
        time_zone="Asia/Shanghai", slot=types_pb.REMINDER_SLOT_MORNING,
    )  # fmt: skip
    given = create(stubs, scope, f"A day of {secret}.", reminder=yearly)
    stubs.lifecycle.AcknowledgeReminder(
        lifecycle_pb.AcknowledgeReminderRequest(
            scope=scope, id=given.id, date=day, slot=types_pb.REMINDER_SLOT_MORNING
        ),
        timeout=TIMEOUT,
    )


def furnish(stubs: Stubs, user: str, secret: str) -> None:
    """Give a user memories of many sorts in two projects, a session, a conflict and a checkpoint; all say *secret*."""
    home, project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p", agent_id="a")
    full = types_pb.Memory(
        content=f"小王住在里斯本，{secret}。", key="home", title=f"住处 {secret}", summary=secret, tags=[secret, "b"],
        keywords=[types_pb.Keyword(term=secret, weight=0.25)], importance=5, tier=types_pb.MEMORY_TIER_CORE, confidence=0.3,
        category="c", source=f"from {secret}", trust=0.7, origin=types_pb.MEMORY_ORIGIN_TOOL,
        file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="f1")],
    )  # fmt: skip
    full.metadata.update({"a": [1, 2.5, None, {"b": secret}], "c": True})
    full.event_time.FromJsonString("2025-12-31T23:59:59.123456Z")
    full.valid_from.FromJsonString("2020-01-01T00:00:00Z")
    kept = write(stubs, project, full, request_id=f"r {secret}").memory
    changed = types_pb.Memory(id=kept.id, content=f"小王住在波尔图，{secret}。", related_ids=[kept.id])
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(scope=project, memory=changed, update_mask={"paths": ["content", "related_ids"]}),
        timeout=TIMEOUT,
    )
    _reminded(stubs, home, secret)
    upload(stubs, project, f"The bytes of {secret}.".encode(), name=f"{secret} 报告.md")
    create(stubs, home, f"Anna lives in Lisbon. {secret}")
    create(stubs, home, f"Anna lives in Porto. {secret}")
    create(stubs, home, f"# One\n\n{secret} " + "words of a long text. " * 400 + f"\n\n# Two\n\n{secret}")
    for hard in (False, True):
        gone = create(stubs, home, f"{secret} gone {hard}")
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=home, id=gone.id, purge=hard), timeout=TIMEOUT)
    waiting = types_pb.Memory(content=f"{secret} waits", status=types_pb.MEMORY_STATUS_QUARANTINED)
    write(stubs, home, waiting)
    talk = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk, title=secret), timeout=TIMEOUT)
    messages = [
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=f"你好 {secret}"),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content=f"Hello {secret}", pinned=True),
    ]
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=messages), timeout=TIMEOUT)
    stubs.lifecycle.CreateCheckpoint(
        lifecycle_pb.CreateCheckpointRequest(scope=project, name=f"at {secret}", note=secret), timeout=TIMEOUT
    )
    stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=project, key="home"), timeout=TIMEOUT)
    reports = [search_pb.UseReport(memory_id=kept.id, outcome=search_pb.USE_OUTCOME_WRONG)]
    stubs.search.ReportUse(
        search_pb.ReportUseRequest(scope=talk, query=f"小王住在哪里？{secret}", reports=reports, request_id=secret),
        timeout=TIMEOUT,
    )


def export(stubs: Stubs, user: str, **request: Any) -> bytes:
    """Return the file of a user."""
    asked = lifecycle_pb.ExportUserRequest(scope=types_pb.Scope(user_id=user), **request)
    return b"".join(part.data for part in stubs.lifecycle.ExportUser(asked, timeout=LONG_TIMEOUT))


def records(file: bytes, *kinds: str) -> list[Line]:
    """Return the records of a file, those of some kinds alone when any are named."""
    lines = [json.loads(line) for line in file.splitlines()]
    return [line for line in lines[1:-1] if not kinds or line["record"] in kinds]


def requests(user: str, file: bytes, *, size: int = 100_000, **header: Any) -> Iterator[lifecycle_pb.ImportUserRequest]:
    """Yield the messages of an import."""
    scope = types_pb.Scope(user_id=user)
    yield lifecycle_pb.ImportUserRequest(header=lifecycle_pb.ImportUserHeader(scope=scope, **header))
    for start in range(0, len(file), size):
        yield lifecycle_pb.ImportUserRequest(data=file[start : start + size])


def take_in(stubs: Stubs, user: str, file: bytes, **options: Any) -> lifecycle_pb.ImportUserResponse:
    """Import a file and return the last response, with the issues of all of them."""
    responses = list(stubs.lifecycle.ImportUser(requests(user, file, **options), timeout=LONG_TIMEOUT))
    last = responses[-1]
    assert last.done
    issues = [issue for response in responses for issue in response.issues]
    del last.issues[:]
    last.issues.extend(issues)
    return last


def changed(file: bytes, change: Callable[[list[Line]], Iterable[Line] | None]) -> bytes:
    """Return a file whose records were changed, with the right footer."""
    import hashlib  # noqa: PLC0415 - used here alone

    lines = [json.loads(line) for line in file.splitlines()][:-1]
    lines = list(change(lines) or lines)
    raw = b"".join(f"{json.dumps(line, ensure_ascii=False)}\n".encode() for line in lines)
    counts: dict[str, int] = {}
    for line in lines[1:]:
        counts[line["record"]] = counts.get(line["record"], 0) + 1
    footer = {"record": "footer", "lines": len(lines), "counts": counts, "sha256": hashlib.sha256(raw).hexdigest()}
    return raw + f"{json.dumps(footer)}\n".encode()


def erase(stubs: Stubs, user: str, **request: Any) -> lifecycle_pb.ErasureReceipt:
    """Ask for an erasure."""
    asked = lifecycle_pb.EraseUserRequest(scope=types_pb.Scope(user_id=user), **request)
    return stubs.lifecycle.EraseUser(asked, timeout=LONG_TIMEOUT).receipt


def removed(receipt: lifecycle_pb.ErasureReceipt) -> dict[str, dict[str, int]]:
    """Return what a receipt says was removed, by store."""
    return {store.store: dict(store.removed_counts) for store in receipt.stores}


def without(line: Line, names: Sequence[str]) -> Line:
    """Return a line without some fields."""
    return {name: value for name, value in line.items() if name not in names}
