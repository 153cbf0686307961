"""The search command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Mode
from memsvc.cli.errors import print_error
from memsvc.cli.output import date_of, highlighted, milliseconds, write, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text

    from memsvc.client import Memsvc, SearchOptions, request_types
    from memsvc.v1 import search_service_pb2 as searches


@connected
def search(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    mode: Annotated[Mode, typer.Option(help="By meaning, by words, or by both.")] = Mode.HYBRID,
    limit: Annotated[int, typer.Option(min=1, max=100, help="At most so many hits.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how each score came about, and what took how long.")
    ] = False,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    min_score: options.MinScore = 0.0,
    collapse: Annotated[bool, typer.Option("--collapse", help="Show what says nearly the same once.")] = False,
    diverse: Annotated[bool, typer.Option("--diverse", help="Let what is new weigh in.")] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Have the service's reranker order the best hits.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show what words find first, then all.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Look for files, reports and charts, too; only --limit counts then.")
    ] = False,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
    conversation: options.Conversation = "",
) -> None:
    """Find memories."""
    from memsvc.v1 import search_service_pb2 as searches  # noqa: PLC0415 - a quick start

    asked: SearchOptions = {
        "mode": cast("request_types.SearchMode", mode.name),
        "limit": limit,
        "explain": explain,
        "min_score": min_score,
        "filters": options.filters(layer, kind, tag, last_days, min_importance),
        "collapsing": searches.Collapsing(enabled=collapse),
        "diversity": searches.Diversity(enabled=diverse),
        "reranking": searches.Reranking(enabled=rerank),
    }
    if (moment := options.as_of(as_of, valid_at)) is not None:
        asked["as_of"] = moment
    with session.client(conversation=conversation) as client:
        if everything:
            _everything(session, client, query, limit)
        elif stream:
            _stream(session, client.stream_search(query, **asked), explain=explain)
        else:
            _tell(session, client.search(query, **asked), explain=explain)


def _everything(session: CliContext, client: Memsvc, query: str, limit: int) -> None:
    from memsvc.cli.finding import search_everything  # noqa: PLC0415 - it shows hits as this does

    search_everything(session, client, query, limit=limit)


def _tell(session: CliContext, reply: searches.SearchResponse, *, explain: bool) -> None:
    if session.as_json:
        write_json(reply)
    else:
        show_hits(reply, explain=explain)


def _stream(session: CliContext, answers: Iterable[searches.StreamSearchResponse], *, explain: bool) -> None:
    for answer in answers:
        is_early = answer.WhichOneof("answer") == "early"
        if session.as_json:
            write_json(answer)
        else:
            reply = answer.early if is_early else answer.fused
            show_hits(reply, explain=explain, title="By words" if is_early else "By all")


ADDED = frozenset({"neighbour", "session", "date", "speaker"})
"""The boosts that are added to a score; the others are factors."""


def show_hits(reply: searches.SearchResponse, *, explain: bool = False, title: str = "") -> None:
    """Write the hits of a search as a table, and what was amiss to stderr."""
    columns = [">score", "=date", "found"]
    if explain:
        columns.append("why")
    if explain or not sys.stdout.isatty():
        columns.append("memory")
    if reply.hits:
        write_table(columns, [_cells(hit, columns) for hit in reply.hits], title=title)
    else:
        print_error("Nothing fits.")
    if explain and reply.timings:
        write(", ".join(f"{timing.stage} {milliseconds(timing.duration)} ms" for timing in reply.timings))
    for degraded in reply.degraded:
        print_error(f"memsvc: The hits are incomplete: {degraded.message or degraded.reason}")
    for skipped in reply.skipped:
        print_error(f"memsvc: Left out: {skipped.stage} ({skipped.reason})")


def _cells(hit: searches.Hit, columns: Sequence[str]) -> list[str | Text]:
    who = hit.memory.speaker or hit.heading_path or hit.memory.title
    cells: dict[str, str | Text] = {
        ">score": f"{hit.score:.3f}",
        "=date": date_of(hit.memory),
        "found": highlighted(hit, who),
        "why": why(hit),
        "memory": hit.memory.id,
    }
    return [cells[column] for column in columns]


def why(hit: searches.Hit) -> str:
    """Say in a line which retrievers found a hit and what changed its score."""
    from memsvc.v1 import search_service_pb2 as searches  # noqa: PLC0415 - a quick start

    parts = [
        f"{searches.Retriever.Name(found.retriever).removeprefix('RETRIEVER_').lower()} #{found.rank}"
        f" {found.raw_score:.2f}"
        for found in hit.explanation.retrievers
    ]
    parts += [
        f"{boost.name} {boost.value:+.3f}" if boost.name in ADDED else f"{boost.name} ×{boost.value:.3f}"
        for boost in hit.explanation.boosts
    ]
    return ", ".join(parts)
