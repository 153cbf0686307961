"""The commands about what changes, and about what waits for a review."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Verdict
from memsvc.cli.output import date_of, flush, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import request_types
    from memsvc.v1 import memory_service_pb2 as memory_pb

WIDTH = 100
DIGITS = 2
quarantine = typer.Typer(help="Review withheld memories.", no_args_is_help=True, rich_markup_mode=None)


@connected
def watch(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    cursor: Annotated[str, typer.Option(help="Resume after this cursor of an earlier watch.")] = "",
    oldest: Annotated[bool, typer.Option("--oldest", help="Start with the oldest stored change.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Stop after this number of changes. 0: never.")] = 0,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    min_importance: options.MinImportance = 0,
    conversation: options.Conversation = "",
) -> None:
    """Show changes of memories as they happen.

    With --json one to a line, each with the cursor to go on from.
    """
    wanted = options.filters(layer, kind, tag, 0, min_importance)
    with session.client(conversation=conversation) as client:
        told = client.watch(wanted, cursor=cursor, start="OLDEST" if oldest else "NOW")
        for response in islice(told, limit or None):
            if session.as_json:
                write_json(response)
            else:
                write(_line(response.change))
            flush()


def _line(change: memory_pb.MemoryChange) -> str:

    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415 - a quick start

    moment = change.time.ToDatetime(tzinfo=UTC).astimezone()
    action = memory_pb.MemoryChangeAction.Name(change.action).removeprefix("MEMORY_CHANGE_ACTION_").lower()
    effect = memory_pb.WatchEffect.Name(change.effect).removeprefix("WATCH_EFFECT_").lower()
    text = shortened(change.memory.content, WIDTH) if change.HasField("memory") else ""
    return f"{_clock(moment)}  {action} ({effect})  {change.memory_id}  {text}".rstrip()


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}"


@quarantine.command("list")
@connected
def list_quarantined(
    session: CliContext,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    conversation: options.Conversation = "",
) -> None:
    """List the memories that wait for a review, newest first."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    with session.client(conversation=conversation) as client:
        found = list(islice(client.quarantined(page_size=min(limit, 1_000)), limit))
    if session.as_json:
        for memory in found:
            write_json(memory)
        return
    rows = [
        (
            memory.id,
            date_of(memory),
            types_pb.MemoryOrigin.Name(memory.origin).removeprefix("MEMORY_ORIGIN_").lower(),
            f"{memory.trust:.{DIGITS}f}",
            shortened(memory.content, WIDTH),
        )
        for memory in found
    ]
    write_table(("=id", "=date", "=origin", ">trust", "~content"), rows)


@quarantine.command("review")
@connected
def review(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id.", metavar="ID")],
    verdict: Annotated[Verdict, typer.Argument(help="approve makes it active, reject deletes it.")],
    revision: Annotated[int, typer.Option(min=0, help="Expected revision. 0: any.")] = 0,
    conversation: options.Conversation = "",
) -> None:
    """Approve or reject a memory that waits for a review."""
    with session.client(conversation=conversation) as client:
        reply = client.review(memory_id, cast("request_types.Verdict", verdict.name), expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} {'approved' if verdict is Verdict.APPROVE else 'rejected'}")
