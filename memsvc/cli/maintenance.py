"""The commands that look after memories as time goes by: maintain, archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import MaintenanceStep
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.memories import MemoryId, Revision, refuse_unnamed
from memsvc.cli.output import milliseconds, progress_bar, write, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsvc.client import request_types
    from memsvc.v1 import maintenance_pb2 as pb

STEP, REASON = "MAINTENANCE_STEP_", "MAINTENANCE_REASON_"


@connected
def maintain(
    session: CliContext,
    *,
    step: Annotated[list[MaintenanceStep] | None, typer.Option(help="Only this step. May be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what is due; change nothing.")] = False,
    everybody: Annotated[bool, typer.Option("--everybody", help="For all users of the service.")] = False,
) -> None:
    """Do what is due: expire, promote, archive, sum up old logs, merge what says the same.

    It is about the project, or without one about all memories of the user. Exits with 1 when a step failed.
    """
    names = [cast("request_types.MaintenanceStep", each.name) for each in step or ()]
    tallies: Sequence[pb.MaintenanceTally] = ()
    changes: list[pb.MaintenanceChange] = []
    with session.client() as client, progress_bar("maintain", shown=not session.as_json) as bar:
        for progress in client.maintain(names, dry_run=dry_run, everybody=everybody):
            tallies = progress.tallies
            if session.as_json:
                write_json(progress)
                continue
            if dry_run:
                changes += progress.changes
            due = sum(tally.due_count for tally in tallies)
            done = sum(tally.changed_count + tally.skipped_count for tally in tallies)
            bar(due if dry_run else done, due or None, _step_name(progress.step))
    if not session.as_json:
        _show(changes, tallies, dry_run=dry_run)
    if any(tally.failure for tally in tallies):
        raise typer.Exit(FAILED)


def _show(changes: Sequence[pb.MaintenanceChange], tallies: Sequence[pb.MaintenanceTally], *, dry_run: bool) -> None:
    if changes:
        rows = [
            (_step_name(one.step), _reason_name(one.reason), one.user_id, one.project_id, one.memory_id)
            for one in changes
        ]
        write_table(("step", "because", "~user", "~project", "=memory"), rows)
    counts = [
        (
            _step_name(tally.step),
            f"{tally.due_count:,}",
            f"{tally.changed_count:,}",
            f"{tally.skipped_count:,}",
            milliseconds(tally.duration),
            "all done" if tally.complete and not dry_run else "" if tally.complete else "more is due",
        )
        for tally in tallies
    ]
    write_table(("step", ">due", ">changed", ">skipped", ">ms", "state"), counts)
    for tally in tallies:
        if tally.failure:
            print_error(f"memsvc: {_step_name(tally.step)} broke off: {tally.failure}")


def _step_name(step: pb.MaintenanceStep.ValueType) -> str:
    from memsvc.v1 import maintenance_pb2 as pb  # noqa: PLC0415 - a quick start

    return pb.MaintenanceStep.Name(step).removeprefix(STEP).lower() if step else "done"


def _reason_name(reason: pb.MaintenanceReason.ValueType) -> str:
    from memsvc.v1 import maintenance_pb2 as pb  # noqa: PLC0415 - a quick start

    return pb.MaintenanceReason.Name(reason).removeprefix(REASON).lower().replace("_", " ")


@connected
def archive(
    session: CliContext, *, memory_id: MemoryId, revision: Revision = 0, conversation: options.Conversation = ""
) -> None:
    """Put a memory out of use; `memsvc restore` brings it back."""
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.archive(memory_id, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} archived, revision {reply.memory.revision}")
