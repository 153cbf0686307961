"""The search command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Mode, WordMatch
from memsvc.cli.errors import FAILED, print_error, with_commands
from memsvc.cli.output import (
    date_of,
    highlighted,
    milliseconds,
    write,
    write_json,
    write_table,
    written_ref,
)
from memsvc.domain.files import FileCategory as Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text

    from memsvc.client import Memsvc, SearchOptions, request_types
    from memsvc.client.search import SearchScope
    from memsvc.v1 import file_service_pb2 as file_pb
    from memsvc.v1 import search_service_pb2 as search_pb


@connected
def search(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="Query, in any language.")],
    mode: Annotated[Mode, typer.Option(help="Search by meaning, by words, or by both.")] = Mode.HYBRID,
    words: Annotated[
        WordMatch, typer.Option(help="Let a word also match keywords that begin with it or contain it.")
    ] = WordMatch.WHOLE,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of hits.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the scores and show timings.")] = False,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    key_prefix: options.KeyPrefix = "",
    number: options.Numbers = None,
    min_score: options.MinScore = 0.0,
    min_relevance: Annotated[
        float, typer.Option(min=0, max=1, help="Minimum relevance: the probability that a hit answers the query.")
    ] = 0.0,
    collapse: Annotated[bool, typer.Option("--collapse", help="Collapse hits that say nearly the same.")] = False,
    diverse: Annotated[
        bool, typer.Option("--diverse", help="Prefer hits that differ from the hits above them.")
    ] = False,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Reorder the best hits with the reranker of the service.")
    ] = False,
    long_term_first: Annotated[
        bool, typer.Option("--long-term-first", help="Raise the scores of long-term and core memories.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show word hits first, then all.")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Search files, reports and charts too; of the options only --limit then applies."),
    ] = False,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
    conversation: options.Conversation = "",
) -> None:
    """Find memories."""
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415 - a quick start

    asked: SearchOptions = {
        "mode": cast("request_types.SearchMode", mode.name),
        "word_match": cast("request_types.WordMatch", words.name),
        "limit": limit,
        "explain": explain,
        "min_score": min_score,
        "min_relevance": min_relevance,
        "filters": options.filters(layer, kind, tag, last_days, min_importance, key_prefix=key_prefix, numbers=number),
    }
    if collapse:
        asked["collapsing"] = search_pb.Collapsing()
    if diverse:
        asked["diversity"] = search_pb.Diversity()
    if rerank:
        asked["reranking"] = search_pb.Reranking()
    if long_term_first:
        asked["weighting"] = search_pb.Weighting(preset=search_pb.WEIGHTING_PRESET_LONG_TERM_FIRST)
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

    search_everything(session, client, query, limit=limit)


def _tell(session: CliContext, reply: search_pb.SearchResponse, *, explain: bool) -> None:
    if session.as_json:
        write_json(reply)
    else:
        show_hits(reply, explain=explain)


def _stream(session: CliContext, answers: Iterable[search_pb.StreamSearchResponse], *, explain: bool) -> None:
    for answer in answers:
        is_early = answer.WhichOneof("answer") == "early"
        if session.as_json:
            write_json(answer)
        else:
            reply = answer.early if is_early else answer.fused
            show_hits(reply, explain=explain, title="By words" if is_early else "By all")


FACTORS = frozenset({"scale", "time_weighting", "layer", "ceiling", "rerank", "depth"})
"""The boosts that a score is multiplied with; the others are added."""


def show_hits(reply: search_pb.SearchResponse, *, explain: bool = False, title: str = "") -> None:
    """Write the hits of a search as a table, and what was amiss to stderr."""
    columns = [">score", "=date", "found"]
    if explain:
        columns.append("why")
    if explain or not sys.stdout.isatty():
        columns.append("=memory")
    if sys.stdout.isatty():
        columns.sort(key=lambda column: column == "found")
    if reply.hits:
        write_table(columns, [_cells(hit, columns) for hit in reply.hits], title=title)
    else:
        print_error("Nothing fits.")
    if reply.archived_hits:
        write_table(columns, [_cells(hit, columns) for hit in reply.archived_hits], title="Archived")
    if explain and reply.timings:
        write(", ".join(f"{timing.stage} {milliseconds(timing.duration)} ms" for timing in reply.timings))
    _report_search(reply)


def _report_search(reply: search_pb.SearchResponse) -> None:
    """Write to stderr what a search says about its hits."""
    if reply.hits and reply.nothing_relevant:
        print_error("No memory clearly answers the query: these are the nearest.")
    for degraded in reply.degraded:
        print_error(f"memsvc: The hits are incomplete: {degraded.message or degraded.reason}")
    if reply.embedded_query_chars:
        print_error(f"memsvc: Only the first {reply.embedded_query_chars} characters were searched by meaning.")
    for skipped in reply.skipped:
        print_error(f"memsvc: Left out: {skipped.stage} ({skipped.reason})")


def _cells(hit: search_pb.Hit, columns: Sequence[str]) -> list[str | Text]:
    from memsvc.domain.memory import repeats_title  # noqa: PLC0415 - a quick start

    who = hit.memory.speaker or hit.heading_path or hit.memory.title
    if not hit.memory.speaker and repeats_title(who, hit.snippet):
        who = ""
    cells: dict[str, str | Text] = {
        ">score": f"{hit.score:.3f}",
        "=date": date_of(hit.memory),
        "found": highlighted(hit, who),
        "why": why(hit),
        "=memory": hit.memory.id,
    }
    return [cells[column] for column in columns]


def why(hit: search_pb.Hit) -> str:
    """Say in a line which retrievers found a hit and what changed its score."""
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415 - a quick start

    parts = [
        f"{search_pb.Retriever.Name(found.retriever).removeprefix('RETRIEVER_').lower()} #{found.rank}"
        f" {found.raw_score:.2f}"
        for found in hit.explanation.retrievers
    ]
    parts += [
        f"{boost.name} ×{boost.value:.3f}" if boost.name in FACTORS else f"{boost.name} {boost.value:+.3f}"
        for boost in hit.explanation.boosts
    ]
    if hit.HasField("relevance"):
        parts.append(f"relevance {hit.relevance:.2f}")
    return ", ".join(parts)


# Commands that search files: file search, file resolve, and search --all.


_COLUMNS = (">score", "=reference", "name", "url", "passage")
SHOWN_CHARS = 100
"""Length of a passage in a table."""
_SCOPE_OF = {Category.REPORT: "REPORTS", Category.CHART: "CHARTS"}


@connected
def search_files(
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="Query, in any language.")],
    category: Annotated[list[Category] | None, typer.Option(help="Only this category. May be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of hits of each group.")] = 10,
) -> None:
    """Find files by name, category and notes.

    By words, best first.
    """
    wanted = set(category or Category)
    groups: list[SearchScope] = [
        one for one in ("FILES", "REPORTS", "CHARTS") if one in {_SCOPE_OF.get(each, "FILES") for each in wanted}
    ]
    with session.client() as client:
        reply = client.search_all(query, groups=groups, limit=limit)
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    numbers = {types_pb.FileCategory.Value(f"FILE_CATEGORY_{one.name}") for one in wanted}
    hits = [hit for hit in (*reply.files, *reply.reports, *reply.charts) if hit.file.ref.category in numbers]
    hits.sort(key=lambda hit: -hit.score)
    if session.as_json:
        for hit in hits:
            write_json(hit)
        return
    _show("", hits)


@connected
def resolve(
    session: CliContext,
    *,
    references: Annotated[list[str], typer.Argument(help="References such as chart:ID.", metavar="REF...")],
) -> None:
    """Show the targets of references.

    Exits with 1 when one leads to nothing.
    """
    pairs = [_reference_parts(reference) for reference in references]
    with session.client() as client:
        found = client.resolve_file_refs(pairs)
    if session.as_json:
        for one in found:
            write_json(one)
    else:
        write_table(("=reference", "name", "url"), [(_reference(one), _name(one), _url(one)) for one in found])
    if any(not one.HasField("file") for one in found):
        raise typer.Exit(FAILED)


def _reference_parts(reference: str) -> tuple[str, str]:
    """Return category and id of a reference.

    Raises:
        typer.BadParameter: It has no category, or one that does not exist.
    """
    category, _, name = reference.partition(":")
    categories = [one.name.lower() for one in Category]
    if not name or category.lower() not in categories:
        message = f"{reference!r} is not CATEGORY:ID, with one of {', '.join(categories)}."
        raise typer.BadParameter(message, param_hint="REF")
    return category, name


def search_everything(session: CliContext, client: Memsvc, query: str, *, limit: int) -> None:
    """Find memories and files, and show them group by group."""
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415 - a quick start

    reply = client.search_all(query, limit=limit)
    if session.as_json:
        write_json(reply)
        return

    memories = search_pb.SearchResponse(
        hits=reply.memories,
        degraded=reply.degraded,
        nothing_relevant=reply.nothing_relevant,
        embedded_query_chars=reply.embedded_query_chars,
    )
    show_hits(memories, title="Memories")
    for title, hits in (("Files", reply.files), ("Reports", reply.reports), ("Charts", reply.charts)):
        if hits:
            _show(title, hits)


def _show(title: str, hits: Iterable[search_pb.FileHit]) -> None:
    rows: Sequence[tuple[str, ...]] = [
        (f"{hit.score:.3f}", _reference(hit.file), _name(hit.file), _url(hit.file), _passage(hit)) for hit in hits
    ]
    if rows:
        write_table(_COLUMNS, rows, title=title)
    else:
        print_error("Nothing fits.")


def _reference(one: file_pb.ResolvedFileRef) -> str:
    return written_ref(one.ref)


def _passage(hit: search_pb.FileHit) -> str:
    """Return where the best passage of a hit is, and its beginning."""
    if not hit.passages:
        return ""
    best = hit.passages[0]
    place = f"page {best.page}, line {best.start_line}" if best.page else f"line {best.start_line}"
    text = " ".join(best.snippet.split())
    return f"{place}: {text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + '…'}"


def _name(one: file_pb.ResolvedFileRef) -> str:
    return one.file.name if one.HasField("file") else with_commands(one.status.message)


def _url(one: file_pb.ResolvedFileRef) -> str:
    return one.download_url or one.preview_url
