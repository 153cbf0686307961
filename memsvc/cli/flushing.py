"""The command that extracts memories from whole conversations: `memsvc flush`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memsvc.cli.capture import TEXT_WIDTH, say_redactions
from memsvc.cli.conflicts import tell_conflicts
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.output import shortened, write, write_json, write_table
from memsvc.cli.parsing import STDIN, stdin_lines, utf8_lines

if TYPE_CHECKING:
    from memsvc.v1 import capture_pb2 as messages

MOST_MESSAGES, MOST_CHARS = 1_000, 1_000_000
"""What one call takes; longer conversations are flushed in parts."""
ROLES = ("user", "assistant", "system", "tool")
_FIELDS = {"role", "content", "speaker", "name"}


@connected
def flush(
    session: CliContext,
    *,
    path: Annotated[
        str, typer.Argument(help='JSON Lines of messages, {"role": …, "content": …}; "-" for stdin.', metavar="PATH")
    ] = "",
    session_id: Annotated[
        str, typer.Option("--session", help="Flush the messages of this session instead.", metavar="ID")
    ] = "",
) -> None:
    """Remember what is worth it in a conversation.

    What was remembered before is met again, not stored twice.
    """
    if bool(path) == bool(session_id):
        message = "Name either a file of messages or a session: memsvc flush PATH, or memsvc flush --session ID."
        raise CommandError(message)
    with session.client(timeout=120, conversation=session_id) as client:
        said = _of_session(client.list_messages(session_id, include_archived=True)) if session_id else _read(path)
        replies = [client.flush(part) for part in _parts(said)]
    if session.as_json:
        for reply in replies:
            write_json(reply)
        return
    _tell(replies)


def _tell(replies: Iterable[messages.FlushMessagesResponse]) -> None:
    from memsvc.v1 import types_pb2 as types  # noqa: PLC0415 - a quick start

    rows, ignored, notices = [], 0, []
    for reply in replies:
        for memory, outcome in zip(reply.memories, reply.outcomes, strict=True):
            told = types.WriteOutcome.Name(outcome).removeprefix("WRITE_OUTCOME_").lower()
            kind = types.MemoryKind.Name(memory.kind).removeprefix("MEMORY_KIND_").lower()
            scope = memory.scope.project_id or "global"
            rows.append((told, scope, kind, shortened(memory.content, TEXT_WIDTH), memory.id))
        ignored += reply.ignored_count
        notices += [reply.notice] if reply.notice else []
        tell_conflicts(reply.conflicts)
        say_redactions(reply.redactions)
    write_table(("=outcome", "=scope", "=kind", "~text", "memory"), rows)
    write(f"{len(rows)} remembered, {ignored} statements ignored")
    for notice in dict.fromkeys(notices):
        print_error(f"memsvc: {notice}")


def _parts(said: Iterable[messages.ChatMessage]) -> Iterator[list[messages.ChatMessage]]:
    """Yield the messages in parts that one call takes."""
    part: list[messages.ChatMessage] = []
    length = 0
    for message in said:
        if part and (len(part) == MOST_MESSAGES or length + len(message.content) > MOST_CHARS):
            yield part
            part, length = [], 0
        part.append(message)
        length += len(message.content)
    if part:
        yield part


def _of_session(kept: Iterable[Any]) -> Iterator[messages.ChatMessage]:
    from memsvc.v1 import capture_pb2 as messages  # noqa: PLC0415 - a quick start

    for message in kept:
        yield messages.ChatMessage(
            role=message.role, content=message.content, speaker=message.name, event_time=message.time
        )


def _read(path: str) -> list[messages.ChatMessage]:
    """Return the messages of a file, or of stdin.

    Raises:
        CommandError: There is no such file, or a line of it is no message.
    """
    if path == STDIN:
        return _messages(stdin_lines(), "stdin")
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return _messages(utf8_lines(lines, repr(path)), repr(path))
    except OSError as error:
        message = f"{path!r} cannot be read: {error.strerror}."
        raise CommandError(message) from error


def _messages(lines: Iterable[str], name: str) -> list[messages.ChatMessage]:
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(_message(json.loads(line)))
        except (ValueError, RecursionError) as error:
            message = f"Line {number} of {name} is no message: {error}"
            raise CommandError(message) from error
    return found


def _message(given: object) -> messages.ChatMessage:
    """Return the message of a line.

    Raises:
        ValueError: It is none; the message says why.
    """
    from memsvc.v1 import capture_pb2 as messages  # noqa: PLC0415 - a quick start
    from memsvc.v1 import types_pb2 as types  # noqa: PLC0415

    if not isinstance(given, dict) or not isinstance(given.get("content"), str):
        problem = 'it must be an object like {"role": "user", "content": "I prefer tea."}.'
        raise ValueError(problem)  # noqa: TRY004 - told like every other fault of a line
    if unknown := sorted(given.keys() - _FIELDS):
        problem = f"it has a field {unknown[0]!r}, but may have {', '.join(sorted(_FIELDS))}."
        raise ValueError(problem)
    role, speaker = given.get("role", "user"), given.get("speaker", given.get("name", ""))
    if role not in ROLES or not isinstance(speaker, str):
        problem = f"the role must be {', '.join(ROLES)}, and the speaker a text."
        raise ValueError(problem)
    number = types.MessageRole.Value(f"MESSAGE_ROLE_{role.upper()}")
    return messages.ChatMessage(role=number, content=given["content"], speaker=speaker)
