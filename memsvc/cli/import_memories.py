"""The import command: memories from JSON Lines or from Markdown documents."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, cast
from uuid import uuid4

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ImportFormat, OnDuplicate
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.output import progress_bar, write, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memsvc.client import request_types
    from memsvc.v1 import errors_pb2 as errors_pb
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb

SHOWN_FAILURES = 20


@connected
def import_memories(
    session: CliContext,
    *,
    paths: Annotated[
        list[str],
        typer.Argument(help='Files, directories, or "-" for stdin.', metavar="PATH…"),
    ],
    form: Annotated[
        ImportFormat, typer.Option("--format", help="jsonl: one memory to a line. md: a memory for each section.")
    ] = ImportFormat.AUTO,
    request_id: Annotated[str, typer.Option(help="Name the import, to go on with it when it breaks.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Return only when searches see everything.")] = False,
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="When equal content is there.")
    ] = OnDuplicate.RETURN_EXISTING,
) -> None:
    """Import JSON Lines or Markdown.

    A line of JSON is one memory with the API's field names, as `memsvc list --json` writes them. A Markdown document
    becomes a memory for each section, and updates those when it is imported again.
    """
    from memsvc.cli.import_sources import read_source  # noqa: PLC0415 - a quick start
    from memsvc.client import MemsvcCallError  # noqa: PLC0415

    sources = [read_source(path, form) for path in paths]
    total = None if any(source.count is None for source in sources) else sum(source.count or 0 for source in sources)
    name = request_id or str(uuid4())
    try:
        last = _import(
            session,
            chain.from_iterable(source.memories for source in sources),
            total=total,
            request_id=name,
            wait=wait,
            on_duplicate=on_duplicate,
        )
    except MemsvcCallError as error:
        if error.code.name in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"} and error.reason != "REQUEST_ID_REUSED":
            print_error(f"memsvc: Go on with the same command and --request-id {name}")
        raise
    if session.as_json:
        write_json(last)
    else:
        write(
            f"{last.next_index:,} read: {last.created_count:,} created, {last.updated_count:,} updated,"
            f" {last.duplicate_count:,} already there, {last.failed_count:,} failed"
            f" ({last.memories_per_second:,.0f} a second)"
        )
    if last.failed_count:
        raise typer.Exit(FAILED)


def _import(
    session: CliContext,
    memories: Iterable[types_pb.Memory],
    *,
    total: int | None,
    request_id: str,
    wait: bool,
    on_duplicate: OnDuplicate,
) -> memory_pb.ImportMemoriesResponse:

    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415 - a quick start

    last = memory_pb.ImportMemoriesResponse()
    shown = 0
    with session.client() as client, progress_bar("import", shown=not session.as_json) as bar:
        for last in client.import_memories(
            memories,
            request_id=request_id,
            wait_for="INDEXED" if wait else "STORED",
            on_duplicate=cast("request_types.OnDuplicate", on_duplicate.name),
        ):
            bar(last.next_index, total, f"{last.memories_per_second:,.0f}/s")
            for failure in last.failures[: SHOWN_FAILURES - shown]:
                print_error(f"memsvc: memory {failure.index + 1} was not stored: {_reason(failure.status)}")
                shown += 1
    return last


def _reason(status: errors_pb.ItemStatus) -> str:
    broken = "; ".join(f"{violation.field}: {violation.description}" for violation in status.field_violations)
    return broken or status.message
