"""The import command: memories from JSON Lines or from Markdown documents."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain
from typing import TYPE_CHECKING, Annotated, cast
from uuid import uuid4

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ConflictPolicy, ImportFormat, OnDuplicate, OtherSystem
from memsvc.cli.errors import FAILED, CommandError, print_error
from memsvc.cli.output import heading_of, progress_bar, shortened, write, write_json, write_json_value, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memsvc.cli.import_sources import Entry, Source
    from memsvc.client import request_types
    from memsvc.v1 import errors_pb2 as errors_pb
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb

SHOWN_FAILURES = 20
SHOWN_MEMORIES = 20
SHOWN_CHARS = 120
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
    system: Annotated[
        OtherSystem | None,
        typer.Option("--from", help="The paths are exports of another system: files, directories or archives."),
    ] = None,
    source_user: Annotated[
        str, typer.Option(help="The user in the other system, where its export has several.", metavar="ID")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; change nothing.")] = False,
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
    """Import JSON Lines, Markdown or other systems' data.

    A line of JSON is one memory with the API's field names, as `memsvc list --json` writes them. A Markdown document
    becomes a memory for each section, and updates those when it is imported again. What comes from another system has a
    key made of its id there, so a second import adds only what is new.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    sources = _sources(paths, form, system, source_user)
    if dry_run:
        _show(session, list(chain.from_iterable(source.entries for source in sources)))
        return
    total = None if any(source.count is None for source in sources) else sum(source.count or 0 for source in sources)
    name = request_id or str(uuid4())
    entries = _Entries(chain.from_iterable(source.entries for source in sources))
    try:
        last = _import(session, entries, total=total, request_id=name, wait=wait, actions=(on_duplicate, on_conflict))
    except MemsvcCallError as error:
        if error.code.name in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"} and error.reason != "REQUEST_ID_REUSED":
            _print_how_to_go_on(name)
        raise
    except KeyboardInterrupt:
        _print_how_to_go_on(name)
        raise
    # A line that is no memory counts like a memory that the service refused.
    last.received_count += entries.bad_lines
    last.failed_count += entries.bad_lines
    if last.failed_count > entries.shown:
        print_error(f"memsvc: {last.failed_count - entries.shown:,} more were not stored.")
    if entries.unstored_keys > SHOWN_FAILURES:
        print_error(f"memsvc: {entries.unstored_keys - SHOWN_FAILURES:,} more keys were not stored.")
    if session.as_json:
        write_json(last)
    else:
        write(
            f"{last.next_index + entries.bad_lines:,} read: {last.created_count:,} created,"
            f" {last.updated_count:,} updated, {last.duplicate_count:,} already there, {last.failed_count:,} failed,"
            f" {last.conflict_count:,} conflicts"
            f" ({last.memories_per_second:,.0f} a second)"
        )
        if entries.left_out:
            write(f"{entries.left_out:,} parts without text, such as images, were left out.")
    if last.failed_count:
        raise typer.Exit(FAILED)


def _sources(paths: list[str], form: ImportFormat, system: OtherSystem | None, source_user: str) -> list[Source]:
    from memsvc.cli.import_sources import read_source  # noqa: PLC0415 - a quick start

    if system is None:
        if source_user:
            message = "--source-user goes with --from."
            raise CommandError(message)
        return [read_source(path, form) for path in paths]
    from memsvc.cli.importers import read_export  # noqa: PLC0415

    return [read_export(system, path, source_user=source_user) for path in paths]


def _print_how_to_go_on(request_id: str) -> None:
    print_error(f"memsvc: Go on with the same command and --request-id {request_id}")


def _show(session: CliContext, entries: list[Entry]) -> None:
    """Show what would be imported: a summary by kind, and the first memories; as JSON all of them, line by line."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    memories = [entry.memory for entry in entries if entry.memory is not None]
    if session.as_json:
        for memory in memories:
            write_memory_line(memory)
        return
    kinds = Counter(types_pb.MemoryKind.Name(memory.kind or types_pb.MEMORY_KIND_FACT) for memory in memories)
    rows = []
    for name, count in kinds.most_common():
        times = sorted(
            memory.event_time.ToDatetime()
            for memory in memories
            if memory.HasField("event_time")
            and types_pb.MemoryKind.Name(memory.kind or types_pb.MEMORY_KIND_FACT) == name
        )
        span = f"{times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}" if times else ""
        rows.append((name.removeprefix("MEMORY_KIND_").lower(), f"{count:,}", span))
    write_table(("=kind", ">memories", "=from"), rows, title="Would be imported")
    shown = [
        (
            f"{memory.event_time.ToDatetime():%Y-%m-%d}" if memory.HasField("event_time") else "",
            memory.speaker,
            memory.key,
            shortened(f"{heading_of(memory, ': ')}{memory.content}", SHOWN_CHARS),
        )
        for memory in memories[:SHOWN_MEMORIES]
    ]
    write()
    write_table(("=time", "=speaker", "key", "~text"), shown, title=f"The first {len(shown)} of {len(memories):,}")
    left_out = sum(entry.is_left_out for entry in entries)
    faults = [entry for entry in entries if entry.memory is None and not entry.is_left_out]
    if left_out:
        write(f"{left_out:,} parts without text, such as images, would be left out.")
    for entry in faults[:SHOWN_FAILURES]:
        print_error(f"memsvc: {entry.place} cannot be imported: {entry.fault}.")
    if faults:
        print_error(f"memsvc: {len(faults):,} in all cannot be imported.")
        raise typer.Exit(FAILED)


def write_memory_line(memory: types_pb.Memory) -> None:
    """Write a memory as a line that `memsvc import` takes."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - a quick start

    write_json_value(MessageToDict(memory, preserving_proto_field_name=True))


class _Entries:
    """The memories of an import on their way to the service, and the report of those that are not stored.

    Attributes:
        bad_lines: Lines that were no memory.
        left_out: Parts of another system's export that no memory is made of.
        shown: Failures that were reported; further ones are counted only.
        unstored_keys: Memories whose content was stored already, under another key than theirs.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = entries
        self._first = 0
        self._places: deque[str] = deque()
        self.bad_lines = 0
        self.left_out = 0
        self.shown = 0
        self.unstored_keys = 0

    def memories(self) -> Iterator[types_pb.Memory]:
        """Yield the memories; report lines that are none, and go on."""
        for entry in self._entries:
            if entry.is_left_out:
                self.left_out += 1
            elif entry.memory is None:
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
        for unstored in progress.unstored_keys:
            self.unstored_keys += 1
            if self.unstored_keys <= SHOWN_FAILURES:
                place = self._places[unstored.index - self._first]
                print_error(f"memsvc: {place}: the key was not stored: {unstored.memory_id} has the same content.")
        # What concerns memories below next_index has been reported, unless there is more than a response holds.
        is_whole = len(progress.failures) + len(progress.unstored_keys) < FAILURES_IN_RESPONSE
        while is_whole and self._places and self._first < progress.next_index:
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
