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
    from rich.console import Console
    from rich.text import Text

    from memsvc.v1 import search_service_pb2 as search_pb
    from memsvc.v1 import types_pb2 as types_pb

MILLI = 1_000
MARKS = ">=~"
WHOLE = (">", "=")
"""The marks of columns that are never narrowed."""
LEAST_TEXT = 16
"""The least width of a column of texts; with less room for it, records are drawn in place of a table."""
SHOWN_CHARS = 100
"""The beginning of a content that every table shows on a wide terminal."""
BORDER = 3
"""The width of a border and the space on both sides of it."""
BIDI_CONTROLS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Embeddings, overrides and isolates, which show a text in another order than it is stored in."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in b"\t\n"}
_BIDI_ESCAPES = {code: f"\\u{code:04x}" for code in BIDI_CONTROLS}
_ESCAPES = _CONTROLS | _BIDI_ESCAPES
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)} | _BIDI_ESCAPES
"""Escapes of what `json.dumps` leaves as it is; it escapes the characters below U+0020 itself."""


def visible(text: str) -> str:
    r"""Return *text* with escapes such as `\x1b` in place of the characters that control a terminal.

    These are the C0 controls other than line feed and tab, DEL, the C1 controls, and `BIDI_CONTROLS`. CR LF becomes LF.
    A pipe needs the escapes, too: a pager or another terminal may be at its end.
    """
    return text.replace("\r\n", "\n").translate(_ESCAPES)


def write(line: str = "") -> None:
    """Write a line to stdout, without characters that control a terminal."""
    print(visible(line))  # noqa: T201 - the command line


def flush() -> None:
    """Hand over what was written, to a pipe too: what comes next may be long in coming."""
    sys.stdout.flush()


def write_json(message: Message) -> None:
    """Write a message as one line of JSON, with the API's field names."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - a quick start

    write_json_value(MessageToDict(message, always_print_fields_with_no_presence=True))


def write_json_value(value: object) -> None:
    r"""Write a value as one line of JSON, with `\u` escapes in place of the characters that control a terminal."""
    write(json.dumps(value, ensure_ascii=False).translate(_JSON_ESCAPES))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str = "") -> None:
    """Write a table: drawn on a terminal, else a line for each row with tabs between.

    The first sign of a column's name says how it is drawn: ">" to the right, for numbers; "=" in one piece; "~" cut
    where the terminal ends. A terminal shows those last, and gets a line for each cell when it is too narrow
    for the table. Cells of str are escaped as by `visible`; a Text must be already.
    """
    names = [column.lstrip(MARKS) for column in columns]
    body: list[Sequence[str | Text]] = [
        [visible(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    ]
    if not sys.stdout.isatty():
        if title:
            write(title)
        for row in (names, *body):
            write("\t".join(_flat(str(cell)) for cell in row))
        return
    from rich.console import Console  # noqa: PLC0415 - a quick start

    console = Console()
    if not body:
        console.print(f"{title}: none." if title else "None.", highlight=False)
        return
    # Stable: texts that are cut come last, the others stay in their order.
    order = sorted(range(len(columns)), key=lambda place: columns[place].startswith("~"))
    columns, names = [columns[place] for place in order], [names[place] for place in order]
    body = [[row[place] for place in order] for row in body]
    widths = _widths(columns, names, body, console.width)
    if widths is None:
        _draw_records(console, columns, body, title)
    else:
        _draw_table(console, columns, body, title, widths)


def _widths(
    columns: Sequence[str], names: Sequence[str], body: Sequence[Sequence[str | Text]], total: int
) -> list[int] | None:
    """Return the width of each column; texts share what the others leave. None: they could not be read."""
    from rich.cells import cell_len  # noqa: PLC0415

    most = [max(cell_len(name), *(cell_len(str(row[place])) for row in body)) for place, name in enumerate(names)]
    widths = [
        full if column.startswith(WHOLE) else min(full, max(cell_len(name), LEAST_TEXT))
        for column, name, full in zip(columns, names, most, strict=True)
    ]
    room = total - sum(widths) - BORDER * len(widths) - 1
    if room < 0:
        return None
    while room and (narrow := [place for place, width in enumerate(widths) if width < most[place]]):
        for place in narrow[:room]:
            widths[place] += 1
        room -= min(room, len(narrow))
    return widths


def _draw_table(
    console: Console, columns: Sequence[str], body: Iterable[Sequence[str | Text]], title: str, widths: Iterable[int]
) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", title_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.lstrip(MARKS),
            justify="right" if column.startswith(">") else "left",
            no_wrap=column.startswith(tuple(MARKS)),
            overflow="ellipsis" if column.startswith("~") else "fold",
            width=width,
        )
    for row in body:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    console.print(table)


def _draw_records(console: Console, columns: Sequence[str], body: Iterable[Sequence[str | Text]], title: str) -> None:
    """Draw a line for each cell, for terminals on which the columns of a table have no room."""
    from rich.text import Text  # noqa: PLC0415

    indent = max(len(column.lstrip(MARKS)) for column in columns) + 2
    if title:
        console.print(Text(title, "bold"))
    for number, row in enumerate(body):
        if number or title:
            console.print()
        for column, cell in zip(columns, row, strict=True):
            value = Text(cell) if isinstance(cell, str) else cell.copy()
            if not value.plain:
                continue
            name = Text(column.lstrip(MARKS).ljust(indent), "bold")
            if column.startswith("~"):
                value = Text(" ").join(value.split())
                value.truncate(max(console.width - indent, 1), overflow="ellipsis")
            if column.startswith("=") and indent + value.cell_len > console.width:
                # In one piece, so that it can be copied.
                console.print(name)
                console.print(value, soft_wrap=True)
                continue
            lines = value.wrap(console, max(console.width - indent, 1))
            for first, line in enumerate(lines):
                console.print(Text.assemble(name if not first else " " * indent, line), soft_wrap=True)


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

    text = Text(visible(hit.snippet))
    for span in hit.spans:
        # An escape is longer than its character.
        start, end = (len(visible(hit.snippet[:place])) for place in (span.start, span.end))
        text.stylize("bold yellow", start, end)
    return Text.assemble((visible(said), "dim"), text)


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


def heading_of(memory: Any, separator: str = " - ") -> str:
    """Return the title of a memory and *separator*; empty if the beginning of the content repeats it."""
    from memsvc.domain.memory import repeats_title  # noqa: PLC0415 - a quick start

    return "" if repeats_title(memory.title, memory.content[:SHOWN_CHARS]) else f"{memory.title}{separator}"


def shortened(text: str, width: int) -> str:
    """Return the beginning of *text* on one line."""
    flat = _flat(text)
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def written_ref(ref: types_pb.FileRef) -> str:
    """Return a reference to a file as it is written in texts, such as `chart:c1`."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    return f"{types_pb.FileCategory.Name(ref.category).removeprefix('FILE_CATEGORY_').lower()}:{ref.id}"
