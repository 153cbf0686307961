"""Finding files: file search, file resolve, and search --all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.output import write_json, write_table
from memsvc.cli.search import show_hits
from memsvc.domain.files import FileCategory as Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memsvc.client import Memsvc
    from memsvc.client.search import SearchScope
    from memsvc.v1 import file_service_pb2 as files
    from memsvc.v1 import search_service_pb2 as searches

_COLUMNS = (">score", "=reference", "name", "url")
_SCOPE_OF = {Category.REPORT: "REPORTS", Category.CHART: "CHARTS"}


@connected
def search_files(
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    category: Annotated[list[Category] | None, typer.Option(help="Only of this one. May be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="At most so many of each group.")] = 10,
) -> None:
    """Find files by the words of their names, categories and notes, best first."""
    wanted = set(category or Category)
    scopes: list[SearchScope] = [
        one for one in ("FILES", "REPORTS", "CHARTS") if one in {_SCOPE_OF.get(each, "FILES") for each in wanted}
    ]
    with session.client() as client:
        reply = client.search_all(query, scopes=scopes, limit=limit)
    hits = [hit for hit in (*reply.files, *reply.reports, *reply.charts) if hit.file.ref.category in wanted]
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
    """Say what references lead to. Exits with 1 when one leads to nothing."""
    pairs = [tuple(reference.split(":", 1)) if ":" in reference else ("", reference) for reference in references]
    with session.client() as client:
        found = client.resolve_file_refs([(category, name) for category, name in pairs])
    if session.as_json:
        for one in found:
            write_json(one)
    else:
        write_table(("=reference", "name", "url"), [(_reference(one), _name(one), _url(one)) for one in found])
    if any(not one.HasField("file") for one in found):
        raise typer.Exit(FAILED)


def search_everything(session: CliContext, client: Memsvc, query: str, *, limit: int) -> None:
    """Find memories and files, and show them group by group."""
    reply = client.search_all(query, limit=limit)
    if session.as_json:
        write_json(reply)
        return
    from memsvc.v1 import search_service_pb2 as searches  # noqa: PLC0415 - a quick start

    show_hits(searches.SearchResponse(hits=reply.memories, degraded=reply.degraded), title="Memories")
    for title, hits in (("Files", reply.files), ("Reports", reply.reports), ("Charts", reply.charts)):
        if hits:
            _show(title, hits)


def _show(title: str, hits: Iterable[searches.FileHit]) -> None:
    rows: Sequence[tuple[str, ...]] = [
        (f"{hit.score:.3f}", _reference(hit.file), _name(hit.file), _url(hit.file)) for hit in hits
    ]
    if rows:
        write_table(_COLUMNS, rows, title=title)
    else:
        print_error("Nothing fits.")


def _reference(one: files.ResolvedFileRef) -> str:
    return f"{one.ref.category}:{one.ref.id}"


def _name(one: files.ResolvedFileRef) -> str:
    return one.file.name if one.HasField("file") else one.status.message


def _url(one: files.ResolvedFileRef) -> str:
    return one.download_url or one.preview_url
