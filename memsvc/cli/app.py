"""The `memsvc` command and what it consists of."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from memsvc.cli import (
    agent_hooks,
    agent_setup,
    capture,
    conflicts,
    context,
    diagnostics,
    feedback,
    files,
    health,
    history,
    import_memories,
    keys,
    maintenance,
    memories,
    migrate,
    reminders,
    search,
    serve,
    sessions,
    settings,
    user_data,
    vault,
    vault_watch,
    watch,
    webhooks,
)
from memsvc.cli.demo.run import demo
from memsvc.cli.errors import PIPE_CLOSED, abandon_stdout

app = typer.Typer(
    name="memsvc",
    help="Long-term memory for AI agents over gRPC. Start with `memsvc demo`, then `memsvc serve`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.serve)
app.command()(serve.check)
app.command()(health.health)
app.command()(demo)
app.command()(memories.add)
app.command()(memories.get)
app.command("list")(memories.list_memories)
app.command()(memories.update)
app.command()(memories.delete)
app.command("delete-matching")(memories.delete_matching)
app.command("update-matching")(memories.update_matching)
app.command()(memories.restore)
app.command()(memories.promote)
app.command()(maintenance.consolidate)
app.command("undo-consolidation")(maintenance.undo_consolidation)
app.command()(maintenance.summarize)
app.command()(maintenance.archive)
app.command()(conflicts.supersede)
app.add_typer(conflicts.app, name="conflicts")
app.command()(search.search)
app.command()(capture.capture)
app.command()(capture.flush)
app.command()(capture.append)
app.command()(capture.ingest)
app.add_typer(sessions.app, name="session")
files.app.command("search")(search.search_files)
files.app.command("resolve")(search.resolve)
app.add_typer(files.app, name="file")
app.command("history")(history.revisions)
app.command()(history.rollback)
app.add_typer(history.checkpoint, name="checkpoint")
app.command()(context.context)
app.command()(context.load)
app.command("mcp")(serve.mcp)
app.command()(agent_setup.setup)
app.command()(agent_hooks.hook)
app.command("import")(import_memories.import_memories)
app.command()(user_data.export)
app.command()(user_data.import_user)
app.command()(user_data.erase)
app.command()(user_data.backup)
app.command()(migrate.migrate_backend)
app.command()(watch.watch)
app.add_typer(watch.quarantine, name="quarantine")
vault.app.command("watch")(vault_watch.watch)
app.add_typer(vault.app, name="vault")
app.add_typer(reminders.app, name="reminders")
app.add_typer(feedback.app, name="feedback")
app.command()(diagnostics.stats)
app.add_typer(diagnostics.usage, name="usage")
app.command()(diagnostics.perf)
app.command()(diagnostics.diagnose)
app.command()(diagnostics.reindex)
app.command()(diagnostics.check_integrity)
app.command()(maintenance.maintain)
app.add_typer(keys.app, name="keys")
app.add_typer(keys.app, name="key", hidden=True)
app.add_typer(keys.quotas, name="quotas")
app.add_typer(webhooks.app, name="webhooks")
app.command()(settings.backends)
app.command()(settings.settings)
app.command()(settings.project)


def _tell_version(wanted: bool) -> None:  # noqa: FBT001 - called by typer
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - a quick start

        typer.echo(version("memsvc"))
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Long-term memory for AI agents over gRPC. Start with `memsvc demo`, then `memsvc serve`."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 141 the output was closed."""
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
