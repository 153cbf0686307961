"""Import sources, read memory by memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import TextIOBase
from pathlib import Path
from typing import IO

from google.protobuf.json_format import Parse, ParseError

from memsvc.cli.enums import ImportFormat
from memsvc.cli.errors import CommandError
from memsvc.cli.options import stdin_lines, utf8_lines
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.user_data import FORMAT
from memsvc.text.chunking import BlockKind, blocks
from memsvc.v1 import types_pb2 as types_pb

MARKDOWN = frozenset({".md", ".markdown"})
KEY_CHARS = 256
TITLE_CHARS = 512
SOURCE_CHARS = 256
_LISTED = " Available Fields"


@dataclass(frozen=True, slots=True)
class Source:
    """Memories to be imported, and how many there are when that is known."""

    memories: Iterable[types_pb.Memory]
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


def _memories_from_file(path: Path) -> Iterator[types_pb.Memory]:
    with path.open(encoding="utf-8") as lines:
        yield from memories_from_lines(lines, path.name)


def memories_from_lines(lines: IO[str] | TextIOBase | Iterable[str], name: str) -> Iterator[types_pb.Memory]:
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


def _memory(line: str) -> types_pb.Memory:
    if not line.lstrip().startswith("{"):
        message = "it is no JSON object."
        raise ParseError(message)
    return Parse(line, types_pb.Memory())


def memories_from_markdown(text: str, name: str) -> Iterator[types_pb.Memory]:
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
        yield types_pb.Memory(
            key=f"{place[: KEY_CHARS // 2]}#{title}"[: KEY_CHARS - len(number)] + number,
            kind=types_pb.MEMORY_KIND_DOCUMENT,
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
