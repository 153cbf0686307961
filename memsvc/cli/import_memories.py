"""The import command: memories from JSON Lines or from Markdown documents."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Annotated, cast
from uuid import uuid4

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ConflictPolicy, ImportFormat, OnDuplicate
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.output import progress_bar, write, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memsvc.cli.import_sources import Entry
    from memsvc.client import request_types
    from memsvc.v1 import errors_pb2 as errors_pb
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb

SHOWN_FAILURES = 20
FAILURES_IN_RESPONSE = 1_000
"""The most failures that the service puts into one response."""


@connected
def import_memories(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    paths: Annotated[
        list[str],
        typer.Argument(help='Files, directories, or "-" for stdin.', metavar="PATH…"),
    ],
    form: Annotated[
        ImportFormat, typer.Option("--format", help="jsonl: one memory to a line. md: a memory for each section.")
    ] = ImportFormat.AUTO,
    request_id: Annotated[str, typer.Option(help="Request id of the import, to resume it.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Return when searches find everything.")] = False,
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="Action for content that exists already.")
    ] = OnDuplicate.RETURN_EXISTING,
    on_conflict: Annotated[
        ConflictPolicy | None,
        typer.Option(help="Compare what is imported, and treat older memories that it contradicts in this way."),
    ] = None,
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
    entries = _Entries(chain.from_iterable(source.entries for source in sources))
    try:
        last = _import(session, entries, total=total, request_id=name, wait=wait, actions=(on_duplicate, on_conflict))
    except MemsvcCallError as error:
        if error.code.name in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"} and error.reason != "REQUEST_ID_REUSED":
            print_error(f"memsvc: Go on with the same command and --request-id {name}")
        raise
    # A line that is no memory counts like a memory that the service refused.
    last.received_count += entries.bad_lines
    last.failed_count += entries.bad_lines
    if last.failed_count > entries.shown:
        print_error(f"memsvc: {last.failed_count - entries.shown:,} more were not stored.")
    if session.as_json:
        write_json(last)
    else:
        write(
            f"{last.next_index + entries.bad_lines:,} read: {last.created_count:,} created,"
            f" {last.updated_count:,} updated, {last.duplicate_count:,} already there, {last.failed_count:,} failed,"
            f" {last.conflict_count:,} conflicts"
            f" ({last.memories_per_second:,.0f} a second)"
        )
    if last.failed_count:
        raise typer.Exit(FAILED)


class _Entries:
    """The memories of an import on their way to the service, and the report of those that are not stored.

    Attributes:
        bad_lines: Lines that were no memory.
        shown: Failures that were reported; further ones are counted only.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = entries
        self._first = 0
        self._places: deque[str] = deque()
        self.bad_lines = 0
        self.shown = 0

    def memories(self) -> Iterator[types_pb.Memory]:
        """Yield the memories; report lines that are none, and go on."""
        for entry in self._entries:
            if entry.memory is None:
                self.bad_lines += 1
                self._report(entry.place, entry.fault)
            else:
                self._places.append(entry.place)
                yield entry.memory

    def settle(self, progress: memory_pb.ImportMemoriesResponse) -> None:
        """Report what the service refused, by its place in the source."""
        for failure in progress.failures:
            place = self._places[failure.index - self._first]
            self._report(place, _reason(failure.status))
        # The failures below next_index have been reported, unless there are more than a response holds.
        while len(progress.failures) < FAILURES_IN_RESPONSE and self._places and self._first < progress.next_index:
            self._places.popleft()
            self._first += 1

    def _report(self, place: str, reason: str) -> None:
        if self.shown < SHOWN_FAILURES:
            self.shown += 1
            print_error(f"memsvc: {place} was not stored: {reason.rstrip('.')}.")


def _import(
    session: CliContext,
    entries: _Entries,
    *,
    total: int | None,
    request_id: str,
    wait: bool,
    actions: tuple[OnDuplicate, ConflictPolicy | None],
) -> memory_pb.ImportMemoriesResponse:
    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415 - a quick start

    last = memory_pb.ImportMemoriesResponse()
    on_duplicate, on_conflict = actions
    policy = None if on_conflict is None else cast("request_types.ConflictPolicy", on_conflict.name)
    with session.client() as client, progress_bar("import", shown=not session.as_json) as bar:
        for last in client.import_memories(
            entries.memories(),
            request_id=request_id,
            wait_for="INDEXED" if wait else "STORED",
            on_duplicate=cast("request_types.OnDuplicate", on_duplicate.name),
            conflict_policy=policy,
        ):
            bar(last.next_index + entries.bad_lines, total, f"{last.memories_per_second:,.0f}/s")
            entries.settle(last)
    return last


def _reason(status: errors_pb.ItemStatus) -> str:
    broken = "; ".join(
        f"{violation.field.removeprefix('memory.')}: {violation.description}" for violation in status.field_violations
    )
    return broken or status.message
