"""The commands that look after memories as time goes by: maintain, archive."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import MaintenanceStep
from memsvc.cli.errors import FAILED, CommandError, print_error
from memsvc.cli.memories import MemoryId, Revision, refuse_unnamed
from memsvc.cli.moments import moment_option
from memsvc.cli.options import in_utc
from memsvc.cli.output import milliseconds, progress_bar, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsvc.client import Memsvc, request_types
    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb

STEP, REASON = "MAINTENANCE_STEP_", "MAINTENANCE_REASON_"


@connected
def maintain(
    session: CliContext,
    *,
    step: Annotated[list[MaintenanceStep] | None, typer.Option(help="Only this step. May be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Preview; change nothing.")] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Include all users of the service.")] = False,
) -> None:
    """Run the maintenance that is due.

    Steps: expire, promote, archive, summarise old logs, merge what says the same.

    It is about the project, or without one about all memories of the user. Exits with 1 when a step failed.
    """
    names = [cast("request_types.MaintenanceStep", each.name) for each in step or ()]
    tallies: Sequence[lifecycle_pb.MaintenanceTally] = ()
    changes: list[lifecycle_pb.MaintenanceChange] = []
    with session.client() as client, progress_bar("maintain", shown=not session.as_json) as bar:
        for progress in client.maintain(names, dry_run=dry_run, all_users=all_users):
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


def _show(
    changes: Sequence[lifecycle_pb.MaintenanceChange],
    tallies: Sequence[lifecycle_pb.MaintenanceTally],
    *,
    dry_run: bool,
) -> None:
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


def _step_name(step: lifecycle_pb.MaintenanceStep.ValueType) -> str:

    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb  # noqa: PLC0415 - a quick start

    return lifecycle_pb.MaintenanceStep.Name(step).removeprefix(STEP).lower() if step else "done"


def _reason_name(reason: lifecycle_pb.MaintenanceReason.ValueType) -> str:

    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb  # noqa: PLC0415 - a quick start

    return lifecycle_pb.MaintenanceReason.Name(reason).removeprefix(REASON).lower().replace("_", " ")


@connected
def archive(
    session: CliContext, *, memory_id: MemoryId, revision: Revision = 0, conversation: options.Conversation = ""
) -> None:
    """Archive a memory, so that searches leave it out.

    `memsvc restore` makes it active again.
    """
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.archive(memory_id, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} archived, revision {reply.memory.revision}")


# The commands that say the same once, and sum up: consolidate, undo-consolidation, summarize.


CONSOLIDATE_SECONDS = 600.0
CONTENT_WIDTH = 80


@connected
def consolidate(
    session: CliContext,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Merge them.  [default: preview]")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Minimum similarity.  [default: that of the service]"),
    ] = None,
) -> None:
    """Merge memories of the project that say the same.

    Without --apply nothing is changed. What was merged can be taken apart by `memsvc undo-consolidation`.
    """
    with session.client(timeout=CONSOLIDATE_SECONDS) as client:
        replies = _consolidated(client, threshold, is_dry_run=not apply)
    if session.as_json:
        for reply in replies:
            write_json(reply)
        return
    groups = [group for reply in replies for group in reply.groups]
    examined, skipped = (sum(getattr(reply, name) for reply in replies) for name in ("examined_count", "skipped_count"))
    if groups:
        write_table(("what", "=id", ">similar", "~content"), [row for group in groups for row in _rows(group)])
    left = f", left since they were changed meanwhile: {skipped:,}" if skipped else ""
    write(f"groups {'merged' if apply else 'to merge'}: {len(groups):,}, memories looked at: {examined:,}{left}")
    if groups and not apply:
        write("To merge them: memsvc consolidate --apply")


def _consolidated(
    client: Memsvc, threshold: float | None, *, is_dry_run: bool
) -> list[lifecycle_pb.ConsolidateMemoriesResponse]:
    replies = [client.consolidate(dry_run=is_dry_run, threshold=threshold)]
    while replies[-1].next_page_token:
        token = replies[-1].next_page_token
        replies.append(client.consolidate(dry_run=is_dry_run, threshold=threshold, page_token=token))
    return replies


def _rows(group: lifecycle_pb.ConsolidatedGroup) -> list[tuple[str, ...]]:
    merged = group.merged
    rows: list[tuple[str, ...]] = [
        ("merged", merged.id, f"{group.similarity:.2f}", shortened(merged.content, CONTENT_WIDTH))
    ]
    rows += [("  from", one.id, "", shortened(one.content, CONTENT_WIDTH)) for one in group.originals]
    return rows


@connected
def undo_consolidation(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Id of the merged memory, or of an original.", metavar="ID")],
    revision: Annotated[
        int, typer.Option(min=0, help="Revision of the merged memory, if it was changed since the merge.")
    ] = 0,
) -> None:
    """Undo a merge: restore the originals.

    The merged memory is deleted.
    """
    with session.client() as client:
        reply = client.undo_consolidation(memory_id, expected_revision=revision)
    if session.as_json:
        write_json(reply)
        return
    write_table(("=back", "~content"), [(one.id, shortened(one.content, CONTENT_WIDTH)) for one in reply.originals])
    write(f"{reply.merged.id} is deleted")


@connected
def summarize(
    session: CliContext,
    *,
    month: Annotated[str, typer.Argument(help="A month, such as 2026-02.  [default: all time]")] = "",
    topic: Annotated[str, typer.Option(help="Only memories about this topic.")] = "",
    since: Annotated[datetime | None, moment_option("From then on, local time, in place of a month.")] = None,
    until: Annotated[datetime | None, moment_option("Before then, local time, in place of a month.")] = None,
    tokens: Annotated[int, typer.Option(min=0, help="Maximum length in tokens; 0: that of the service.")] = 0,
) -> None:
    """Summarise a month, a period or a topic.

    The summary is a memory; the next summary of the same updates it by its key.
    """
    if month and (since or until):
        message = "Give a month, or --since and --until, not both."
        raise CommandError(message)
    bounds = (_utc(since), _utc(until)) if since or until else None
    with session.client(timeout=CONSOLIDATE_SECONDS) as client:
        reply = client.summarize(month, topic=topic, time_range=bounds, max_tokens=tokens)
    if session.as_json:
        write_json(reply)
        return
    write(reply.memory.content)
    write(f"{reply.memory.key}: of {reply.source_count:,} memories, {reply.memory.id}")
    if reply.notice:
        write(reply.notice)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else in_utc(moment)
