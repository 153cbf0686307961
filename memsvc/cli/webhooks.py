"""The commands about webhooks: webhooks dead-letters, retry and drop."""

from __future__ import annotations

from typing import Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.output import local_time, write, write_json, write_table

PAGE = 1_000
app = typer.Typer(help="List, retry or drop undelivered webhook events.", no_args_is_help=True)

Endpoint = Annotated[str, typer.Argument(help="Name of the endpoint in the settings.")]
Events = Annotated[list[str] | None, typer.Argument(help="Ids of events.  [default: all of the endpoint]")]


@app.command("dead-letters")
@connected
def list_dead_letters(
    session: CliContext, endpoint: Annotated[str, typer.Argument(help="Name of the endpoint.  [default: all]")] = ""
) -> None:
    """List the events that were given up."""
    with session.client() as client:
        found = list(client.dead_letters(endpoint, page_size=PAGE))
    if session.as_json:
        for letter in found:
            write_json(letter)
        return
    columns = ("endpoint", "event", "type", "user", "memory", "changed", ">attempts", "error")
    rows = [
        (
            one.endpoint, one.event_id, one.type, one.user_id, one.memory_id,
            f"{local_time(one.time):%Y-%m-%d %H:%M}", str(one.attempt_count), one.error,
        )
        for one in found
    ]  # fmt: skip
    write_table(columns, rows)


@app.command()
@connected
def retry(session: CliContext, endpoint: Endpoint, events: Events = None) -> None:
    """Deliver events again.

    An endpoint that was turned off by status 410 is turned on again.
    """
    with session.client() as client:
        count = client.retry_dead_letters(endpoint, events or ())
    write(f"{count} to be delivered again")


@app.command()
@connected
def drop(session: CliContext, endpoint: Endpoint, events: Events = None) -> None:
    """Remove events that were given up."""
    with session.client() as client:
        count = client.drop_dead_letters(endpoint, events or ())
    write(f"{count} dropped")
