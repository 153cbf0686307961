"""What becomes of work in progress when its time is over: it says that it is finished."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memsvc.domain.limits import CONTENT, TAGS
from memsvc.domain.memory import Memory
from memsvc.text.analysis import is_han

FINISHED = "finished"
"""The tag of finished work."""
_UNFINISHED = frozenset(
    {"wip", "work-in-progress", "work_in_progress", "work in progress", "in-progress", "in_progress", "in progress"}
    | {"进行中", "進行中", "未完成"}
)
"""Tags that finished work loses, in lower case."""


def finished_values(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return the new values of a work whose time is over: no longer in progress, and text and tags that say so.

    The text stays, with a line below it in its language, unless it would become too long. The tag is left out where
    there is no room for another.
    """
    content = f"{memory.content}\n\n{_line(memory, now)}"
    tags = [tag for tag in memory.tags if tag.lower() not in _UNFINISHED and tag != FINISHED]
    return {
        "work_in_progress": False,
        # Another layer than SHORT_TERM no longer expires, and that one gets its 14 days.
        "expire_time": None,
        "content": content if len(content) <= CONTENT else memory.content,
        "tags": (*tags, FINISHED) if len(tags) < TAGS else tuple(tags),
    }


def _line(memory: Memory, now: datetime) -> str:
    day = (memory.expire_time or now).date().isoformat()
    return f"（已完成：期限为 {day}。）" if is_han(memory.content) else f"(Finished: its time was over on {day}.)"
