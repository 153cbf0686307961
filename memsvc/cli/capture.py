"""The commands that turn what was said or written into memories: capture, append, ingest."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.conflicts import tell_conflicts
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import DocumentKind, OnDuplicate, Role
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.output import shortened, write, write_json, write_table
from memsvc.cli.parsing import given_text

if TYPE_CHECKING:
    from typing import Literal

    from memsvc.client import DocumentFields, request_types
    from memsvc.v1 import capture_pb2 as messages
    from memsvc.v1 import types_pb2 as types

TEXT_WIDTH = 80
KEY_CHARS = 256
TODAY = "today"
DAILY = "daily/"


@connected
def capture(
    session: CliContext,
    *,
    text: Annotated[str, typer.Argument(help='What was said; "-" reads it from stdin.')],
    role: Annotated[Role, typer.Option(help="Who said it.")] = Role.USER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be remembered.")] = False,
    conversation: options.Conversation = "",
) -> None:
    """Remember what is worth it in a text."""
    said = given_text(text)
    with session.client(conversation=conversation, timeout=120) as client:
        reply = client.capture(said, role=cast("request_types.Role", role.name), dry_run=dry_run)
    if session.as_json:
        write_json(reply)
        return
    write_table(("=remember", "=why", "=scope", "=kind", "~text", "memory"), [_row(one) for one in reply.decisions])
    tell_conflicts(conflict for decision in reply.decisions for conflict in decision.conflicts)
    say_redactions(reply.redactions)
    if reply.notice:
        print_error(f"memsvc: {reply.notice}")


def _row(decision: messages.CaptureDecision) -> tuple[str, ...]:
    from memsvc.v1 import capture_pb2 as messages  # noqa: PLC0415 - a quick start
    from memsvc.v1 import types_pb2 as types  # noqa: PLC0415

    reason = messages.CaptureReason.Name(decision.reason).removeprefix("CAPTURE_REASON_").lower()
    kind = types.MemoryKind.Name(decision.memory.kind).removeprefix("MEMORY_KIND_").lower() if decision.remember else ""
    scope = (decision.memory.scope.project_id or "global") if decision.remember else ""
    return (
        "yes" if decision.remember else "no",
        reason.replace("_", " "),
        scope,
        kind,
        shortened(decision.text, TEXT_WIDTH),
        decision.memory.id,
    )


def say_redactions(redactions: object) -> None:
    """Say on stderr which secrets were replaced, if any were."""
    told = ", ".join(f"{one.count} {one.kind}" for one in cast("list[types.Redaction]", redactions))
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
    separator: Annotated[str | None, typer.Option(help="What stands before it.  [default: a line break]")] = None,
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
    key: Annotated[str, typer.Option(help="A name of your own.  [default: the file's name]")] = "",
    kind: Annotated[
        DocumentKind | None, typer.Option(help="What it is.  [default: skill for SKILL.md, else document]")
    ] = None,
    title: Annotated[str, typer.Option(help="A short heading.  [default: the document's]")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A label to filter by. May be repeated.")] = None,
    on_duplicate: Annotated[OnDuplicate, typer.Option(help="If it is there.")] = OnDuplicate.RETURN_EXISTING,
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
