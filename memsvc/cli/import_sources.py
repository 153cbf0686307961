"""Import sources, read memory by memory."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from google.protobuf.json_format import Parse, ParseError

from memsvc.cli.enums import ImportFormat
from memsvc.cli.errors import CommandError
from memsvc.cli.options import UTF8, is_utf8, stdin_lines
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.user_data import FORMAT
from memsvc.json_faults import NESTED_TOO_DEEP, json_fault, syntax_fault
from memsvc.text.chunking import BlockKind, blocks
from memsvc.v1 import types_pb2 as types_pb

MARKDOWN = frozenset({".md", ".markdown"})
KEY_CHARS = 256
TITLE_CHARS = 512
SOURCE_CHARS = 256
JSON_LINES = frozenset({".json", ".jsonl", ".ndjson"})
"""The endings of files whose lines are taken one by one, even if the first of them is bad."""
_UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")
"""The byte order marks of UTF-16, as escaped bytes that are no UTF-8."""
_LISTED = re.compile(r"\s*Available Fields.*", re.DOTALL)
_IN_FIELD = re.compile(r"Failed to parse (\S+) field: ")
_UNKNOWN = re.compile(r'Message type "\S+" has no field named "([^"]*)" at ".*"\.?')


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory of a source.

    Attributes:
        place: Where it is, such as "Line 3 of notes.jsonl".
        memory: The memory; None when the line is none.
        fault: What is wrong with the line then, after the name of the field if it is one of a field.
        is_left_out: True for a part of another system's export that nothing is made of, such as an image.
        user: The user in the other system; empty where the export does not say.
    """

    place: str
    memory: types_pb.Memory | None
    fault: str = ""
    is_left_out: bool = False
    user: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Memories to be imported, and how many there are when that is known."""

    entries: Iterable[Entry]
    count: int | None


def read_source(path: str, form: ImportFormat) -> Source:
    """Return the memories of a file, a directory of Markdown documents, or stdin ("-").

    Raises:
        CommandError: There is no such file, none to import in the directory, or the file is in another format. An
            export of a user raises it when it is read.
    """
    if path == "-":
        if form is ImportFormat.MD:
            return _documents([("stdin", "".join(stdin_lines()))])
        lines = io.TextIOWrapper(sys.stdin.buffer, encoding=UTF8, errors="surrogateescape")
        return Source(entries_from_lines(lines, "stdin"), None)
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
    return Source(_entries_from_file(place), _count_lines(place))


def _count_lines(path: Path) -> int:
    """Return how many lines are not blank.

    Raises:
        CommandError: The file holds something else than JSON Lines.
    """
    count = 0
    with _opened(path) as lines:
        for line in filter(str.strip, lines):
            if not count:
                _require_json_lines(path, line)
            count += 1
    return count


def _require_json_lines(path: Path, line: str) -> None:
    """Check the first line of a file, for which a whole import in vain would be no help."""
    if line.startswith(_UTF16_MARKS):
        message = f"{str(path)!r} is UTF-16 text; convert it to UTF-8 first."
        raise CommandError(message)
    if line.lstrip().startswith("["):
        message = f"{str(path)!r} holds a JSON array; write one memory to a line."
        raise CommandError(message)
    if path.suffix.lower() not in JSON_LINES and ("\0" in line or not is_utf8(line)):
        message = f"{str(path)!r} is no UTF-8 text."
        raise CommandError(message)
    if path.suffix.lower() not in JSON_LINES and not line.lstrip().startswith("{"):
        message = (
            f"{str(path)!r} holds text, not JSON Lines; import a memory for each of its sections with --format md, or "
            f"store it as one document with `memsvc ingest`."
        )
        raise CommandError(message)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding=UTF8)
    except UnicodeDecodeError as error:
        message = f"{str(file)!r} is no UTF-8 text."
        raise CommandError(message) from error


def _documents(documents: list[tuple[str, str]]) -> Source:
    entries = [
        Entry(f"Section {memory.title!r} of {name}", memory)
        for name, text in documents
        for memory in memories_from_markdown(text, name)
    ]
    return Source(entries, len(entries))


def _opened(path: Path) -> IO[str]:
    # Bytes that are no UTF-8 concern their line alone.
    return path.open(encoding=UTF8, errors="surrogateescape")


def _entries_from_file(path: Path) -> Iterator[Entry]:
    with _opened(path) as lines:
        yield from entries_from_lines(lines, path.name)


def entries_from_lines(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield a memory, or what is wrong, for each line that is not blank.

    Raises:
        CommandError: It is an export of a user.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"Line {number} of {name}"
        try:
            yield Entry(place, _memory(line))
        except ValueError as error:
            if number == 1 and f'"format":"{FORMAT}"' in line.replace(" ", ""):
                message = f"{name} is an export of a user: take it in with `memsvc import-user`."
                raise CommandError(message) from error
            yield Entry(place, None, str(error))


def _memory(line: str) -> types_pb.Memory:
    """Return the memory of a line.

    Raises:
        ValueError: It is none; the message says why.
    """
    if not is_utf8(line):
        fault = "it is no UTF-8 text"
        raise ValueError(fault)
    if not line.lstrip().startswith("{"):
        fault = "it is no JSON object"
        raise ValueError(fault)
    try:
        return Parse(line, types_pb.Memory())
    except ParseError as error:
        raise ValueError(_fault(line, str(error))) from None
    except RecursionError:
        raise ValueError(NESTED_TOO_DEEP) from None


def _fault(line: str, words: str) -> str:
    """Return what is wrong with a JSON object that is no memory; *words* are the parser's."""
    if broken := syntax_fault(line):
        return broken if line.rstrip().endswith("}") else f"{broken}; write one memory to a line"
    if found := json_fault(json.loads(line), types_pb.Memory.DESCRIPTOR):
        return f"{found.field}: {found.description}"
    path = []
    while inner := _IN_FIELD.match(words):
        path.append(inner[1])
        words = words[inner.end() :]
    words = _LISTED.sub("", words).strip()
    if unknown := _UNKNOWN.fullmatch(words):
        path.append(unknown[1])
        words = "there is no such field"
    return f"{'.'.join(path)}: {words}" if path else words


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
