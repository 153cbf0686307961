"""The commands about memories as files: vault sync, vault status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED
from memsvc.cli.output import progress_bar, write, write_json

if TYPE_CHECKING:
    from memsvc.v1 import admin_service_pb2 as admin_pb


ACTION = "VAULT_ACTION_"
FAULTY = ("INVALID",)

app = typer.Typer(name="vault", help="Synchronise memories with Markdown files.", no_args_is_help=True)

AllUsers = Annotated[bool, typer.Option("--all-users", help="Include all users of the service.")]


@app.command()
@connected
def sync(
    session: CliContext,
    *,
    rewrite_all: Annotated[
        bool, typer.Option("--rewrite-all", help="Rewrite all files, including missing ones.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
    all_users: AllUsers = False,
) -> None:
    """Synchronise files and memories, both ways.

    Exits with 1 when a file cannot be taken back.
    """
    summary = _run(session, rewrite_all=rewrite_all, dry_run=dry_run, all_users=all_users, shown=True)
    if summary is not None and any(summary.count_by_action.get(name) for name in FAULTY):
        raise typer.Exit(FAILED)


@app.command()
@connected
def status(session: CliContext, *, all_users: AllUsers = False) -> None:
    """Show what a synchronisation would do.

    Nothing is changed. Exits with 1 when it would do anything.
    """
    summary = _run(session, rewrite_all=False, dry_run=True, all_users=all_users, shown=False)
    if summary is not None and summary.count_by_action:
        raise typer.Exit(FAILED)


def _run(
    session: CliContext, *, rewrite_all: bool, dry_run: bool, all_users: bool, shown: bool
) -> admin_pb.VaultSummary | None:
    summary: admin_pb.VaultSummary | None = None
    with session.client() as client, progress_bar("vault", shown=not session.as_json) as bar:
        for event in client.sync_vault(all_users=all_users, rewrite_all=rewrite_all, dry_run=dry_run):
            if session.as_json and (shown or event.HasField("summary")):
                write_json(event)
            if event.HasField("progress"):
                bar(event.progress.done_count, None, event.progress.phase)
            elif event.HasField("change") and shown and not session.as_json:
                write(line_of(event.change))
            elif event.HasField("summary"):
                summary = event.summary
    if summary is not None and not session.as_json:
        write(_summed_up(summary, dry_run=dry_run))
    return summary


def line_of(change: admin_pb.VaultChange) -> str:
    """Return what was done with one file, in one line."""
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    action = admin_pb.VaultAction.Name(change.action).removeprefix(ACTION).lower().replace("_", " ")
    place = f"{change.path}:{change.line}" if change.line else change.path
    return "\t".join(part for part in (action, place, change.memory_id, change.detail) if part)


def _summed_up(summary: admin_pb.VaultSummary, *, dry_run: bool) -> str:
    counts = sorted(summary.count_by_action.items())
    done = ", ".join(f"{count:,} {name.lower().replace('_', ' ')}" for name, count in counts) or "nothing"
    behind = f", {summary.pending_count:,} changes are still being written" if summary.pending_count else ""
    verb = "to do" if dry_run else "done"
    return f"{summary.file_count:,} files, {summary.known_count:,} known; {verb}: {done}{behind}"
