"""Small documents in tests, made by hand: PDF, docx, xlsx, pptx."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_A = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    f'xmlns:r="{_OFFICE}"'
)
_X = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="{_OFFICE}"'


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a zip archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return made.getvalue()


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """Return a part of relations: type and target by id."""
    each = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for key, (kind, target) in targets.items()
    )
    return f'<?xml version="1.0"?><Relationships xmlns="{_RELATIONS}">{each}</Relationships>'


def docx(paragraphs: Sequence[str], *, notes: Sequence[str] = (), body: str | bytes | None = None) -> bytes:
    """Return a document of paragraphs, or of a raw body."""

    def text(several: Sequence[str]) -> str:
        return "".join(f"<w:p><w:r><w:t>{escape(one)}</w:t></w:r></w:p>" for one in several)

    main = f"<?xml version='1.0'?><w:document {_W}><w:body>{text(paragraphs)}</w:body></w:document>"
    return archive(
        {
            "_rels/.rels": relations({"r1": ("officeDocument", "word/document.xml")}),
            "word/document.xml": main if body is None else body,
            "word/_rels/document.xml.rels": relations({"r1": ("footnotes", "footnotes.xml")} if notes else {}),
            "word/footnotes.xml": f"<w:footnotes {_W}>{text(notes)}</w:footnotes>",
        }
    )


def xlsx(sheets: Mapping[str, Sequence[Sequence[str | float]]], *, dates: bool = False) -> bytes:
    """Return a workbook; texts are shared strings. With *dates*, numbers are days."""
    strings: list[str] = []
    parts: dict[str, str | bytes] = {}
    for number, rows in enumerate(sheets.values(), start=1):
        lines = []
        for row, cells in enumerate(rows, start=1):
            shown = ""
            for cell in cells:
                if isinstance(cell, str):
                    strings.append(cell)
                    shown += f'<c t="s"><v>{len(strings) - 1}</v></c>'
                else:
                    shown += f'<c s="{int(dates)}"><v>{cell}</v></c>'
            lines.append(f'<row r="{row}">{shown}</row>')
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f"<worksheet {_X}><sheetData>{''.join(lines)}</sheetData></worksheet>"
        )
    named = "".join(
        f'<sheet name="{escape(name)}" sheetId="{at}" r:id="s{at}"/>' for at, name in enumerate(sheets, start=1)
    )
    targets = {f"s{at}": ("worksheet", f"worksheets/sheet{at}.xml") for at in range(1, len(sheets) + 1)}
    targets |= {"x1": ("sharedStrings", "sharedStrings.xml"), "x2": ("styles", "styles.xml")}
    shared = "".join(f"<si><t>{escape(one)}</t></si>" for one in strings)
    return archive(
        {
            "_rels/.rels": relations({"r1": ("officeDocument", "xl/workbook.xml")}),
            "xl/workbook.xml": f"<workbook {_X}><sheets>{named}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(targets),
            "xl/sharedStrings.xml": f"<sst {_X}>{shared}</sst>",
            "xl/styles.xml": f'<styleSheet {_X}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
            **parts,
        }
    )


def pptx(slides: Sequence[Sequence[str]], *, notes: str = "") -> bytes:
    """Return slides of paragraphs, with notes of the first one."""

    def text(several: Sequence[str]) -> str:
        return "".join(f"<a:p><a:r><a:t>{escape(one)}</a:t></a:r></a:p>" for one in several)

    # The names of the parts are in another order than the slides.
    names = {at: f"slides/slide{len(slides) - at}.xml" for at in range(len(slides))}
    parts = {f"ppt/{names[at]}": f"<p:sld {_A}>{text(slide)}</p:sld>" for at, slide in enumerate(slides)}
    listed = "".join(f'<p:sldId id="{256 + at}" r:id="s{at}"/>' for at in names)
    first = f"ppt/slides/_rels/slide{len(slides)}.xml.rels"
    return archive(
        {
            "_rels/.rels": relations({"r1": ("officeDocument", "ppt/presentation.xml")}),
            "ppt/presentation.xml": f"<p:presentation {_A}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations({f"s{at}": ("slide", name) for at, name in names.items()}),
            first: relations({"n": ("notesSlide", "../notesSlides/n1.xml")} if notes else {}),
            "ppt/notesSlides/n1.xml": f"<p:notes {_A}>{text([notes])}</p:notes>",
            **parts,
        }
    )


def pdf(pages: Sequence[str], *, streams: Sequence[bytes] = ()) -> bytes:
    """Return a PDF of one line of text on each page, or of raw compressed streams as pages.

    Chinese text is in UTF-16, of a font that is not embedded.
    """
    contents = [*(zlib.compress(_page(text)) for text in pages), *streams]
    count = len(contents)
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(count))
    font = 3 + 2 * count
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] >>".encode(),
    ]
    for at, content in enumerate(contents):
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * at} 0 R "
            f"/Resources << /Font << /F1 {font} 0 R /F2 {font + 1} 0 R >> >> >>".encode(),
            f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode() + content + b"\nendstream",
        ]
    objects += [
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H "
        f"/DescendantFonts [{font + 2} 0 R] >>".encode(),
        f"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo << /Registry (Adobe) "
        f"/Ordering (GB1) /Supplement 4 >> /FontDescriptor {font + 3} 0 R /DW 1000 >>".encode(),
        (
            b"<< /Type /FontDescriptor /FontName /STSong-Light /Flags 4 /FontBBox [-25 -254 1000 880] /ItalicAngle 0 "
            b"/Ascent 880 /Descent -120 /CapHeight 880 /StemV 93 >>"
        ),
    ]
    made, offsets = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(made))
        made += f"{number} 0 obj\n".encode() + one + b"\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + end.encode() + trailer.encode()


def _page(text: str) -> bytes:
    if text.isascii():
        return b"BT /F1 12 Tf 72 720 Td (" + text.replace("(", "\\(").replace(")", "\\)").encode() + b") Tj ET"
    return b"BT /F2 12 Tf 72 720 Td <" + text.encode("utf-16-be").hex().encode() + b"> Tj ET"
