"""Extraction of the text of a file in a child process, with limits on memory, time and output."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import IO, Any

from memsvc.domain.file_text import SECTION_CHARS, DocumentKind, FilePassage, TextReason
from memsvc.extraction.text_formats import ExtractionError

_OUTPUT_BYTES_OF_CHAR = 8
_OUTPUT_BYTES = 1 << 20
"""Room for numbers and punctuation of the output, beside its text."""
_LINE_NUMBERS = 1 << 31
_PIECE_BYTES = 1 << 16
_REASONS_OF_SIGNALS = {
    -signal.SIGXCPU: TextReason.TIME_EXCEEDED,
    # How libraries end a process that has no memory left.
    **dict.fromkeys((-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL), TextReason.MEMORY_EXCEEDED),
}


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """Limits of one extraction.

    Attributes:
        max_chars: Characters of text after which extraction stops.
        max_expanded_bytes: Size to which the parts of an Office file may expand.
        memory_bytes: Address space of the process, which includes that of the interpreter and its libraries.
        cpu_seconds: Processor time of the process.
        seconds: Duration.
    """

    max_chars: int = 2_000_000
    max_expanded_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 1024 * 1024 * 1024
    cpu_seconds: int = 30
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of a file; truncated if the file has more."""

    passages: tuple[FilePassage, ...]
    is_truncated: bool

    @property
    def chars(self) -> int:
        """Return the number of characters."""
        return sum(len(passage.text) for passage in self.passages)


class ExtractionStoppedError(Exception):
    """The extraction was stopped with the service."""


def can_extract(kind: DocumentKind) -> bool:
    """Return whether the library for *kind* is installed."""
    return kind is not DocumentKind.PDF or find_spec("pypdfium2") is not None


class TextExtractor:
    """Extraction of text, one process for each file. Thread-safe."""

    def __init__(self, limits: ExtractionLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    @property
    def running_count(self) -> int:
        """Return the number of running processes."""
        return len(self._running)

    def stop(self) -> None:
        """Kill the processes; running and later extractions raise."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.kill()

    def extract(self, kind: DocumentKind, file: IO[bytes]) -> ExtractedText:
        """Return the text of an open file, which is at its beginning.

        Raises:
            ExtractionError: It has none, or a limit was reached.
            ExtractionStoppedError: The service stops.
        """
        process = self._start(kind, file)
        try:
            output = self._read(process)
        finally:
            process.kill()
            code = process.wait()
            if process.stdout is not None:
                process.stdout.close()
            with self._lock:
                self._running.discard(process)
        if self._is_stopped:
            raise ExtractionStoppedError
        return _decoded(output, code)

    def _start(self, kind: DocumentKind, file: IO[bytes]) -> subprocess.Popen[bytes]:
        options = json.dumps({"kind": kind.value, **asdict(self._limits)})
        # No shell, and nothing in the command comes from outside. -P: the working directory is not on the import path.
        # The variables of the service, which may hold secrets, are not passed on.
        with self._lock:
            if self._is_stopped:
                raise ExtractionStoppedError
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", "memsvc.extraction.child", options],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"},
            )
            self._running.add(process)
        return process

    def _read(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return what a process writes until it ends or closes its output.

        Raises:
            ExtractionError: It takes too long, or writes more than it may.
        """
        until = time.monotonic() + self._limits.seconds
        most = self._limits.max_chars * _OUTPUT_BYTES_OF_CHAR + _OUTPUT_BYTES
        output = bytearray()
        assert process.stdout is not None  # noqa: S101 - it was asked for
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise ExtractionError(TextReason.TIME_EXCEEDED)
                piece = os.read(process.stdout.fileno(), _PIECE_BYTES)
                if not piece:
                    # An orderly end, before it is killed: its code is needed.
                    _await(process, until)
                    return bytes(output)
                output += piece
                if len(output) > most:
                    raise ExtractionError(TextReason.EXPANDED_TOO_LARGE)


def _await(process: subprocess.Popen[bytes], until: float) -> None:
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise ExtractionError(TextReason.TIME_EXCEEDED) from error


def _decoded(output: bytes, code: int) -> ExtractedText:
    """Return the text that a process wrote, which is checked: it may be under the control of the file."""
    if code in _REASONS_OF_SIGNALS:
        raise ExtractionError(_REASONS_OF_SIGNALS[code])
    lines = output.splitlines() if code == 0 else []
    try:
        *passages, end = [json.loads(line) for line in lines]
        if "reason" in end:
            raise ExtractionError(TextReason(end["reason"]))
        return ExtractedText(tuple(_passages(passages)), is_truncated=end["truncated"] is True)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ExtractionError(TextReason.CRASHED) from error


def _passages(values: list[Any]) -> Iterator[FilePassage]:
    for ordinal, (text, start, end, page, section) in enumerate(values):
        is_text = isinstance(text, str) and isinstance(section, str) and "\0" not in text + section
        are_numbers = all(isinstance(one, int) and 0 <= one < _LINE_NUMBERS for one in (start, end, page))
        if not (is_text and are_numbers and len(section) <= SECTION_CHARS):
            raise ValueError
        yield FilePassage(ordinal, text, start, end, page, section)
