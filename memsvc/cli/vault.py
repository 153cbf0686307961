"""The commands about memories as files: vault sync, vault status."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED
from memsvc.cli.output import flush, progress_bar, write, write_json

if TYPE_CHECKING:
    from memsvc.v1 import admin_service_pb2 as admin_pb
if TYPE_CHECKING:
    from memsvc.client import Memsvc


ACTION = "VAULT_ACTION_"
FAULTY = ("INVALID",)

app = typer.Typer(name="vault", help="Memories as files: synchronise, look.", no_args_is_help=True)

AllUsers = Annotated[bool, typer.Option("--all-users", help="Of all users of the service.")]


@app.command()
@connected
def sync(
    session: CliContext,
    *,
    force: Annotated[bool, typer.Option("--force", help="Write files anew, missing ones too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be done; change nothing.")] = False,
    all_users: AllUsers = False,
) -> None:
    """Compare the files of the vault with the memories, both ways, and bring them together.

    Exits with 1 when a file cannot be taken back.
    """
    summary = _run(session, force=force, dry_run=dry_run, all_users=all_users, shown=True)
    if summary is not None and any(summary.count_by_action.get(name) for name in FAULTY):
        raise typer.Exit(FAILED)


@app.command()
@connected
def status(session: CliContext, *, all_users: AllUsers = False) -> None:
    """Say what a synchronisation would do; nothing is changed. Exits with 1 when it would do anything."""
    summary = _run(session, force=False, dry_run=True, all_users=all_users, shown=False)
    if summary is not None and summary.count_by_action:
        raise typer.Exit(FAILED)


def _run(
    session: CliContext, *, force: bool, dry_run: bool, all_users: bool, shown: bool
) -> admin_pb.VaultSummary | None:
    summary: admin_pb.VaultSummary | None = None
    with session.client() as client, progress_bar("vault", shown=not session.as_json) as bar:
        for event in client.sync_vault(all_users=all_users, force=force, dry_run=dry_run):
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


# The command that watches the files of a vault from beside the service: vault watch.


DEBOUNCE_SECONDS = 1.0


@connected
def watch(
    session: CliContext,
    *,
    directory: Annotated[
        Path | None, typer.Argument(help="The vault's folder. By default the one that the settings name.")
    ] = None,
    poll: Annotated[bool, typer.Option("--poll", help="Look again and again instead of asking for events.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="End after so many changes. 0: never.")] = 0,
    all_users: AllUsers = False,
) -> None:
    """Synchronise the vault whenever a file in it changes, and show what that comes to, until Ctrl-C.

    For a service that cannot see the edits itself: in a container whose volume tells no events, or with vault.watch =
    "off". A service that watches its vault itself needs no help.
    """
    from memsvc.settings import load_settings  # noqa: PLC0415 - a quick start

    root = directory or load_settings().vault.directory
    if root is None or not root.is_dir():
        message = "There is no such folder. Name the vault's folder, or set MEMSVC_VAULT__DIRECTORY."
        raise typer.BadParameter(message, param_hint="DIRECTORY")
    with session.client() as client:
        for shown, change in enumerate(_changes(client, root, poll=poll, all_users=all_users), start=1):
            if session.as_json:
                write_json(change)
            else:
                write(line_of(change))
            flush()
            if shown == limit:
                return


def _changes(client: Memsvc, root: Path, *, poll: bool, all_users: bool) -> Iterator[admin_pb.VaultChange]:
    """Synchronise now and after every change; yield what was done."""
    from memsvc.engine.vault.file_status import scan  # noqa: PLC0415
    from memsvc.engine.vault.watcher import (  # noqa: PLC0415 - a quick start
        WatchConfig,
        Watcher,
        WatchMode,
    )

    bell = _Bell()
    mode = WatchMode.POLLING if poll else WatchMode.EVENTS
    watcher = Watcher(root, bell, WatchConfig(mode, debounce_seconds=DEBOUNCE_SECONDS))
    watcher.start(scan(root).files)
    try:
        while True:
            for event in client.sync_vault(all_users=all_users):
                if event.HasField("change"):
                    yield event.change
            bell.wait()
    finally:
        watcher.stop()


class _Bell:
    """Rings when files changed; which ones the synchronisation finds out itself."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def present(self, paths: Sequence[str]) -> None:
        del paths
        self._rung.set()

    def gone(self, paths: Sequence[str]) -> None:
        del paths
        self._rung.set()

    def wait(self) -> None:
        self._rung.wait()
        self._rung.clear()
