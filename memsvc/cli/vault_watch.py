"""The command vault watch: it watches the files of a vault next to the service."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import require_server
from memsvc.cli.output import flush, write, write_json
from memsvc.cli.vault import AllUsers, line_of

if TYPE_CHECKING:
    from memsvc.client import Memsvc
    from memsvc.v1 import admin_service_pb2 as admin_pb

DEBOUNCE_SECONDS = 1.0


@connected
def watch(
    session: CliContext,
    *,
    directory: Annotated[
        Path | None, typer.Argument(help="Folder of the vault.  [default: that of the settings]")
    ] = None,
    poll: Annotated[bool, typer.Option("--poll", help="Poll instead of using file-system events.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Stop after this number of changes. 0: never.")] = 0,
    all_users: AllUsers = False,
) -> None:
    """Synchronise the vault whenever a file changes.

    Shows each result, until Ctrl-C.

    For a service that cannot see the edits itself: in a container whose volume tells no events, or with vault.watch =
    "off". A service that watches its vault itself needs no help.
    """
    require_server("`memsvc vault watch`")
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
