"""Exports of other systems, read as memories: each has a key of its own, so that a second import adds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from memsvc.cli.enums import OtherSystem
from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import Entry, Source
from memsvc.cli.importers.chats import chatgpt, claude
from memsvc.cli.importers.notes import basic_memory, okf
from memsvc.cli.importers.services import langgraph, letta, mem0, zep

__all__ = ["read_export"]

_READERS: dict[OtherSystem, Callable[[Path], Iterator[Entry]]] = {
    OtherSystem.CHATGPT: chatgpt,
    OtherSystem.CLAUDE: claude,
    OtherSystem.MEM0: mem0,
    OtherSystem.ZEP: zep,
    OtherSystem.LETTA: letta,
    OtherSystem.LANGGRAPH: langgraph,
    OtherSystem.BASIC_MEMORY: basic_memory,
    OtherSystem.OKF: okf,
}


def read_export(system: OtherSystem, path: str, *, source_user: str = "") -> Source:
    """Return the memories of an export of another system; *source_user* is the user there whose data is taken.

    Raises:
        CommandError: There is no such file, it is no export of that system, or it has data of several users and none
            is named.
    """
    place = Path(path)
    if not place.exists():
        message = f"There is no {path!r}."
        raise CommandError(message)
    entries = list(_READERS[system](place))
    users = sorted({entry.user for entry in entries if entry.user})
    if source_user and source_user not in users:
        known = f"; it has {', '.join(map(repr, users))}" if users else "; it names no users"
        message = f"{path!r} has nothing of the user {source_user!r}{known}."
        raise CommandError(message)
    if len(users) > 1 and not source_user:
        message = (
            f"{path!r} has data of {len(users)} users ({', '.join(map(repr, users[:5]))}{', …' if users[5:] else ''}); "
            "name one with --source-user, and import each into a user of its own."
        )
        raise CommandError(message)
    if all(entry.is_left_out for entry in entries):
        message = f"{path!r} has nothing to import."
        raise CommandError(message)
    taken = [entry for entry in entries if entry.user in {"", source_user} or not source_user]
    return Source(taken, len(taken))
