"""Text of PDF files by PDFium. Runs in the child process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memsvc.domain.file_text import TextReason
from memsvc.extraction.text_formats import ExtractionError, TextLine

_HYPHEN = "\ufffe"
"""PDFium's mark of a word that was divided at the end of a line."""
_ENCRYPTED = 4
"""FPDF_ERR_PASSWORD."""


def load_library() -> Any:
    """Return the library.

    Raises:
        ExtractionError: It is not installed.
    """
    try:
        import pypdfium2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtractionError(TextReason.LIBRARY_MISSING) from error
    return pypdfium2


def pdf_lines(library: Any, data: bytes) -> Iterator[TextLine]:
    """Yield the lines of all pages; lines are counted from 1 on each page.

    Raises:
        ExtractionError: The file is encrypted or damaged.
    """
    try:
        document = library.PdfDocument(data)
    except library.PdfiumError as error:
        is_encrypted = getattr(error, "err_code", 0) == _ENCRYPTED or "password" in str(error).lower()
        raise ExtractionError(TextReason.ENCRYPTED if is_encrypted else TextReason.MALFORMED) from error
    for number in range(len(document)):
        try:
            page = document[number]
            text = page.get_textpage()
            content = text.get_text_bounded()
        except library.PdfiumError:
            # One damaged page does not hide the others.
            continue
        text.close()
        page.close()
        content = content.replace(f"{_HYPHEN}\r\n", "").replace(f"{_HYPHEN}\n", "").replace(_HYPHEN, "-")
        for line, one in enumerate(content.splitlines(), start=1):
            yield TextLine(one, line, page=number + 1)
