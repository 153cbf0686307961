"""The commands that turn what was said or written into memories: capture, append, ingest."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memsvc.cli import options
from memsvc.cli.conflicts import tell_conflicts
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import DocumentKind, OnDuplicate, Role
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.options import STDIN, UTF8, given_text, stdin_lines, utf8_lines
from memsvc.cli.output import shortened, write, write_json, write_table

if TYPE_CHECKING:
    from typing import Literal

    from memsvc.client import DocumentFields, request_types
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb


TEXT_WIDTH = 80
KEY_CHARS = 256
TODAY = "today"
DAILY = "daily/"


@connected
def capture(
    session: CliContext,
    *,
    text: Annotated[str, typer.Argument(help='What was said; "-" reads it from stdin.')],
    role: Annotated[Role, typer.Option(help="Speaker.")] = Role.USER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Preview; store nothing.")] = False,
    conversation: options.Conversation = "",
) -> None:
    """Store what is worth remembering in a text."""
    said = given_text(text)
    with session.client(conversation=conversation, timeout=120) as client:
        reply = client.capture(said, role=cast("request_types.Role", role.name), dry_run=dry_run)
    if session.as_json:
        write_json(reply)
        return
    write_table(("=remember", "=why", "=scope", "=kind", "~text", "=memory"), [_row(one) for one in reply.decisions])
    tell_conflicts(conflict for decision in reply.decisions for conflict in decision.conflicts)
    say_redactions(reply.redactions)
    session.write_notice(reply.notice)


def _row(decision: memory_pb.CaptureDecision) -> tuple[str, ...]:

    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415 - a quick start
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    reason = memory_pb.CaptureReason.Name(decision.reason).removeprefix("CAPTURE_REASON_").lower()
    kind = (
        types_pb.MemoryKind.Name(decision.memory.kind).removeprefix("MEMORY_KIND_").lower() if decision.remember else ""
    )
    scope = (decision.memory.scope.project_id or "global") if decision.remember else ""
    return (
        "yes" if decision.remember else "no",
        reason.replace("_", " "),
        scope,
        kind,
        shortened(decision.statement, TEXT_WIDTH),
        decision.memory.id,
    )


def say_redactions(redactions: object) -> None:
    """Say on stderr which secrets were replaced, if any were."""
    told = ", ".join(f"{one.match_count} {one.kind}" for one in cast("list[types_pb.Redaction]", redactions))
    if told:
        print_error(f"memsvc: Secrets were replaced before anything was stored: {told}")


@connected
def append(
    session: CliContext,
    *,
    key: Annotated[
        str,
        typer.Argument(help='The memory\'s key: "today" or daily/YYYY-MM-DD, context/NAME, knowledge/world/KEY, any.'),
    ],
    content: Annotated[str, typer.Argument(help='The text to add; "-" reads it from stdin.')],
    separator: Annotated[str | None, typer.Option(help="Text before the addition.  [default: a line break]")] = None,
    conversation: options.Conversation = "",
) -> None:
    """Add text to a memory by its key."""
    text = given_text(content)
    name = f"{DAILY}{datetime.now().astimezone():%Y-%m-%d}" if key == TODAY else key
    with session.client(conversation=conversation) as client:
        reply = client.append(name, text, separator=separator)
    if session.as_json:
        write_json(reply)
        return
    write(f"{reply.memory.id} {name} {'created' if reply.outcome == 1 else 'appended to'}")
    tell_conflicts(reply.conflicts)
    say_redactions(reply.redactions)


@connected
def ingest(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    path: Annotated[str, typer.Argument(help='A Markdown or text file; "-" for stdin.', metavar="PATH")],
    key: Annotated[str, typer.Option(help="Key.  [default: the file name]")] = "",
    kind: Annotated[
        DocumentKind | None, typer.Option(help="Kind.  [default: skill for SKILL.md, else document]")
    ] = None,
    title: Annotated[str, typer.Option(help="Title.  [default: that of the document]")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Tag. May be repeated.")] = None,
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="Action for content that exists already.")
    ] = OnDuplicate.RETURN_EXISTING,
) -> None:
    """Store a document or a skill as one memory.

    Ingesting a file again replaces its text. `memsvc import` makes a memory of each section instead.
    """
    name = "" if path == "-" else Path(path).name
    fields: DocumentFields = {"name": name, "key": key or name[:KEY_CHARS], "title": title, "tags": tag or []}
    if kind is not None:
        fields["kind"] = cast("Literal['DOCUMENT', 'SKILL']", kind.name)
    with session.client(timeout=120) as client:
        chosen = cast("request_types.OnDuplicate", on_duplicate.name)
        reply = client.ingest(_bytes(path), on_duplicate=chosen, **fields)
    if session.as_json:
        write_json(reply)
        return
    outcome = {1: "created", 2: "updated", 3: "already there"}.get(reply.outcome, "stored")
    write(f"{reply.memory.id} {outcome}, {reply.chunk_count} chunks: {reply.memory.title}")
    say_redactions(reply.redactions)


def _bytes(path: str) -> bytes:
    """Return the bytes of a file or of stdin.

    Raises:
        CommandError: There is no such file.
    """
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"{path!r} cannot be read: {error.strerror}."
        raise CommandError(message) from error


# The command that extracts memories from whole conversations: `memsvc flush`.


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
    """Store what is worth remembering in a conversation.

    What was remembered before is not stored twice.
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


