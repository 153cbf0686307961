"""Extraction in a child process: its limits hold for hostile files, and what it may not do fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memsvc.domain.file_text import DocumentKind, TextReason
from memsvc.extraction.process import (
    ExtractedText,
    ExtractionLimits,
    ExtractionStoppedError,
    TextExtractor,
)
from memsvc.extraction.text_formats import ExtractionError
from tests.support import documents
from tests.support.until import until

LIMITS = ExtractionLimits(max_expanded_bytes=50_000_000, memory_bytes=1 << 29, cpu_seconds=8, seconds=100)
MB = 1_000_000
W = b'<w:document xmlns:w="w"><w:body>'


def extract(kind: DocumentKind, content: bytes, limits: ExtractionLimits = LIMITS) -> ExtractedText:
    """Extract the text of a content."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return TextExtractor(limits).extract(kind, file)


def entity_bomb() -> bytes:
    """Return a document whose entities expand to a billion characters."""
    entities = "".join(f'<!ENTITY e{at} "{f"&e{at - 1};" * 10 if at else "lol"}">' for at in range(10))
    return documents.docx([], body=f"<!DOCTYPE d [{entities}]><d>&e9;</d>")


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (DocumentKind.DOCX, lambda: documents.docx([], body=W + b"<w:p><w:t>" + b"a" * 200 * MB), "EXPANDED_TOO_LARGE"),
        (DocumentKind.DOCX, entity_bomb, "MALFORMED"),
        (DocumentKind.DOCX, lambda: documents.docx([], body=W + b"<w:p>" * 100_000), "NESTED_TOO_DEEPLY"),
        (DocumentKind.DOCX, lambda: documents.docx([], body=W + b"<w:p a='" + b"a" * 40 * MB + b"'/>"), "TIME_EXCEEDED"),
        (DocumentKind.DOCX, lambda: documents.archive({str(at): b"" for at in range(30_000)}), "EXPANDED_TOO_LARGE"),
        (DocumentKind.DOCX, lambda: documents.archive({"a": b"b"}), "MALFORMED"),
        (DocumentKind.XLSX, lambda: documents.xlsx({"a": [["b"] * 20_000]}), "MALFORMED"),
        (DocumentKind.PPTX, lambda: documents.docx(["a"]), "MALFORMED"),
        (DocumentKind.HTML, lambda: b"<div>" * 100_000 + b"a", "NESTED_TOO_DEEPLY"),
        (DocumentKind.HTML, lambda: b"<" * MB, None),
        (DocumentKind.HTML, lambda: b"<!--" * 200_000, "TIME_EXCEEDED"),
        (DocumentKind.CSV, lambda: b"," * MB, "MALFORMED"),
        (DocumentKind.CSV, lambda: b'"' + b"a" * MB, "MALFORMED"),
        (DocumentKind.PDF, lambda: documents.pdf([], streams=[zlib.compress(b"q " * 400 * MB)]), "MEMORY_EXCEEDED"),
        (DocumentKind.PDF, lambda: b"%PDF-1.7\n" + os.urandom(MB), "MALFORMED"),
        (DocumentKind.TEXT, lambda: os.urandom(MB), "UNKNOWN_ENCODING"),
    ],
    ids=[
        "zip-bomb", "entity-bomb", "deep-xml", "long-attribute", "many-parts", "no-document", "wide-sheet",
        "other-type", "deep-html", "open-tags", "open-comments", "wide-csv", "open-quote", "huge-stream", "noise-pdf",
        "noise-text",
    ],
)  # fmt: skip
def test_hostile_files_end_with_a_reason(kind: DocumentKind, content: Callable[[], bytes], reason: str | None) -> None:
    """Within the limits; None: there is text, or none, and no harm."""
    try:
        found = extract(kind, content())
    except ExtractionError as error:
        assert error.reason.value == reason
    else:
        # Parsers that are fast enough for the limit do no harm either.
        assert reason in {None, "TIME_EXCEEDED"}
        assert found.chars <= LIMITS.max_chars


def test_processor_time_and_duration_are_limited() -> None:
    """A page without end is stopped by the kernel, or by the clock."""
    endless = documents.pdf([], streams=[zlib.compress(b"q Q " * 60 * MB)])

    for limits in (replace(LIMITS, cpu_seconds=1, memory_bytes=1 << 31), replace(LIMITS, seconds=0.05)):
        with pytest.raises(ExtractionError) as raised:
            extract(DocumentKind.PDF, endless, limits)
        assert raised.value.reason is TextReason.TIME_EXCEEDED


def test_text_beyond_the_limit_is_left_out() -> None:
    """In every kind, and the reply says so."""
    lines = [f"line {at} of a long report" for at in range(2_000)]
    text = "\n".join(lines)
    few = replace(LIMITS, max_chars=5_000)
    for kind, content in (
        (DocumentKind.TEXT, text.encode()),
        (DocumentKind.HTML, text.replace("\n", "<p>").encode()),
        (DocumentKind.DOCX, documents.docx(lines)),
        (DocumentKind.PDF, documents.pdf(lines[:300])),
    ):
        found = extract(kind, content, few)
        assert found.is_truncated, kind
        assert 5_000 <= found.chars <= 6_000, kind
    assert not extract(DocumentKind.TEXT, text.encode()).is_truncated


def test_a_stopped_extractor_kills_its_process() -> None:
    """A service that stops waits for no document."""
    extractor = TextExtractor(replace(LIMITS, memory_bytes=1 << 31))
    raised: list[BaseException] = []

    def work() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(documents.pdf([], streams=[zlib.compress(b"q Q " * 60 * MB)]))
            file.seek(0)
            try:
                extractor.extract(DocumentKind.PDF, file)
            except ExtractionStoppedError as error:
                raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: extractor.running_count)
    extractor.stop()
    thread.join()

    assert len(raised) == 1
    with pytest.raises(ExtractionStoppedError), tempfile.TemporaryFile() as file:
        extractor.extract(DocumentKind.TEXT, file)


CONFINED = """
import json, socket, subprocess, sys
from memsvc.extraction import child
child._limit(1 << 30, 10)
child._confine()
failed = []
for name, work in {
    "open": lambda: open("/etc/hostname"),
    "write": lambda: open("/tmp/memsvc-extraction", "w"),
    "socket": lambda: socket.socket(),
    "process": lambda: subprocess.run(["true"]),
}.items():
    try:
        work()
    except OSError as error:
        failed.append(name)
print(json.dumps(failed))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the filter of system calls is Linux's")
def test_the_process_opens_no_files_and_no_sockets(tmp_path: Path) -> None:
    """Once it reads the document, which may have taken control of it."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    assert json.loads(done.stdout) == ["open", "write", "socket", "process"]
