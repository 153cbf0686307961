"""The child process that extracts the text of one file: `python -m memsvc.extraction.child OPTIONS`.

It reads the file from stdin and writes passages to stdout, a line of JSON each, then the end or a fault. It limits its
own memory and processor time, and before it reads the file it gives up opening files, sockets and processes where the
kernel allows that (Linux on x86-64 and ARM64).
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from memsvc.domain.file_text import DocumentKind, TextReason
from memsvc.extraction import office, pdf, text_formats
from memsvc.extraction.passage_builder import build_passages
from memsvc.extraction.text_formats import ExtractionError, TextLine

_BYTES_OF_CHAR = 4
_OFFICE = {
    DocumentKind.DOCX: office.docx_lines,
    DocumentKind.XLSX: office.xlsx_lines,
    DocumentKind.PPTX: office.pptx_lines,
}


def main(options: dict[str, Any]) -> None:
    """Extract the text of stdin as *options* say."""
    kind = DocumentKind(options["kind"])
    with suppress(BrokenPipeError):
        try:
            library = pdf.load_library() if kind is DocumentKind.PDF else None
            for encoding in text_formats.ENCODINGS:
                codecs.lookup(encoding)
            _limit(options["memory_bytes"], options["cpu_seconds"])
            _confine()
            chars = 0
            for passage in build_passages(
                _lines(kind, sys.stdin.buffer, library, options), max_chars=options["max_chars"]
            ):
                chars += len(passage.text)
                _write([passage.text, passage.start_line, passage.end_line, passage.page, passage.section])
            # There may be more: a file that ends just here is taken for one that has.
            _write({"truncated": chars >= options["max_chars"]})
        except ExtractionError as error:
            _write({"reason": error.reason.value})
        except (MemoryError, RecursionError):
            _write({"reason": TextReason.MEMORY_EXCEEDED.value})
        sys.stdout.flush()


def _lines(kind: DocumentKind, file: IO[bytes], library: Any, options: dict[str, Any]) -> Iterator[TextLine]:
    if kind in _OFFICE:
        return _OFFICE[kind](office.OfficeArchive(file, max_expanded_bytes=options["max_expanded_bytes"]))
    if kind is DocumentKind.PDF:
        return pdf.pdf_lines(library, file.read())
    # More text than is indexed need not be read. HTML has more markup than text.
    most = options["max_chars"] * _BYTES_OF_CHAR * (2 if kind is DocumentKind.HTML else 1)
    data = file.read(most)
    is_whole = not file.read(1)
    if kind is DocumentKind.HTML:
        return text_formats.html_lines(data, is_whole=is_whole)
    text = text_formats.decode(data, is_whole=is_whole)
    readers = {DocumentKind.MARKDOWN: text_formats.markdown_lines, DocumentKind.CSV: text_formats.csv_rows}
    return readers.get(kind, text_formats.text_lines)(text)


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process: its memory, its processor time, and that it writes no files and leaves no dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    # macOS has no limit of the address space.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


# A filter of system calls: seccomp, as a program of the Berkeley Packet Filter.

_REFUSED = {
    # open, openat, openat2, creat, socket, socketpair, connect, fork, vfork, execve, execveat, ptrace, kill,
    # process_vm_readv, process_vm_writev, io_uring_setup
    "x86_64": (0xC000003E, (2, 257, 437, 85, 41, 53, 42, 57, 58, 59, 322, 101, 62, 310, 311, 425)),
    "aarch64": (0xC00000B7, (56, 437, 198, 199, 203, 221, 281, 117, 129, 270, 271, 425)),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
"""Results of the filter: the call runs, or fails with EPERM."""
_X32 = 0x40000000
"""Numbers of calls of the x32 interface, which would pass by the list, begin here."""
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


def _confine() -> None:
    """Give up opening files, sockets and processes, if this system can."""
    if sys.platform != "linux" or platform.machine() not in _REFUSED:
        return
    architecture, refused = _REFUSED[platform.machine()]
    count = len(refused)
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, count + 3, architecture),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, count + 1, 0, _X32),
        *((_EQUAL, count - place, 0, number) for place, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    # A plain number would be cut to 32 bits.
    libc.prctl(_SET_SECCOMP, _FILTER, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)


if __name__ == "__main__":
    os.nice(10)
    main(json.loads(sys.argv[1]))
