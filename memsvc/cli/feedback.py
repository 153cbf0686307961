"""The commands about reports of use: feedback report, feedback list, feedback status."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import UseOutcome
from memsvc.cli.errors import CommandError
from memsvc.cli.output import local_time, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import request_types
    from memsvc.v1 import search_service_pb2 as search_pb

WIDTH = 60
TIME = "%Y-%m-%d %H:%M:%S"
app = typer.Typer(help="Report which memories were used, and list the reports.", no_args_is_help=True)


@app.command()
@connected
def report(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    used: Annotated[list[str] | None, typer.Option(help="Id or citation of a used memory. May be repeated.")] = None,
    ignored: Annotated[list[str] | None, typer.Option(help="The same of one that was not needed.")] = None,
    wrong: Annotated[list[str] | None, typer.Option(help="The same of one that was found wrong.")] = None,
    query: Annotated[str, typer.Option(help="The query that found the memories.")] = "",
    context: Annotated[str, typer.Option(help="Cursor of the context that citations such as m3 are of.")] = "",
    conversation: options.Conversation = "",
) -> None:
    """Report which memories were used, ignored or wrong.

    All of one search or context.
    """
    if not (used or ignored or wrong):
        message = "Give a memory with --used, --ignored or --wrong."
        raise typer.BadParameter(message)
    _require_context([*(used or ()), *(ignored or ()), *(wrong or ())], context)
    with session.client(conversation=conversation) as client:
        reply = client.report_use(
            used=used or (), ignored=ignored or (), wrong=wrong or (), query=query, context_cursor=context
        )
    if session.as_json:
        write_json(reply)
        return
    write(f"{reply.stored_count} reports stored")
    names = [*(used or ()), *(ignored or ()), *(wrong or ())]
    for place in reply.missing:
        write(f"Not found: {names[place]}")


def _require_context(names: list[str], context: str) -> None:
    """Refuse what is neither an id nor can be a citation.

    Raises:
        CommandError: A name is no id, and there is no context of which it could be a citation.
    """
    from memsvc.client.to_proto import use_report  # noqa: PLC0415 - a quick start

    wrong = [] if context else [name for name in names if use_report(name, "USED").citation]
    if wrong:
        message = f"{wrong[0]!r} is no id of a memory; a citation such as m3 needs --context, its context's cursor."
        raise CommandError(message)


@app.command("list")
@connected
def list_reports(
    session: CliContext,
    *,
    outcome: Annotated[UseOutcome | None, typer.Option(help="Only this outcome.")] = None,
    memory: Annotated[str, typer.Option(help="Only reports about the memory with this id.")] = "",
    everywhere: Annotated[bool, typer.Option("--all-sessions", help="Include those of all sessions.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 50,
    conversation: options.Conversation = "",
) -> None:
    """List reports, newest first.

    For a review take --outcome wrong.
    """
    wanted = None if outcome is None else cast("request_types.UseOutcome", outcome.name)
    with session.client(conversation=conversation) as client:
        found = client.use_reports(
            outcome=wanted,
            memory_id=memory,
            session_visibility="ALL" if everywhere else "CURRENT",
            page_size=min(limit, 1_000),
        )
        reports = list(islice(found, limit))
    if session.as_json:
        for one in reports:
            write_json(one)
        return
    write_table(("=time", "=memory", "=outcome", "~query"), [_row(one) for one in reports])


@app.command()
@connected
def status(session: CliContext) -> None:
    """Show whether reports affect the user's ranking."""
    with session.client() as client:
        state = client.use_feedback()
    if session.as_json:
        write_json(state)
        return
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415 - a quick start

    name = search_pb.UseFeedbackState.Name(state.state).removeprefix("USE_FEEDBACK_STATE_").lower().replace("_", " ")
    counts, replay = state.counts, state.replay
    write(f"state: {name}; searches use it by default: {'yes' if state.enabled else 'no'}")
    write(f"reports: {counts.used_count} used, {counts.ignored_count} ignored, {counts.wrong_count} wrong")
    if state.HasField("replay"):
        write(
            f"last replay: {replay.tested_count} queries, mean reciprocal rank {replay.mrr_without:.3f} without and "
            f"{replay.mrr_with:.3f} with reports (standard error {replay.standard_error:.3f})"
        )


def _row(one: search_pb.StoredUseReport) -> tuple[str, ...]:
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415 - a quick start

    outcome = search_pb.UseOutcome.Name(one.outcome).removeprefix("USE_OUTCOME_").lower()
    return f"{local_time(one.report_time):{TIME}}", one.memory_id, outcome, shortened(one.query, WIDTH)
