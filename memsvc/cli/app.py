"""The `memsvc` command and what it consists of."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from memsvc.cli import (
    bridging,
    capturing,
    changes,
    choosing,
    conflicts,
    consolidating,
    contexts,
    demo,
    files,
    finding,
    flushing,
    health,
    history,
    importing,
    integrity,
    keys,
    lifecycle,
    maintaining,
    memories,
    migrating,
    process,
    projects,
    reminding,
    searching,
    sessions,
    settings,
    transferring,
    vault,
    vault_watching,
    watching,
)
from memsvc.cli.failures import PIPE_CLOSED, abandon_stdout

app = typer.Typer(
    name="memsvc",
    help="Long-term memory for AI agents over gRPC. Start with `memsvc demo`, then `memsvc serve`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(process.serve)
app.command()(process.check)
app.command()(health.health)
app.command()(demo.demo)
app.command()(memories.add)
app.command()(memories.get)
app.command("list")(memories.list_memories)
app.command()(changes.update)
app.command()(changes.delete)
app.command()(changes.restore)
app.command()(changes.promote)
app.command()(consolidating.consolidate)
app.command("undo-consolidation")(consolidating.undo_consolidation)
app.command()(consolidating.summarize)
app.command()(maintaining.archive)
app.command()(conflicts.supersede)
app.add_typer(conflicts.app, name="conflicts")
app.command()(searching.search)
app.command()(capturing.capture)
app.command()(flushing.flush)
app.command()(capturing.append)
app.command()(capturing.ingest)
app.add_typer(sessions.app, name="session")
files.app.command("search")(finding.search_files)
files.app.command("resolve")(finding.resolve)
app.add_typer(files.app, name="file")
app.command("history")(history.revisions)
app.command()(history.rollback)
app.add_typer(history.checkpoint, name="checkpoint")
app.command()(contexts.context)
app.command()(contexts.load)
app.command("mcp")(bridging.mcp)
app.command("import")(importing.import_memories)
app.command()(transferring.export)
app.command()(transferring.import_user)
app.command()(transferring.erase)
app.command()(transferring.backup)
app.command()(migrating.migrate_backend)
app.command()(watching.watch)
app.add_typer(watching.quarantine, name="quarantine")
vault.app.command("watch")(vault_watching.watch)
app.add_typer(vault.app, name="vault")
app.add_typer(reminding.app, name="reminders")
app.command()(lifecycle.stats)
app.command()(lifecycle.perf)
app.command()(lifecycle.diagnose)
app.command()(lifecycle.reindex)
app.command()(integrity.check_integrity)
app.command()(maintaining.maintain)
app.add_typer(keys.app, name="keys")
app.add_typer(keys.app, name="key", hidden=True)
app.command()(choosing.backends)
app.command()(settings.settings)
app.command()(projects.project)


def _tell_version(wanted: bool) -> None:  # noqa: FBT001 - called by typer
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - a quick start

        typer.echo(version("memsvc"))
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Long-term memory for AI agents over gRPC. Start with `memsvc demo`, then `memsvc serve`."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 141 nobody reads what is written."""
    stdout = sys.stdout
    try:
        try:
            app()
        finally:
            stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
        sys.exit(PIPE_CLOSED)
    except SystemExit:
        if sys.stdout is not stdout:  # so Typer leaves it after a closed pipe
            sys.exit(PIPE_CLOSED)
        raise
