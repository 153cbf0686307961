"""Changing, deleting and restoring memories, as tests do."""

from __future__ import annotations

from typing import Any

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Patch, WriteOptions, WriteResult
from tests.unit.engine.memories.write_path import ADA, Desk


def update(
    desk: Desk, memory_id: str, scope: Scope = ADA, *, expected: int = 0, request_id: str = "", **values: Any
) -> WriteResult:
    vector = values.pop("vector", None)
    return desk.writing.revise.update(
        scope,
        memory_id=memory_id,
        key="",
        patch=Patch(values, vector),
        expected_revision=expected,
        options=WriteOptions(request_id=request_id),
    )


def delete(
    desk: Desk, memory_id: str, scope: Scope = ADA, *, hard: bool = False, expected: int = 0, request_id: str = ""
) -> WriteResult:
    options = WriteOptions(request_id=request_id)
    return desk.writing.revise.delete(scope, memory_id, hard=hard, expected_revision=expected, options=options)


def restore(desk: Desk, memory_id: str, scope: Scope = ADA) -> WriteResult:
    return desk.writing.revise.restore(scope, memory_id, expected_revision=0, options=WriteOptions())


def actions(desk: Desk) -> list[ChangeAction]:
    return [change.action for change in desk.store.feed.changes_after(0, limit=100)]
