"""From the bytes of an exported user, as they come, to batches of records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import FORMAT, VERSION, Stored, StoredRevision
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.engine.user_data import schema
from memsvc.engine.user_data.decode import (
    Place,
    Value,
    Vectors,
    bad_line,
    memory_of,
    places_in,
    read_line,
    value_of,
    vectors_of,
)

LINE_BYTES = 32 * 1024 * 1024
BATCH_RECORDS = 400
BATCH_BYTES = 4 * 1024 * 1024
PAST_BYTES = 8 * 1024 * 1024
"""Earlier revisions of one memory that are stored together with it; what is beyond follows on its own."""


@dataclass(slots=True)
class Record:
    """One record of a file.

    Attributes:
        line: Its number, from 1.
        value: What it is of; None: its kind is unknown, and it may be left out.
        earlier: The earlier revisions that came after a memory.
        places: Where the contents of all its revisions refer to files, by content. They are looked for before the
            transaction, which everybody waits for: a text made to be slow takes seconds.
        late: Whether it is further revisions of a memory that is stored already.
    """

    line: int
    name: str
    value: Value | None
    earlier: list[StoredRevision] = field(default_factory=list)
    vectors: Vectors = ()
    late: bool = False
    places: dict[str, Sequence[Place]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at the content of a memory."""
        if isinstance(self.value, Stored):
            self._look_at(self.value.memory.content)

    def add_earlier(self, earlier: StoredRevision) -> None:
        """Add an earlier revision of the memory."""
        self.earlier.append(earlier)
        self._look_at(earlier.memory.content)

    def _look_at(self, content: str) -> None:
        if content not in self.places and (places := places_in(content)):
            self.places[content] = places


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are stored in one transaction; *lines* is the number of the last line that is in it."""

    records: tuple[Record, ...]
    lines: int


class Parser:
    """Cuts bytes into lines and reads them. The first error is the last thing it says."""

    def __init__(self, scope: Scope) -> None:
        """Read for the user of *scope*."""
        self._scope = scope
        self._rest = bytearray()
        self._digest = hashlib.sha256()
        self._lines = 0
        self._counts: dict[str, int] = {}
        self._footer: schema.FooterLine | None = None
        self._waiting: list[Record] = []
        self._size = self._past = 0
        self._last: object = None
        self.header: schema.HeaderLine | None = None

    def feed(self, data: bytes) -> Iterator[Batch]:
        """Take the next bytes and yield what is complete with them.

        Raises:
            InvalidRequestError: A line is wrong; the field says which one. Batches yielded before are good.
        """
        self._rest += data
        end_of_lines = data.rfind(b"\n") + 1
        if end_of_lines:
            whole = bytes(self._rest[: len(self._rest) - len(data) + end_of_lines])
            del self._rest[: len(whole)]
            yield from self._all_of(whole)
        if len(self._rest) > LINE_BYTES:
            raise bad_line(self._lines + 1, "", f"is longer than {LINE_BYTES} bytes")

    def _all_of(self, data: bytes) -> Iterator[Batch]:
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
            # What is good before the bad line is stored.
            yield from self._flush()
            raise
        if self._footer is None:
            self._digest.update(data)

    def finish(self) -> Iterator[Batch]:
        """Yield what is left at the end of the file.

        Raises:
            InvalidRequestError: The file was cut: its last line is missing, or does not fit what came before.
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

    def _read(self, raw: bytes) -> schema.Line | str:
        SEARCH_PRIORITY.yield_to_searches()
        self._lines += 1
        if self._footer is not None:
            raise bad_line(self._lines, "", "comes after the footer")
        return read_line(self._lines, raw)

    def _take(self, line: schema.Line | str, size: int) -> Iterator[Batch]:
        if self.header is None:
            self.header = self._header(line)
            return
        name = line if isinstance(line, str) else line.record
        self._counts[name] = self._counts.get(name, 0) + 1
        yield from self._add(line, size)

    def _end(self, line: schema.FooterLine, before: bytes) -> None:
        """Take the last line; *before* it came these bytes, which are not in the digest yet."""
        self._digest.update(before)
        self._check_footer(line)
        self._footer = line

    def _header(self, line: object) -> schema.HeaderLine:
        if not isinstance(line, schema.HeaderLine):
            raise bad_line(1, "record", "must be 'header'")
        if line.format != FORMAT:
            raise bad_line(1, "format", f"must be {FORMAT!r}; `memsvc import` takes memories alone")
        if line.version != VERSION:
            raise bad_line(1, "version", f"is {line.version}; this service reads version {VERSION}")
        return line

    def _check_footer(self, line: schema.FooterLine) -> None:
        if self.header is None:
            raise bad_line(1, "record", "must be 'header'")
        if line.lines != self._lines - 1 or line.counts != self._counts:
            description = f"says {line.lines} lines and {line.counts}, but {self._lines - 1} came: {self._counts}"
            raise bad_line(self._lines, "lines", description)
        if line.sha256 != self._digest.hexdigest():
            raise bad_line(self._lines, "sha256", "is not the digest of what came before: the file was changed")

    def _add(self, line: Any, size: int) -> Iterator[Batch]:
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

    def _add_revision(self, line: schema.RevisionLine, size: int) -> Iterator[Batch]:
        last = self._last
        if not isinstance(last, Stored) or last.memory.id != line.id:
            raise bad_line(self._lines, "id", "must be that of the memory before, whose revision it is")
        if line.revision >= last.memory.revision:
            raise bad_line(self._lines, "revision", f"must be less than that of the memory, {last.memory.revision}")
        earlier = StoredRevision(memory_of(line, self._scope), line.action)
        if self._past + size > PAST_BYTES and self._waiting[-1].earlier:
            # Rare: so long a past goes over several transactions.
            yield from self._flush()
            self._waiting.append(Record(self._lines, line.id, last, late=True))
        self._past += size
        self._size += size
        self._waiting[-1].add_earlier(earlier)

    def _record(self, line: Any) -> Record:
        number, name = self._lines, line if isinstance(line, str) else line.id
        value = None if isinstance(line, str) else value_of(line, self._scope)
        self._last = value
        vectors: Vectors = ()
        if isinstance(line, schema.MemoryLine) and line.vectors:
            vectors = vectors_of(number, line, self.header)
        return Record(number, name, value, vectors=vectors)

    def _flush(self) -> Iterator[Batch]:
        if self._waiting:
            yield Batch(tuple(self._waiting), self._lines)
            self._waiting, self._size, self._past = [], 0, 0
