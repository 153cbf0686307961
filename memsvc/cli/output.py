"""Answers: tables for people, tab-separated lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.text import Text

    from memsvc.v1 import search_service_pb2 as search_pb
    from memsvc.v1 import types_pb2 as types_pb

MILLI = 1_000
MARKS = ">=~"


def write(line: str = "") -> None:
    """Write a line to stdout."""
    print(line)  # noqa: T201 - the command line


def flush() -> None:
    """Hand over what was written, to a pipe too: what comes next may be long in coming."""
    sys.stdout.flush()


def write_json(message: Message) -> None:
    """Write a message as one line of JSON, with the API's field names."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - a quick start

    write(json.dumps(MessageToDict(message, always_print_fields_with_no_presence=True), ensure_ascii=False))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str = "") -> None:
    """Write a table: drawn on a terminal, else a line for each row with tabs between.

    The first sign of a column's name says how it is drawn: ">" to the right, for numbers; "=" in one piece; "~" cut
    where the terminal ends.
    """
    names = [column.lstrip(MARKS) for column in columns]
    body = list(rows)
    if not sys.stdout.isatty():
        if title:
            write(title)
        for row in (names, *body):
            write("\t".join(_flat(str(cell)) for cell in row))
        return
    from rich.console import Console  # noqa: PLC0415 - a quick start

    if not body:
        Console().print(f"{title}: none." if title else "None.", highlight=False)
        return
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", title_style="bold")
    for place, (column, name) in enumerate(zip(columns, names, strict=True)):
        table.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            no_wrap=column.startswith(tuple(MARKS)),
            overflow="ellipsis" if column.startswith("~") else "fold",
            min_width=max((len(str(row[place])) for row in body), default=0) if column.startswith("=") else None,
        )
    for row in body:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    Console().print(table)


def _flat(text: str) -> str:
    return " ".join(text.split())


class _Bar(Protocol):
    def __call__(self, done: int, total: int | None, note: str) -> None: ...


@contextmanager
def progress_bar(label: str, *, shown: bool = True) -> Iterator[_Bar]:
    """Draw a bar on stderr while something goes on, when that is a terminal and *shown*."""
    if not shown or not sys.stderr.isatty():
        yield lambda done, total, note: None  # noqa: ARG005
        return
    from rich.console import Console  # noqa: PLC0415 - a quick start
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=None)

        def update(done: int, total: int | None, note: str) -> None:
            progress.update(task, completed=done, total=total, description=f"{label} {note}".strip())

        yield update


def highlighted(hit: search_pb.Hit, who: str = "") -> str | Text:
    """Return *who* and a hit's snippet with the matching words marked, where there is a terminal to mark them on."""
    said = f"{who}: " if who else ""
    if not sys.stdout.isatty():
        return f"{said}{hit.snippet}"
    from rich.text import Text  # noqa: PLC0415 - a quick start

    text = Text(hit.snippet)
    for span in hit.spans:
        text.stylize("bold yellow", span.start, span.end)
    return Text.assemble((said, "dim"), text)


def local_time(moment: Timestamp) -> datetime:
    """Return a moment on this machine's clock, or in UTC when that cannot tell it."""
    from datetime import UTC  # noqa: PLC0415

    from memsvc.text.context_phrases import local  # noqa: PLC0415 - a quick start

    return local(moment.ToDatetime(tzinfo=UTC), None)


def date_of(memory: Any) -> str:
    """Return the day on which it happened, or else was stored."""
    moment = memory.event_time if memory.HasField("event_time") else memory.create_time
    return f"{local_time(moment):%Y-%m-%d}"


def milliseconds(duration: Any) -> str:
    """Return a Duration in milliseconds."""
    return f"{duration.ToTimedelta().total_seconds() * MILLI:,.1f}"


def shortened(text: str, width: int) -> str:
    """Return the beginning of *text* on one line."""
    flat = _flat(text)
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def written_ref(ref: types_pb.FileRef) -> str:
    """Return a reference to a file as it is written in texts, such as `chart:c1`."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    return f"{types_pb.FileCategory.Name(ref.category).removeprefix('FILE_CATEGORY_').lower()}:{ref.id}"
