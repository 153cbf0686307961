"""The import command: memories from JSON Lines or from Markdown documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import TextIOBase
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast
from uuid import uuid4

import typer
from google.protobuf.json_format import Parse, ParseError

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ImportFormat, OnDuplicate
from memsvc.cli.errors import FAILED, CommandError, print_error
from memsvc.cli.output import progress_bar, write, write_json
from memsvc.cli.parsing import stdin_lines, utf8_lines
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.user_data import FORMAT
from memsvc.text.chunking import BlockKind, blocks
from memsvc.v1 import types_pb2 as types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memsvc.client import request_types
    from memsvc.v1 import memory_service_pb2 as messages
    from memsvc.v1 import types_pb2 as types


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
            f"{last.next_index:,} read: {last.created:,} created, {last.updated:,} updated,"
            f" {last.duplicates:,} already there, {last.failed:,} failed"
            f" ({last.memories_per_second:,.0f} a second)"
        )
    if last.failed:
        raise typer.Exit(FAILED)


def _import(
    session: CliContext,
    memories: Iterable[types.Memory],
    *,
    total: int | None,
    request_id: str,
    wait: bool,
    on_duplicate: OnDuplicate,
) -> messages.ImportMemoriesResponse:
    from memsvc.v1 import memory_service_pb2 as messages  # noqa: PLC0415 - a quick start

    last = messages.ImportMemoriesResponse()
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


def _reason(status: types.ItemStatus) -> str:
    broken = "; ".join(f"{violation.field}: {violation.description}" for violation in status.field_violations)
    return broken or status.message


# What can be imported, read memory by memory.


MARKDOWN = frozenset({".md", ".markdown"})
KEY_CHARS = 256
TITLE_CHARS = 512
SOURCE_CHARS = 256
_LISTED = " Available Fields"


@dataclass(frozen=True, slots=True)
class Source:
    """Memories to be imported, and how many there are when that is known."""

    memories: Iterable[types.Memory]
    count: int | None


def read_source(path: str, form: ImportFormat) -> Source:
    """Return the memories of a file, a directory of Markdown documents, or stdin ("-").

    Raises:
        CommandError: There is no such file, or none to import in the directory. A line that is no memory raises it
            when it is read.
    """
    if path == "-":
        if form is ImportFormat.MD:
            return _documents([("stdin", "".join(stdin_lines()))])
        return Source(memories_from_lines(stdin_lines(), "stdin"), None)
    place = Path(path)
    if not place.exists():
        message = f"There is no {path!r}."
        raise CommandError(message)
    if place.is_dir():
        files = sorted(file for file in place.rglob("*") if file.suffix.lower() in MARKDOWN and file.is_file())
        if not files:
            message = f"There are no Markdown documents in {path!r}."
            raise CommandError(message)
        return _documents([(file.relative_to(place).as_posix(), _text(file)) for file in files])
    if form is ImportFormat.MD or (form is ImportFormat.AUTO and place.suffix.lower() in MARKDOWN):
        return _documents([(place.name, _text(place))])
    with place.open(encoding="utf-8") as lines:
        count = sum(1 for line in utf8_lines(lines, repr(path)) if line.strip())
    return Source(_memories_from_file(place), count)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{str(file)!r} is no UTF-8 text."
        raise CommandError(message) from error


def _documents(documents: list[tuple[str, str]]) -> Source:
    memories = [memory for name, text in documents for memory in memories_from_markdown(text, name)]
    return Source(memories, len(memories))


def _memories_from_file(path: Path) -> Iterator[types.Memory]:
    with path.open(encoding="utf-8") as lines:
        yield from memories_from_lines(lines, path.name)


def memories_from_lines(lines: IO[str] | TextIOBase | Iterable[str], name: str) -> Iterator[types.Memory]:
    """Yield a memory for each line that is not blank.

    Raises:
        CommandError: A line is no memory; the message says which line of *name* and why.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _memory(line)
            except ParseError as error:
                raise CommandError(_fault(number, name, line, error)) from error


def _fault(number: int, name: str, line: str, error: ParseError) -> str:
    """Return what is wrong with a line; the parser's own list of all that it could have been is left out."""
    if number == 1 and f'"format":"{FORMAT}"' in line.replace(" ", ""):
        return f"{name} is an export of a user: take it in with `memsvc import-user`."
    return f"Line {number} of {name} is no memory: {str(error).partition(_LISTED)[0].rstrip()}"


def _memory(line: str) -> types.Memory:
    if not line.lstrip().startswith("{"):
        message = "it is no JSON object."
        raise ParseError(message)
    return Parse(line, types.Memory())


def memories_from_markdown(text: str, name: str) -> Iterator[types.Memory]:
    """Yield a memory for each section of a document, titled with its headings and keyed by *name* and them.

    Importing an edited document again updates the sections whose headings stayed.
    """
    # A folder "daily" may hold anything, but a key "daily/…" is a day.
    place = f"./{name}" if fault_of(name) else name
    seen: Counter[str] = Counter()
    for headings, body in _sections(text):
        title = " > ".join(headings) or name
        seen[title] += 1
        number = f" ({seen[title]})" if seen[title] > 1 else ""
        yield types.Memory(
            key=f"{place[: KEY_CHARS // 2]}#{title}"[: KEY_CHARS - len(number)] + number,
            kind=types.MEMORY_KIND_DOCUMENT,
            title=title[:TITLE_CHARS],
            content=body,
            source=name[:SOURCE_CHARS],
        )


def _sections(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the headings above each stretch of text that has any, outermost first."""
    path: list[tuple[int, str]] = []
    start = end = 0
    for block in blocks(text) if text.strip() else ():
        if block.kind is not BlockKind.HEADING:
            end = block.end
            continue
        if text[start:end].strip():
            yield [title for _, title in path], text[start:end].strip()
        path = [(level, title) for level, title in path if level < block.level] + [(block.level, block.title)]
        start = end = block.end
    if text[start:end].strip():
        yield [title for _, title in path], text[start:end].strip()
