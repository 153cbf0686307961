"""The commands that say the same once, and sum up: consolidate, undo-consolidation, summarize."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import CommandError
from memsvc.cli.output import shortened, write, write_json, write_table
from memsvc.cli.parsing import in_utc

if TYPE_CHECKING:
    from memsvc.client import Memsvc
    from memsvc.v1 import consolidation_pb2 as pb

CONSOLIDATE_SECONDS = 600.0
CONTENT_WIDTH = 80


@connected
def consolidate(
    session: CliContext,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Merge them.  [default: only show what would be]")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The least similarity.  [default: as the service is set]"),
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


def _consolidated(client: Memsvc, threshold: float | None, *, is_dry_run: bool) -> list[pb.ConsolidateMemoriesResponse]:
    replies = [client.consolidate(dry_run=is_dry_run, threshold=threshold)]
    while replies[-1].next_page_token:
        token = replies[-1].next_page_token
        replies.append(client.consolidate(dry_run=is_dry_run, threshold=threshold, page_token=token))
    return replies


def _rows(group: pb.ConsolidatedGroup) -> list[tuple[str, ...]]:
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
    memory_id: Annotated[str, typer.Argument(help="The merged memory's id, or an original's.", metavar="ID")],
    revision: Annotated[
        int, typer.Option(min=0, help="The merged memory's revision, if it was changed since it was made.")
    ] = 0,
) -> None:
    """Take a merged memory apart again: its originals are back, it is deleted."""
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
    topic: Annotated[str, typer.Option(help="Only what speaks of this.")] = "",
    since: Annotated[datetime | None, typer.Option(help="From then on, local time, in place of a month.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Before then, local time, in place of a month.")] = None,
    tokens: Annotated[int, typer.Option(min=0, help="How long it may be; 0: as the service is set.")] = 0,
) -> None:
    """Sum up a month, a span of time or a topic in a memory, which is kept up to date under its key."""
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
