"""Text of Office files (docx, xlsx, pptx): streams of XML in a zip archive. Runs in the child process.

The parsers of the standard library suffice: they keep neither a tree nor an unpacked file, which python-docx, openpyxl
and python-pptx do, and nothing but text is needed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError  # noqa: N812 - a class with the name of a module's variable

from memsvc.domain.file_text import SECTION_CHARS, TextReason
from memsvc.extraction.text_formats import CELL_SEPARATOR, MOST_CELLS, ExtractionError, TextLine

MOST_PARTS = 20_000
"""Entries of an archive."""
MOST_DEPTH = 1_000
"""Nested elements of a part."""
_PIECE_BYTES = 65_536
_OLE = b"\xd0\xcf\x11\xe0"
"""The beginning of a compound file: an encrypted document, or one from before 2007."""

_Start = Callable[[str, dict[str, str]], None]


class OfficeArchive:
    """The parts of a document, expanded to a limited size in all."""

    def __init__(self, file: IO[bytes], *, max_expanded_bytes: int) -> None:
        """Open the archive.

        Raises:
            ExtractionError: It is encrypted, or no archive.
        """
        beginning = file.read(len(_OLE))
        file.seek(0)
        if beginning == _OLE:
            raise ExtractionError(TextReason.ENCRYPTED)
        try:
            self._zip = ZipFile(file)
        except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise ExtractionError(TextReason.MALFORMED) from error
        self.names = self._zip.namelist()
        if len(self.names) > MOST_PARTS:
            raise ExtractionError(TextReason.EXPANDED_TOO_LARGE)
        self._known = frozenset(self.names)
        self._left = max_expanded_bytes

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part; none if it does not exist.

        Raises:
            ExtractionError: It is damaged or encrypted, or the parts read so far are too large.
        """
        if name not in self._known:
            return
        try:
            with self._zip.open(name) as part:
                while piece := part.read(_PIECE_BYTES):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise ExtractionError(TextReason.EXPANDED_TOO_LARGE)
                    yield piece
        except RuntimeError as error:
            raise ExtractionError(TextReason.ENCRYPTED) from error
        except (BadZipFile, EOFError, NotImplementedError, OSError, ValueError, ZlibError) as error:
            raise ExtractionError(TextReason.MALFORMED) from error

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the type and target of the relations of a part, by id."""
        folder, base = posixpath.split(name)
        found: dict[str, tuple[str, str]] = {}

        def start(tag: str, attributes: dict[str, str]) -> None:
            if tag == "Relationship" and attributes.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join(f"/{folder}", attributes.get("Target", ""))).lstrip("/")
                found[attributes.get("Id", "")] = (attributes.get("Type", "").rpartition("/")[2], target)

        for _ in parse(self, f"{folder}/_rels/{base}.rels", start):
            pass
        return found


def parse(
    archive: OfficeArchive,
    name: str,
    start: _Start,
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Parse a part, and yield after each piece, so that the caller can take what was found.

    *start*, *end* and *text* are called in the order of the document, with names without namespaces. Declarations of
    document types, and so entities, are refused.

    Raises:
        ExtractionError: The part is malformed, has a document type, or is nested too deeply.
    """
    parser = expat.ParserCreate(namespace_separator="}")
    depth = 0

    def refuse(*_: object) -> None:
        raise ExtractionError(TextReason.MALFORMED)

    def enter(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_DEPTH:
            raise ExtractionError(TextReason.NESTED_TOO_DEEPLY)
        start(_local(tag), {_local(key): value for key, value in attributes.items()})

    def leave(tag: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(_local(tag))

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    if text is not None:
        parser.CharacterDataHandler = text
    try:
        for piece in archive.pieces(name):
            parser.Parse(piece, False)  # noqa: FBT003 - of expat
            yield
        if name in archive.names:
            parser.Parse(b"", True)  # noqa: FBT003 - of expat
            yield
    except expat.ExpatError as error:
        raise ExtractionError(TextReason.MALFORMED) from error


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


@dataclass(slots=True)
class _Paragraphs:
    """Collector of the paragraphs of a part: the text of elements `t` within elements `p`."""

    page: int = 0
    number: int = 0
    lines: list[TextLine] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    is_text: bool = False
    fallbacks: int = 0

    def start(self, tag: str, _: dict[str, str]) -> None:
        """Enter an element."""
        if tag == "Fallback":
            # It repeats the alternative before it, for older programs.
            self.fallbacks += 1
        elif tag == "t":
            self.is_text = not self.fallbacks
        elif tag in {"tab", "br", "cr"} and self.parts:
            self.parts.append(" ")
        elif tag == "tc":
            self._complete()

    def end(self, tag: str) -> None:
        """Leave an element."""
        if tag == "Fallback":
            self.fallbacks -= 1
        elif tag == "t":
            self.is_text = False
        elif tag == "p" and not self.fallbacks:
            self.number += 1
            self._complete()

    def text(self, data: str) -> None:
        """Take text."""
        if self.is_text:
            self.parts.append(data)

    def _complete(self) -> None:
        content = " ".join("".join(self.parts).split())
        self.parts.clear()
        if content:
            self.lines.append(TextLine(content, self.number, page=self.page))

    def read(self, archive: OfficeArchive, name: str) -> Iterator[TextLine]:
        """Yield the paragraphs of a part."""
        for _ in parse(archive, name, self.start, self.end, self.text):
            yield from self.lines
            self.lines.clear()


def docx_lines(archive: OfficeArchive) -> Iterator[TextLine]:
    """Yield the paragraphs of a document, then its notes; their numbers continue.

    Raises:
        ExtractionError: It is damaged, or has no main part.
    """
    main = _main_part(archive, "word/document.xml")
    paragraphs = _Paragraphs()
    yield from paragraphs.read(archive, main)
    for kind, target in archive.relations(main).values():
        if kind in {"footnotes", "endnotes"}:
            yield from paragraphs.read(archive, target)


def pptx_lines(archive: OfficeArchive) -> Iterator[TextLine]:
    """Yield the paragraphs of each slide, then those of its notes; numbers start at 1 on each slide."""
    main = _main_part(archive, "ppt/presentation.xml")
    relations = archive.relations(main)
    order: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        # Its two attributes "id" have different namespaces; that of the relation comes last.
        if tag == "sldId":
            order.append(attributes.get("id", ""))

    for _ in parse(archive, main, start):
        pass
    slides = [relations[one][1] for one in order if one in relations]
    for page, slide in enumerate(slides, start=1):
        paragraphs = _Paragraphs(page)
        yield from paragraphs.read(archive, slide)
        for kind, target in archive.relations(slide).values():
            if kind == "notesSlide":
                yield from paragraphs.read(archive, target)


def xlsx_lines(archive: OfficeArchive) -> Iterator[TextLine]:
    """Yield the rows of each sheet, in their order, with the values that formulas had when it was saved."""
    main = _main_part(archive, "xl/workbook.xml")
    relations = archive.relations(main)
    sheets: list[tuple[str, str]] = []
    starts_1904 = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal starts_1904
        if tag == "sheet":
            sheets.append((attributes.get("name", ""), attributes.get("id", "")))
        elif tag == "workbookPr":
            starts_1904 = attributes.get("date1904") in {"1", "true"}

    for _ in parse(archive, main, start):
        pass
    named = {kind: target for kind, target in relations.values() if kind in {"sharedStrings", "styles"}}
    strings = _SharedStrings()
    if "sharedStrings" in named:
        strings.read(archive, named["sharedStrings"])
    dates = _date_styles(archive, named["styles"]) if "styles" in named else frozenset()
    for page, (name, relation) in enumerate(sheets, start=1):
        if relation in relations:
            rows = _SheetRows(strings.texts, dates, datetime(1904, 1, 1) if starts_1904 else datetime(1899, 12, 30))  # noqa: DTZ001 - dates of sheets have no zone
            for number, cells in rows.read(archive, relations[relation][1]):
                yield TextLine(CELL_SEPARATOR.join(cells), number, page=page, section=name[:SECTION_CHARS])


class _SharedStrings:
    """The strings that cells refer to by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._is_text = False
        self._phonetic = 0

    def read(self, archive: OfficeArchive, name: str) -> None:
        """Read a part."""
        for _ in parse(archive, name, self._start, self._end, self._text):
            pass

    def _start(self, tag: str, _: dict[str, str]) -> None:
        self._phonetic += tag == "rPh"
        self._is_text = tag == "t" and not self._phonetic

    def _end(self, tag: str) -> None:
        self._phonetic -= tag == "rPh"
        self._is_text = False
        if tag == "si":
            self.texts.append("".join(self._parts))
            self._parts.clear()

    def _text(self, data: str) -> None:
        if self._is_text:
            self._parts.append(data)


_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
"""Numbers of the formats of dates that every program knows."""
_DATE_LETTERS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')


def _date_styles(archive: OfficeArchive, name: str) -> frozenset[int]:
    """Return the numbers of the cell styles that show dates."""
    formats: dict[int, str] = {}
    styles: list[int] = []
    is_cells = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal is_cells
        if tag == "numFmt":
            formats[_number(attributes.get("numFmtId"))] = attributes.get("formatCode", "")[:256]
        elif tag == "cellXfs":
            is_cells = True
        elif tag == "xf" and is_cells:
            styles.append(_number(attributes.get("numFmtId")))

    def end(tag: str) -> None:
        nonlocal is_cells
        is_cells = is_cells and tag != "cellXfs"

    for _ in parse(archive, name, start, end):
        pass
    custom = {key for key, code in formats.items() if re.search("[ydhs]", _DATE_LETTERS.sub("", code.lower()))}
    return frozenset(place for place, one in enumerate(styles) if one in custom | _DATE_FORMATS)


class _SheetRows:
    """Reader of the rows of one sheet."""

    def __init__(self, strings: list[str], dates: frozenset[int], first_day: datetime) -> None:
        self._strings, self._dates, self._first_day = strings, dates, first_day
        self._rows: list[tuple[int, list[str]]] = []
        self._cells: list[str] = []
        self._value: list[str] = []
        self._kind, self._style, self._row = "", 0, 0
        self._is_value = False

    def read(self, archive: OfficeArchive, name: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and the values of each row that has any."""
        for _ in parse(archive, name, self._start, self._end, self._text):
            yield from self._rows
            self._rows.clear()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "row":
            self._row = _number(attributes.get("r")) or self._row + 1
        elif tag == "c":
            self._kind, self._style = attributes.get("t", "n"), _number(attributes.get("s"))
            self._value.clear()
        self._is_value = tag in {"v", "t"}

    def _end(self, tag: str) -> None:
        self._is_value = False
        if tag == "c":
            if value := " ".join(self._shown("".join(self._value)).split()):
                self._cells.append(value)
            if len(self._cells) > MOST_CELLS:
                raise ExtractionError(TextReason.MALFORMED)
        elif tag == "row":
            if self._cells:
                self._rows.append((min(self._row, 1 << 30), self._cells))
            self._cells = []

    def _text(self, data: str) -> None:
        if self._is_value:
            self._value.append(data)

    def _shown(self, value: str) -> str:
        if self._kind == "s":
            place = _number(value)
            return self._strings[place] if 0 <= place < len(self._strings) else ""
        if self._kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if self._kind == "n" and self._style in self._dates:
            return self._date(value)
        return value

    def _date(self, value: str) -> str:
        try:
            moment = self._first_day + timedelta(days=float(value))
        except (ValueError, OverflowError):
            return value
        moment = (moment + timedelta(microseconds=500_000)).replace(microsecond=0)
        return f"{moment:%Y-%m-%d}" if moment.time() == moment.min.time() else f"{moment:%Y-%m-%d %H:%M:%S}"


def _number(text: str | None) -> int:
    return int(text) if text and len(text) <= 10 and text.isdecimal() and text.isascii() else 0  # noqa: PLR2004 - digits


def _main_part(archive: OfficeArchive, usual: str) -> str:
    """Return the name of the main part."""
    targets = [target for kind, target in archive.relations("").values() if kind == "officeDocument"]
    name = targets[0] if targets else usual
    if name not in archive.names:
        raise ExtractionError(TextReason.MALFORMED)
    return name
