"""Text of text files, Markdown, CSV and HTML, line by line. Runs in the child process."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from io import StringIO

from memsvc.domain.file_text import SECTION_CHARS, TextReason

MOST_CELLS = 16_384
"""Cells of a row, as in spreadsheets."""
MOST_DEPTH = 10_000
"""Open elements of an HTML page; browsers allow 512 levels."""
CELL_SEPARATOR = " | "
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks; that of UTF-32 begins with that of UTF-16."""
_COMMON_SHARE = 0.8
"""Share of the multi-byte characters of Chinese text that GB2312 has."""
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f]")
_LEAST_CONTROLS = 0.01
_CHARSET = re.compile(rb"""<meta[^>]{0,256}charset\s{0,8}=\s{0,8}["']?([A-Za-z0-9_:-]{1,32})""", re.IGNORECASE)
_CHARSET_BYTES = 4_096
_DECLARED = {"gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "utf-8": "utf-8", "utf8": "utf-8"}
_DECLARED |= {"big5": "big5hkscs", "shift_jis": "cp932", "euc-jp": "euc_jp", "euc-kr": "cp949"}
_DECLARED |= {"iso-8859-1": "cp1252", "windows-1252": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252"}
ENCODINGS = frozenset({*_DECLARED.values(), *(name for _, name in _MARKS), "gb2312", "ascii", "cp437"})
"""Codecs that decoding, and names in archives, may need; they are loaded before files can no longer be opened."""


class ExtractionError(Exception):
    """A document has no text that can be extracted."""

    def __init__(self, reason: TextReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a document: see `memsvc.domain.file_text.FilePassage`."""

    text: str
    line: int
    page: int = 0
    section: str = ""


def decode(data: bytes, *, is_whole: bool = True, declared: str = "") -> str:
    """Return the text of *data*: by its byte order mark, as *declared*, as UTF-8, or as GB18030 if that is plausible.

    Data that is not whole may end within a character.

    Raises:
        ExtractionError: The encoding is unknown.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _decoded(data[len(mark) :], encoding, is_whole=is_whole)
            return _checked(text)
    for encoding in filter(None, (_DECLARED.get(declared.lower()), "utf-8", "gb18030")):
        text = _decoded(data, encoding, is_whole=is_whole)
        is_guess = encoding == "gb18030" and not declared
        if text is not None and (not is_guess or _is_chinese(text)):
            return _checked(text)
    raise ExtractionError(TextReason.UNKNOWN_ENCODING)


def _decoded(data: bytes, encoding: str, *, is_whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(data, is_whole)
    except UnicodeDecodeError:
        return None


def _is_chinese(text: str) -> bool:
    """Return whether text that was decoded as GB18030 is Chinese: any bytes of another encoding often decode, too."""
    wide = [char for char in text if char > "\x7f"]
    common = "".join(wide).encode("gb2312", "ignore")
    return bool(wide) and len(common) // 2 >= _COMMON_SHARE * len(wide)


def _checked(text: str | None) -> str:
    if text is None or len(_CONTROL.findall(text)) > _LEAST_CONTROLS * len(text):
        raise ExtractionError(TextReason.UNKNOWN_ENCODING)
    return text


def text_lines(text: str) -> Iterator[TextLine]:
    """Yield the lines of a text."""
    for number, line in enumerate(_split(text), start=1):
        yield TextLine(line, number)


_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def markdown_lines(text: str) -> Iterator[TextLine]:
    """Yield the lines of Markdown, each with the heading above it."""
    section, fence = "", ""
    for number, line in enumerate(_split(text), start=1):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and (heading := _HEADING.match(line[:1_000])):
            section = heading[1][:SECTION_CHARS]
        yield TextLine(line, number, section=section)


def _split(text: str) -> Iterator[str]:
    # Not splitlines, which also splits at separators that editors do not count.
    for match in re.finditer(r"[^\r\n]*(?:\r\n|\n|\r|\Z)", text):
        if match[0]:
            yield match[0].rstrip("\r\n")


def csv_rows(text: str) -> Iterator[TextLine]:
    """Yield the rows of a table; the line of a row is its number.

    Raises:
        ExtractionError: It is malformed, or a row has more than `MOST_CELLS` cells.
    """
    first = text[:4_096].partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    try:
        for number, row in enumerate(csv.reader(StringIO(text, newline=""), delimiter=delimiter), start=1):
            if len(row) > MOST_CELLS:
                raise ExtractionError(TextReason.MALFORMED)
            yield TextLine(CELL_SEPARATOR.join(cell.strip() for cell in row if cell.strip()), number)
    except csv.Error as error:
        raise ExtractionError(TextReason.MALFORMED) from error


def html_lines(data: bytes, *, is_whole: bool) -> Iterator[TextLine]:
    """Yield the text of a page, block by block, each with the line of the source where it begins.

    Raises:
        ExtractionError: The encoding is unknown, or elements are nested more than `MOST_DEPTH` deep.
    """
    found = _CHARSET.search(data[:_CHARSET_BYTES])
    text = decode(data, is_whole=is_whole, declared=found[1].decode() if found else "")
    parser = _PageParser()
    for start in range(0, len(text), _PIECE_CHARS):
        parser.feed(text[start : start + _PIECE_CHARS])
        yield from parser.take()
    parser.close()
    parser.end_block()
    yield from parser.take()


_PIECE_CHARS = 65_536
_HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object"})
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip
_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "img", "ins",
    "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_UNCLOSED = frozenset({
    "body", "colgroup", "dd", "dt", "head", "html", "li", "option", "p", "rp", "rt", "tbody", "td", "tfoot", "th",
    "thead", "tr",
})  # fmt: skip
"""Elements whose end may be missing."""
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


class _PageParser(HTMLParser):
    """A parser that collects the visible text of a page; it keeps no tree."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[TextLine] = []
        self._parts: list[str] = []
        self._line = 1
        self._section = ""
        self._depth = 0
        self._hidden = 0
        self._is_heading = False

    def take(self) -> list[TextLine]:
        """Return the blocks that are complete."""
        taken, self._lines = self._lines, []
        return taken

    def end_block(self) -> None:
        """Complete the present block."""
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if text:
            if self._is_heading:
                self._section = text[:SECTION_CHARS]
            self._lines.append(TextLine(text, self._line, section=self._section))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - of the base
        """Count the level, and begin a block."""
        if tag not in _VOID and tag not in _UNCLOSED:
            self._depth += 1
            if self._depth > MOST_DEPTH:
                raise ExtractionError(TextReason.NESTED_TOO_DEEPLY)
        if tag in _HIDDEN:
            self._hidden += 1
        if tag not in _INLINE:
            self.end_block()
            self._is_heading = tag in _HEADINGS

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - of the base
        """End the block before an empty element."""
        if tag not in _INLINE:
            self.end_block()

    def handle_endtag(self, tag: str) -> None:
        """Leave the level, and complete a block."""
        if tag not in _VOID and tag not in _UNCLOSED:
            self._depth = max(0, self._depth - 1)
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        if tag not in _INLINE:
            self.end_block()
            self._is_heading = False

    def handle_data(self, data: str) -> None:
        """Add text to the block."""
        if self._hidden:
            return
        if not self._parts and data.strip():
            blank = len(data) - len(data.lstrip())
            self._line = self.getpos()[0] + data.count("\n", 0, blank)
        if self._parts or data.strip():
            self._parts.append(data)
