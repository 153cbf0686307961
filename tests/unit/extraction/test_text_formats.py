"""Lines, rows and paragraphs of documents of each kind, encodings, and passages."""

from __future__ import annotations

import io

import pytest

from memsvc.domain.file_text import PASSAGE_CHARS, DocumentKind, TextReason, document_kind
from memsvc.extraction import office
from memsvc.extraction.passage_builder import build_passages
from memsvc.extraction.text_formats import (
    ExtractionError,
    TextLine,
    csv_rows,
    decode,
    html_lines,
    markdown_lines,
    text_lines,
)
from tests.support import documents

ZOO = "海象池每周五漏水，管理员下周来修。"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030", "gbk"])
def test_chinese_text_is_decoded(encoding: str) -> None:
    """Whole, and cut within a character."""
    data = ZOO.encode(encoding)

    assert decode(data) == ZOO
    assert decode(data[:-1], is_whole=False) == ZOO[:-1]


@pytest.mark.parametrize(
    "data",
    [
        "Déjà vu à côté de l'hôtel".encode("latin-1"),
        "Übergröße für große Füße".encode("cp1252"),
        "セイウチのプールは金曜日に漏れる".encode("shift_jis"),
        b"\x80\x81\xff\xfe",
        "walrus".encode("utf-16-le") * 10,
        bytes(range(256)),
    ],
)
def test_other_encodings_are_refused(data: bytes) -> None:
    """Rather than indexed as other words."""
    with pytest.raises(ExtractionError) as raised:
        decode(data)
    assert raised.value.reason is TextReason.UNKNOWN_ENCODING


def test_lines_are_those_of_editors() -> None:
    """Of every kind of line end, empty lines included, and no others."""
    assert [line.text for line in text_lines("a\r\nb\rc\n\nd\u2028e\x0bf")] == ["a", "b", "c", "", "d\u2028e\x0bf"]


def test_headings_of_markdown() -> None:
    """Not within blocks of code."""
    found = [(line.line, line.section) for line in markdown_lines("a\n# One #\nb\n```\n# no\n```\n## 二\nc")]

    assert found == [(1, ""), (2, "One"), (3, "One"), (4, "One"), (5, "One"), (6, "One"), (7, "二"), (8, "二")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_rows_of_tables(delimiter: str) -> None:
    """A row is one line, whatever its cells hold."""
    text = f'week{delimiter}note\r\n1{delimiter}"two\nlines"\r\n\r\n3{delimiter}\r\n'

    assert [(row.line, row.text) for row in csv_rows(text)] == [
        (1, "week | note"), (2, "1 | two\nlines"), (3, ""), (4, "3"),
    ]  # fmt: skip


def test_visible_text_of_a_page() -> None:
    """With the lines of the source and the headings, in the declared encoding."""
    page = (
        "<html><head><meta charset='gb2312'><title>动物园</title><style>p {}</style></head>\n"
        "<body><script>var walrus;</script><h2>水池</h2>\n"
        f"<p>\n{ZOO}<br>Mia &amp; Tom<b>my</b></p><ul><li>one<li>two</ul></body>"
    )
    found = list(html_lines(page.encode("gb18030"), is_whole=True))

    assert [(one.line, one.text, one.section) for one in found] == [
        (1, "动物园", ""), (2, "水池", "水池"), (4, ZOO, "水池"), (4, "Mia & Tommy", "水池"),
        (4, "one", "水池"), (4, "two", "水池"),
    ]  # fmt: skip


def opened(content: bytes) -> office.OfficeArchive:
    """Open an Office file."""
    return office.OfficeArchive(io.BytesIO(content), max_expanded_bytes=1_000_000)


def test_paragraphs_of_documents() -> None:
    """With tabs and breaks as spaces, notes after them, and alternatives once."""
    body = (
        '<w:document xmlns:w="w" xmlns:mc="mc"><w:body><w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p><w:p/>'
        "<w:p><mc:AlternateContent><mc:Choice><w:t>new</w:t></mc:Choice><mc:Fallback><w:p><w:t>old</w:t></w:p>"
        "</mc:Fallback></mc:AlternateContent></w:p><w:tbl><w:tr><w:tc><w:p><w:t>cell</w:t></w:p></w:tc></w:tr></w:tbl>"
        "</w:body></w:document>"
    )
    found = office.docx_lines(opened(documents.docx([], body=body, notes=["海象"])))

    assert [(one.line, one.text) for one in found] == [(1, "a b"), (3, "new"), (4, "cell"), (5, "海象")]


def test_rows_of_sheets() -> None:
    """With the names of the sheets, and numbers as dates where they are shown so."""
    sheets: dict[str, list[list[str | float]]] = {
        "Q1": [["week", "营业额"], ["first", 12.5]],
        "二月": [[], ["day", 45_000]],
    }

    for dates, number, day in ((False, "12.5", "45000"), (True, "1900-01-11 12:00:00", "2023-03-15")):
        found = office.xlsx_lines(opened(documents.xlsx(sheets, dates=dates)))
        assert list(found) == [
            TextLine("week | 营业额", 1, 1, "Q1"), TextLine(f"first | {number}", 2, 1, "Q1"),
            TextLine(f"day | {day}", 2, 2, "二月"),
        ]  # fmt: skip


def test_slides_are_in_the_order_of_the_presentation() -> None:
    """Whatever the names of their parts, each with its notes."""
    found = office.pptx_lines(opened(documents.pptx([["one", "two"], ["三"]], notes="said")))

    assert [(one.page, one.line, one.text) for one in found] == [
        (1, 1, "one"),
        (1, 2, "two"),
        (1, 3, "said"),
        (2, 1, "三"),
    ]


def test_passages_follow_pages_sections_and_paragraphs() -> None:
    """Long lines are divided between sentences; control characters and halves of characters are removed."""
    long = "The walrus sleeps. " * 200
    lines = [
        TextLine("a\x00b\ud800", 1), TextLine("", 2), TextLine("c", 3), TextLine("d", 1, 2), TextLine("e", 2, 2, "s"),
        TextLine("", 3, 2, "t"), TextLine(long, 4, 2, "t"), TextLine(ZOO * 60, 5, 2, "t"),
    ]  # fmt: skip
    found = list(build_passages(lines, max_chars=1_000_000))

    assert [one.ordinal for one in found] == list(range(len(found)))
    assert [(one.text, one.start_line, one.end_line, one.page, one.section) for one in found[:3]] == [
        ("ab\nc", 1, 3, 0, ""), ("d", 1, 1, 2, ""), ("e", 2, 2, 2, "s"),
    ]  # fmt: skip
    assert all(len(one.text) <= PASSAGE_CHARS for one in found)
    latin = [one.text for one in found if "walrus" in one.text]
    assert " ".join(latin) == long.strip()
    assert all(one.endswith(".") for one in latin)
    assert "".join(one.text for one in found if "海象" in one.text).replace("\n", "") == ZOO * 60


def test_kinds_of_documents() -> None:
    """The media type counts, and the extension if the type says little."""
    assert document_kind("text/plain", "a") is DocumentKind.TEXT
    assert document_kind("text/plain", "A.CSV") is DocumentKind.CSV
    assert document_kind("text/csv", "a.txt") is DocumentKind.CSV
    assert document_kind("application/octet-stream", "a.pdf") is DocumentKind.PDF
    assert document_kind("application/octet-stream", "a") is None
    assert document_kind("image/png", "a.txt") is None
    assert document_kind("text/rtf", "a.rtf") is None
