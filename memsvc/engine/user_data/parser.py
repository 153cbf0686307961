"""Incremental parser from the bytes of an exported user to batches of records."""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import FORMAT, VERSION, StoredMemory, StoredRevision
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.user_data import schema
from memsvc.engine.user_data.decode import (
    UNKNOWN_ORIGIN,
    FileOrigin,
    FileRefPosition,
    Value,
    Vectors,
    bad_line,
    decode_record,
    file_ref_positions,
    memory_of,
    read_line,
    vectors_of,
)

LINE_BYTES = 32 * 1024 * 1024
BATCH_RECORDS = 400
BATCH_BYTES = 4 * 1024 * 1024
HISTORY_BYTES = 8 * 1024 * 1024
"""Maximum size of earlier revisions stored together with their memory; further ones follow in batches of their own."""


@dataclass(slots=True)
class ImportRecord:
    """One record of a file.

    Attributes:
        line: The line number, from 1.
        value: The decoded record; None: its kind is unknown and optional.
        earlier: The earlier revisions that follow a memory.
        places: The references to files in the contents and summaries of all its revisions, by text. They are found
            before the transaction, which blocks other writers: an adversarial text takes seconds.
        late: Whether it holds further revisions of a memory that is already stored.
    """

    line: int
    name: str
    value: Value | None
    earlier: list[StoredRevision] = field(default_factory=list)
    vectors: Vectors = ()
    late: bool = False
    places: dict[str, Sequence[FileRefPosition]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the references in the content and the summary of a memory."""
        if isinstance(self.value, StoredMemory):
            self._find_places(self.value.memory)

    def add_earlier(self, earlier: StoredRevision) -> None:
        """Add an earlier revision of the memory."""
        self.earlier.append(earlier)
        self._find_places(earlier.memory)

    def _find_places(self, memory: Memory) -> None:
        for text in (memory.content, memory.summary):
            if text not in self.places and (places := file_ref_positions(text)):
                self.places[text] = places


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """Records that are stored in one transaction; *lines* is the number of its last line."""

    records: tuple[ImportRecord, ...]
    lines: int


class ExportParser:
    """A parser of lines. After the first error it yields nothing more."""

    def __init__(self, scope: Scope, search_priority: SearchPriority, service: str = "") -> None:
        """Parse for the user of *scope*; *service* is the name and version of this service, for errors."""
        self._service = service
        self._origin = UNKNOWN_ORIGIN
        self._search_priority = search_priority
        self._scope = scope
        self._rest = bytearray()
        self._digest = hashlib.sha256()
        self._lines = 0
        self._counts: dict[str, int] = {}
        self._footer: schema.FooterLine | None = None
        self._waiting: list[ImportRecord] = []
        self._size = self._past = 0
        self._last: object = None
        self._last_revision = 0
        self.header: schema.HeaderLine | None = None

    def feed(self, data: bytes) -> Iterator[ImportBatch]:
        """Parse the next bytes and yield the completed batches.

        Raises:
            InvalidRequestError: A line is invalid; the field names it. Batches yielded before are valid.
        """
        self._rest += data
        end_of_lines = data.rfind(b"\n") + 1
        if end_of_lines:
            whole = bytes(self._rest[: len(self._rest) - len(data) + end_of_lines])
            del self._rest[: len(whole)]
            yield from self._all_of(whole)
        if len(self._rest) > LINE_BYTES:
            raise bad_line(self._lines + 1, "", f"is longer than {LINE_BYTES} bytes")

    def _all_of(self, data: bytes) -> Iterator[ImportBatch]:
        if not self._lines:
            data = data.removeprefix(BOM_UTF8)
        if b"\r" in data:
            # An editor or a transfer as text changed the ends of lines: the digest is that of the original ones.
            data = data.replace(b"\r\n", b"\n")
        begin = 0
        try:
            while begin < len(data):
                end = data.index(b"\n", begin)
                line = self._read(data[begin:end])
                if isinstance(line, schema.FooterLine):
                    self._end(line, data[:begin])
                else:
                    yield from self._take(line, end + 1 - begin)
                begin = end + 1
        except InvalidRequestError:
            # The valid records before the bad line are stored.
            yield from self._flush()
            raise
        if self._footer is None:
            self._digest.update(data)

    def finish(self) -> Iterator[ImportBatch]:
        """Yield the last batch at the end of the file.

        Raises:
            InvalidRequestError: The file is truncated: its footer is missing, or does not match the lines before.
        """
        yield from self._flush()
        number = self._lines + 1
        if self._rest:
            raise bad_line(number, "", "has no end: the file was cut; send it whole, what is stored is kept")
        if self.header is None:
            raise bad_line(1, "record", "must be 'header': the file is empty")
        if self._footer is None:
            raise bad_line(
                number, "record", "must be 'footer': the file was cut; send it whole, what is stored is kept"
            )

    def _read(self, raw: bytes) -> schema.ExportLine | str:
        self._search_priority.yield_to_searches()
        self._lines += 1
        if self._footer is not None:
            raise bad_line(self._lines, "", "comes after the footer")
        if self._lines == 1:
            self._origin = FileOrigin.of(raw, self._service)
        return read_line(self._lines, raw, self._origin)

    def _take(self, line: schema.ExportLine | str, size: int) -> Iterator[ImportBatch]:
        if self.header is None:
            self.header = self._header(line)
            return
        name = line if isinstance(line, str) else line.record
        self._counts[name] = self._counts.get(name, 0) + 1
        yield from self._add(line, size)

    def _end(self, line: schema.FooterLine, before: bytes) -> None:
        """Check the footer; the bytes *before* it are not in the digest yet."""
        self._digest.update(before)
        self._check_footer(line)
        self._footer = line

    def _header(self, line: object) -> schema.HeaderLine:
        if not isinstance(line, schema.HeaderLine):
            raise bad_line(1, "record", "must be 'header'")
        if line.format != FORMAT:
            raise bad_line(1, "format", f"must be {FORMAT!r}; `memsvc import` takes memories alone")
        if line.version != VERSION:
            raise bad_line(1, "version", f"is {line.version}; this service reads version {VERSION}{self._origin.note}")
        return line

    def _check_footer(self, line: schema.FooterLine) -> None:
        if self.header is None:
            raise bad_line(1, "record", "must be 'header'")
        if line.lines != self._lines - 1 or line.counts != self._counts:
            description = f"says {line.lines} lines and {line.counts}, but {self._lines - 1} came: {self._counts}"
            raise bad_line(self._lines, "lines", description)
        if line.sha256 != self._digest.hexdigest():
            raise bad_line(self._lines, "sha256", "is not the digest of what came before: the file was changed")

    def _add(self, line: Any, size: int) -> Iterator[ImportBatch]:
        if isinstance(line, schema.HeaderLine):
            raise bad_line(self._lines, "record", "must not be 'header' again")
        if isinstance(line, schema.RevisionLine):
            yield from self._add_revision(line, size)
            return
        if len(self._waiting) >= BATCH_RECORDS or self._size >= BATCH_BYTES:
            yield from self._flush()
        self._size += size
        self._past = 0
        self._waiting.append(self._record(line))

    def _add_revision(self, line: schema.RevisionLine, size: int) -> Iterator[ImportBatch]:
        last = self._last
        if not isinstance(last, StoredMemory) or last.memory.id != line.id:
            raise bad_line(self._lines, "id", "must be that of the memory before, whose revision it is")
        if line.revision >= last.memory.revision:
            raise bad_line(self._lines, "revision", f"must be less than that of the memory, {last.memory.revision}")
        if line.revision <= self._last_revision:
            raise bad_line(self._lines, "revision", f"must be more than that of the line before, {self._last_revision}")
        self._last_revision = line.revision
        earlier = StoredRevision(memory_of(line, self._scope), line.action)
        if self._past + size > HISTORY_BYTES and self._waiting[-1].earlier:
            # Rare: so long a history spans several transactions.
            yield from self._flush()
            self._waiting.append(ImportRecord(self._lines, line.id, last, late=True))
        self._past += size
        self._size += size
        self._waiting[-1].add_earlier(earlier)

    def _record(self, line: Any) -> ImportRecord:
        number, name = self._lines, line if isinstance(line, str) else line.id
        value = None if isinstance(line, str) else decode_record(line, self._scope)
        self._last, self._last_revision = value, 0
        vectors: Vectors = ()
        if isinstance(line, schema.MemoryLine) and line.vectors:
            vectors = vectors_of(number, line, self.header)
        return ImportRecord(number, name, value, vectors=vectors)

    def _flush(self) -> Iterator[ImportBatch]:
        if self._waiting:
            yield ImportBatch(tuple(self._waiting), self._lines)
            self._waiting, self._size, self._past = [], 0, 0
