"""The commands about conflicts and supersession: supersede, conflicts list, detect and resolve."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ConflictPolicy, ConflictState, Layer, Resolution
from memsvc.cli.moments import moment_option
from memsvc.cli.options import given_text, in_utc
from memsvc.cli.output import shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import request_types
    from memsvc.v1 import types_pb2 as types_pb

WIDTH = 60
app = typer.Typer(help="List contradictions and resolve them.", no_args_is_help=True)


@connected
def supersede(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Id of the memory to replace.", metavar="ID")],
    content: Annotated[str, typer.Argument(help='The new text; "-" reads it from stdin.')] = "",
    by: Annotated[str, typer.Option(help="Id of an existing memory that replaces it, instead of a new text.")] = "",
    conversation: options.Conversation = "",
) -> None:
    """Replace a memory with a new one.

    Searches leave out the old one; its history stays.
    """
    if bool(content) == bool(by):
        message = "Give the new text, or the id of a memory with --by."
        raise typer.BadParameter(message)
    text = given_text(content)
    with session.client(conversation=conversation) as client:
        reply = client.supersede(memory_id, text, by=by)
    if session.as_json:
        write_json(reply)
        return
    write(f"{reply.memory.id} supersedes {reply.superseded.id}")
    tell_conflicts(reply.conflicts)


@app.command("list")
@connected
def list_conflicts(
    session: CliContext,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    state: Annotated[list[ConflictState] | None, typer.Option(help="Only this state. May be repeated.")] = None,
    memory: Annotated[str, typer.Option(help="Only conflicts of the memory with this id.")] = "",
    conversation: options.Conversation = "",
) -> None:
    """List conflicts, newest first.

    The open ones, unless --state names others.
    """
    states = [cast("request_types.ConflictState", one.name) for one in state or [ConflictState.OPEN]]
    with session.client(conversation=conversation) as client:
        found = list(islice(client.conflicts(states=states, memory_id=memory, page_size=min(limit, 1_000)), limit))
    if session.as_json:
        for conflict in found:
            write_json(conflict)
        return
    write_table(("=conflict", "=state", "~older", "~newer"), [_row(conflict) for conflict in found])
    for conflict in found:
        if _state(conflict) == "open":
            write(f"{conflict.id}: {conflict.question}")


@app.command()
@connected
def detect(
    session: CliContext,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Preview; change nothing.")] = False,
    since: Annotated[
        datetime | None, moment_option("Compare only memories created then or later with earlier ones.")
    ] = None,
    layer: Annotated[list[Layer] | None, typer.Option(help="Only memories of this layer. May be repeated.")] = None,
    on_conflict: Annotated[ConflictPolicy, typer.Option(help="Treatment of the older memory.")] = ConflictPolicy.MARK,
) -> None:
    """Detect contradictions between stored memories."""
    layers = [cast("request_types.Layer", one.name) for one in layer or ()]
    policy = cast("request_types.ConflictPolicy", on_conflict.name)
    begin = None if since is None else in_utc(since)
    examined = count = 0
    with session.client() as client:
        for progress in client.detect_conflicts(layers=layers, since=begin, conflict_policy=policy, dry_run=dry_run):
            examined, count = progress.examined_count, progress.conflict_count
            if session.as_json:
                write_json(progress)
            else:
                tell_conflicts(progress.conflicts)
    if not session.as_json:
        write(f"{examined:,} memories compared, {count:,} conflicts{' found' if dry_run else ' stored'}.")


@app.command()
@connected
def resolve(
    session: CliContext,
    *,
    conflict_id: Annotated[str, typer.Argument(help="Conflict id.", metavar="CONFLICT")],
    resolution: Annotated[
        Resolution, typer.Argument(help="Confirm the newer memory, reject it, or keep both.", show_default=False)
    ],
    conversation: options.Conversation = "",
) -> None:
    """Settle an open conflict."""
    with session.client(conversation=conversation) as client:
        reply = client.resolve(conflict_id, cast("request_types.Resolution", resolution.name))
    if session.as_json:
        write_json(reply)
    else:
        write(f"{conflict_id} {_state(reply.conflict)}")


def tell_conflicts(conflicts: Iterable[types_pb.Conflict]) -> None:
    """Say what a written memory contradicts, a line for each conflict, and what to ask the user."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    for conflict in conflicts:
        said = f"{_state(conflict)}: {conflict.older_value} -> {conflict.newer_value} ({conflict.topic})"
        write(f"{conflict.id} {said}".lstrip())
        if conflict.state == types_pb.CONFLICT_STATE_OPEN:
            write(f"  {conflict.question}")


def _row(conflict: types_pb.Conflict) -> tuple[str, str, str, str]:
    older, newer = (_shown(memory) for memory in (conflict.older_memory, conflict.newer_memory))
    return conflict.id, _state(conflict), older or conflict.older_value, newer or conflict.newer_value


def _shown(memory: types_pb.Memory) -> str:
    return shortened(memory.content, WIDTH)


def _state(conflict: types_pb.Conflict) -> str:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    return types_pb.ConflictState.Name(conflict.state).removeprefix("CONFLICT_STATE_").lower().replace("_", "-")
