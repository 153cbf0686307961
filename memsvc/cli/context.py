"""The commands that gather what an agent should know: context, load."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ContextSection
from memsvc.cli.errors import print_error
from memsvc.cli.moments import MACHINE_ZONE, in_zone
from memsvc.cli.output import date_of, heading_of, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import ContextOptions, Memsvc, request_types
    from memsvc.v1 import types_pb2 as types_pb

CONTENT_WIDTH = 100
T = TypeVar("T")


@connected
def context(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="Query of the context, such as the last message.")] = "",
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", "--total-tokens", min=1, help="Token budget.  [default: that of the service]"),
    ] = None,
    section: Annotated[list[ContextSection] | None, typer.Option(help="Only this section. May be repeated.")] = None,
    locale: Annotated[str, typer.Option(help="Language of headings: en or zh.")] = "",
    time_zone: Annotated[str, typer.Option(help=f"Time zone of dates, such as Asia/Shanghai.  {MACHINE_ZONE}")] = "",
    since: Annotated[str, typer.Option(help="Cursor of an earlier context: return only changes since.")] = "",
    resume: Annotated[str, typer.Option(help="With --json: resume after the event with this cursor.")] = "",
    stream: Annotated[bool, typer.Option("--stream", help="With --json: write each event as it arrives.")] = False,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Share of core, session, short_term or long_term, such as core=0.2. The others are then 0."),
    ] = None,
    relevant_limit: Annotated[
        int,
        typer.Option(min=0, max=100, help="Maximum number of retrieved memories.  [default: 50]", show_default=False),
    ] = 0,
    min_score: options.MinScore = 0.0,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
    full_ids: Annotated[bool, typer.Option("--full-ids", help="Cite memories by id instead of a short mark.")] = False,
    conversation: options.Conversation = "",
) -> None:
    """Build the context of an agent's next step.

    The context is Markdown on stdout; what was left out, and the cursor of the context, go to stderr. Layers, kinds,
    tags, days and importance narrow what the query retrieves.
    """
    asked: ContextOptions = {
        "locale": locale,
        "earlier_cursor": since,
        "relevant_limit": relevant_limit,
        "min_score": min_score,
        "filters": options.filters(layer, kind, tag, last_days, min_importance),
    }
    if share:
        asked["shares"] = options.shares(share)
    if (moment := options.as_of(as_of, valid_at)) is not None:
        asked["as_of"] = moment
    if full_ids:
        asked["citation_style"] = "MEMORY_ID"
    if tokens is not None:
        asked["total_tokens"] = tokens
    if section:
        asked["sections"] = [cast("request_types.Section", one.name) for one in section]
    with session.client(conversation=conversation) as client:
        if (stream or resume) and session.as_json:
            for event in in_zone(
                time_zone, lambda zone: _begun(client.build_context(query, cursor=resume, **_in_zone(asked, zone)))
            ):
                write_json(event)
            return
        _show(session, client, query, time_zone, asked)


def _in_zone(asked: ContextOptions, zone: str) -> ContextOptions:
    return {**asked, "time_zone": zone}


def _begun(events: Iterator[T]) -> Iterator[T]:
    """Return a stream once its first event, or its error, has arrived."""
    return chain(list(islice(events, 1)), events)


def _show(session: CliContext, client: Memsvc, query: str, time_zone: str, asked: ContextOptions) -> None:
    rendered = in_zone(time_zone, lambda zone: client.render_context(query, **_in_zone(asked, zone)))
    if session.as_json:
        write_json(rendered)
        return
    write(rendered.markdown.rstrip("\n"))
    for warning in rendered.warnings:
        print_error(f"memsvc: {warning.message}")
    summary = rendered.summary
    print_error(f"{rendered.token_count} of {summary.total_tokens} tokens; cursor {summary.context_cursor}")


@connected
def load(
    session: CliContext,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of each list.")] = 50,
    zone: Annotated[str, typer.Option(help=f"Time zone of the user, such as Asia/Shanghai.  {MACHINE_ZONE}")] = "",
) -> None:
    """Show what an agent loads at its start.

    Core and active memories, preferences, due reminders.
    """
    with session.client() as client:
        found = in_zone(zone, lambda zone: client.load_core(limit=limit, time_zone=zone))
    if session.as_json:
        write_json(found)
        return
    from memsvc.client import currency_of  # noqa: PLC0415 - a quick start

    marks = {one.memory_id: f"({currency_of(one)}) " for one in found.currencies}
    rows = [
        (name, memory.id, date_of(memory), f"{marks.get(memory.id, '')}{_line(memory)}")
        for name, memories in (
            ("core", found.core),
            ("active", found.active),
            ("preference", found.preferences),
            ("reminder", found.reminders),
        )
        for memory in memories
    ]
    if rows:
        write_table(("=as", "=id", "=date", "~content"), rows)
    else:
        print_error("Nothing is to be loaded.")
    if found.incomplete:
        print_error("There are more; ask with a larger --limit.")


def _line(memory: types_pb.Memory) -> str:
    return shortened(f"{heading_of(memory)}{memory.content}", CONTENT_WIDTH)
