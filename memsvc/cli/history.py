"""The commands that look back and go back: history, rollback, checkpoint."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.moments import moment_option
from memsvc.cli.options import in_utc
from memsvc.cli.output import local_time, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
    from memsvc.v1 import memory_service_pb2 as memory_pb

CONTENT_WIDTH = 80
TIME = "%Y-%m-%d %H:%M:%S"
ROLLBACK_SECONDS = 600.0

checkpoint = typer.Typer(help="Create, compare, restore, delete checkpoints.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the checkpoint.", metavar="NAME")]


@connected
def revisions(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id.", metavar="ID")],
    conversation: options.Conversation = "",
) -> None:
    """List the revisions of a memory, newest first."""
    with session.client(conversation=conversation) as client:
        found = list(client.revisions(memory_id))
    if session.as_json:
        for each in found:
            write_json(each)
        return
    write_table((">revision", "=since", "action", "changed", "~content"), [_revision(each) for each in found])


def _revision(revision: memory_pb.Revision) -> tuple[str, ...]:

    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415 - a quick start

    return (
        str(revision.revision),
        f"{local_time(revision.known_from):{TIME}}",
        memory_pb.RevisionAction.Name(revision.action).removeprefix("REVISION_ACTION_").lower(),
        ", ".join(revision.changed_fields),
        shortened(revision.memory.content, CONTENT_WIDTH),
    )


@connected
def rollback(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id.", metavar="ID")],
    revision: Annotated[int, typer.Argument(min=1, help="Revision number; `memsvc history ID` lists them.")],
    conversation: options.Conversation = "",
) -> None:
    """Restore an earlier revision of a memory."""
    with session.client(conversation=conversation) as client:
        reply = client.rollback(memory_id, revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} says what it said at revision {revision}; it is at revision {reply.memory.revision}")


@checkpoint.command("create")
@connected
def create_checkpoint(
    session: CliContext,
    *,
    name: Name,
    note: Annotated[str, typer.Option(help="Purpose of the checkpoint.")] = "",
    at: Annotated[datetime | None, moment_option("An earlier moment, local time.")] = None,
) -> None:
    """Create a checkpoint of now, or of an earlier moment."""
    with session.client() as client:
        made = client.create_checkpoint(name, note=note, known_time=None if at is None else in_utc(at))
    if session.as_json:
        write_json(made)
    else:
        write(f"{made.name} is {local_time(made.known_time):{TIME}}")


@checkpoint.command("list")
@connected
def list_checkpoints(session: CliContext) -> None:
    """List the checkpoints of the project, newest first."""
    with session.client() as client:
        found = list(client.checkpoints())
    if session.as_json:
        for each in found:
            write_json(each)
        return
    rows = [(each.name, f"{local_time(each.known_time):{TIME}}", each.note) for each in found]
    write_table(("name", "=moment", "~note"), rows)


@checkpoint.command("delete")
@connected
def delete_checkpoint(session: CliContext, *, name: Name) -> None:
    """Delete a checkpoint; memories and revisions stay."""
    with session.client() as client:
        gone = client.delete_checkpoint(name)
    if session.as_json:
        write_json(gone)
    else:
        write(f"{gone.name} is deleted")


@checkpoint.command("diff")
@connected
def diff_checkpoint(session: CliContext, *, name: Name, conversation: options.Conversation = "") -> None:
    """Show what has changed since a checkpoint."""
    with session.client(conversation=conversation) as client:
        found = list(client.diff_checkpoint(name))
    if session.as_json:
        for each in found:
            write_json(each)
        return
    write_table(("what", "=id", "changed", "~content"), [_difference(each) for each in found])


def _difference(difference: lifecycle_pb.Difference) -> tuple[str, ...]:

    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb  # noqa: PLC0415 - a quick start

    memory = difference.after if difference.HasField("after") else difference.before
    return (
        lifecycle_pb.DifferenceKind.Name(difference.kind).removeprefix("DIFFERENCE_KIND_").lower(),
        difference.memory_id,
        ", ".join(difference.changed_fields),
        shortened(memory.content, CONTENT_WIDTH),
    )


@checkpoint.command("rollback")
@connected
def rollback_to_checkpoint(
    session: CliContext,
    *,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
    conversation: options.Conversation = "",
) -> None:
    """Roll the project's memories back to a checkpoint."""
    with session.client(conversation=conversation, timeout=ROLLBACK_SECONDS) as client:
        reply = client.rollback_to_checkpoint(name, dry_run=dry_run)
    if session.as_json:
        write_json(reply)
        return
    verb = "would be" if dry_run else "were"
    write(
        f"{reply.changed_count:,} {verb} changed back, {reply.deleted_count:,} deleted,"
        f" {reply.restored_count:,} restored; {reply.unrestored_count:,} stay as they are"
    )
    if reply.unrestored:
        rows = [(each.memory_id, _unrestored_reason(each.reason), each.blocking_memory_id) for each in reply.unrestored]
        write_table(("=stays", "why", "in the way"), rows)
    if reply.undo_checkpoint:
        write(f"To undo it: memsvc checkpoint rollback {reply.undo_checkpoint}")


def _unrestored_reason(reason: lifecycle_pb.UnrestoredReason.ValueType) -> str:
    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb  # noqa: PLC0415 - a quick start

    return lifecycle_pb.UnrestoredReason.Name(reason).removeprefix("UNRESTORED_REASON_").lower().replace("_", " ")