def _tell(replies: Iterable[memory_pb.FlushMessagesResponse]) -> None:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    rows, ignored, notices = [], 0, []
    for reply in replies:
        for result in reply.results:
            memory = result.memory
            told = types_pb.WriteOutcome.Name(result.outcome).removeprefix("WRITE_OUTCOME_").lower()
            kind = types_pb.MemoryKind.Name(memory.kind).removeprefix("MEMORY_KIND_").lower()
            scope = memory.scope.project_id or "global"
            rows.append((told, scope, kind, shortened(memory.content, TEXT_WIDTH), memory.id))
        ignored += reply.ignored_count
        notices += [reply.notice] if reply.notice else []
        tell_conflicts([conflict for result in reply.results for conflict in result.conflicts])
        say_redactions(reply.redactions)
    write_table(("=outcome", "=scope", "=kind", "~text", "=memory"), rows)
    write(f"{len(rows)} remembered, {ignored} statements ignored")
    for notice in dict.fromkeys(notices):
        print_error(f"memsvc: {notice}")


def _parts(said: Iterable[types_pb.ChatMessage]) -> Iterator[list[types_pb.ChatMessage]]:
    """Yield the messages in parts that one call takes."""
    part: list[types_pb.ChatMessage] = []
    length = 0
    for message in said:
        if part and (len(part) == MOST_MESSAGES or length + len(message.content) > MOST_CHARS):
            yield part
            part, length = [], 0
        part.append(message)
        length += len(message.content)
    if part:
        yield part


def _of_session(kept: Iterable[Any]) -> Iterator[types_pb.ChatMessage]:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    for message in kept:
        yield types_pb.ChatMessage(
            role=message.role, content=message.content, speaker=message.speaker, event_time=message.event_time
        )


def _read(path: str) -> list[types_pb.ChatMessage]:
    """Return the messages of a file, or of stdin.

    Raises:
        CommandError: There is no such file, or a line of it is no message.
    """
    if path == STDIN:
        return _messages(stdin_lines(), "stdin")
    try:
        with Path(path).open(encoding=UTF8) as lines:
            return _messages(utf8_lines(lines, repr(path)), repr(path))
    except OSError as error:
        message = f"{path!r} cannot be read: {error.strerror}."
        raise CommandError(message) from error


def _messages(lines: Iterable[str], name: str) -> list[types_pb.ChatMessage]:
    from memsvc.json_faults import syntax_fault  # noqa: PLC0415 - a quick start

    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if broken := syntax_fault(line):
            message = f"Line {number} of {name} is no message: {broken}."
            raise CommandError(message)
        try:
            found.append(_message(json.loads(line)))
        except ValueError as error:
            message = f"Line {number} of {name} is no message: {error}"
            raise CommandError(message) from error
    return found


def _message(given: object) -> types_pb.ChatMessage:
    """Return the message of a line.

    Raises:
        ValueError: It is none; the message says why.
    """
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    if not isinstance(given, dict) or not isinstance(given.get("content"), str):
        problem = 'it must be an object like {"role": "user", "content": "I prefer tea."}.'
        raise ValueError(problem)  # noqa: TRY004 - reported like every other fault of a line
    if unknown := sorted(given.keys() - _FIELDS):
        problem = f"it has a field {unknown[0]!r}, but may have {', '.join(sorted(_FIELDS))}."
        raise ValueError(problem)
    role, speaker = given.get("role", "user"), given.get("speaker", given.get("name", ""))
    if role not in ROLES or not isinstance(speaker, str):
        problem = f"the role must be {', '.join(ROLES)}, and the speaker a text."
        raise ValueError(problem)
    number = types_pb.MessageRole.Value(f"MESSAGE_ROLE_{role.upper()}")
    return types_pb.ChatMessage(role=number, content=given["content"], speaker=speaker)
