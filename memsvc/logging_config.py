"""Logging, configured once: structlog for the service, the standard library for the backends, one look for both."""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler
from typing import Any, Protocol

import structlog

from memsvc.settings import LogFormat, LogSettings

OWN = ("memsvc", "memsvc_backends")
"""The loggers that have the level of the settings. Others have WARNING or a higher one: at their lower levels libraries
log content, such as clients of models what they send, and observers of folders the paths of notes, which have titles.
"""


class _Lines(structlog.WriteLogger):
    """Writes the service's own lines straight to stderr: a record of the standard library takes twice the time."""

    def __init__(self, name: str = "memsvc") -> None:
        super().__init__(sys.stderr)
        self.name = name


def configure(settings: LogSettings) -> None:
    """Send everything at or above the level to stderr, as JSON lines or for a terminal."""
    console = _is_console(settings)
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.types.Processor] = (
        [structlog.processors.StackInfoRenderer(), structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if console
        else [structlog.processors.ExceptionRenderer(), structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    level = logging.getLevelName(settings.level)
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    for name in OWN:
        logging.getLogger(name).setLevel(level)
    structlog.configure(
        processors=[*shared, *rendering],
        logger_factory=_Lines,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )


def _is_console(settings: LogSettings) -> bool:
    return settings.format is LogFormat.CONSOLE or (settings.format is LogFormat.AUTO and sys.stderr.isatty())


# Access log: a thread renders and writes the lines, several at a time, so that calls do not wait for them.

ACCESS = "memsvc.access"
ENDED = "call ended"
BATCH_SECONDS = 0.05
"""Seconds for which lines are collected before they are written together; a kill loses those."""


class AccessLine(Protocol):
    """A call that ended, as `memsvc.server.interceptors.rules.EndedCall`."""

    def _asdict(self) -> dict[str, Any]: ...


class AccessLog:
    """Access log on stderr."""

    def __init__(self, settings: LogSettings) -> None:
        """Write lines in the form of the other ones, or none above the level INFO."""
        self._lines: queue.SimpleQueue[AccessLine | None] = queue.SimpleQueue()
        self._write = self._write_fields if _is_console(settings) else self._write_json
        self._is_on = logging.getLevelName(settings.level) <= logging.INFO
        self._thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        self._thread.start()

    def note(self, line: AccessLine) -> None:
        """Take a line; it is written soon after."""
        if self._is_on:
            self._lines.put(line)

    def close(self) -> None:
        """Write what is left."""
        self._lines.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            lines = [self._lines.get()]
            if lines[0] is not None:
                time.sleep(BATCH_SECONDS)
            while not self._lines.empty():
                lines.append(self._lines.get())
            is_open = None not in lines
            with suppress(OSError, ValueError):  # stderr was closed
                self._write([line for line in lines if line is not None])

    def _write_json(self, lines: Sequence[AccessLine]) -> None:
        sys.stderr.write("".join(f"{json.dumps(_fields(line) | _NAMED, ensure_ascii=False)}\n" for line in lines))
        sys.stderr.flush()

    def _write_fields(self, lines: Sequence[AccessLine]) -> None:
        logger = structlog.get_logger(ACCESS).bind()
        for line in lines:
            fields = _fields(line)
            logger.info(fields.pop("event"), **fields)


_NAMED = {"logger": ACCESS, "level": "info"}


def _fields(line: AccessLine) -> dict[str, Any]:
    fields = line._asdict()
    ended = datetime.fromtimestamp(fields.pop("ended"), UTC)
    fields["seconds"] = round(fields["seconds"], 6)
    return {"event": ENDED, **fields, "timestamp": ended.isoformat().replace("+00:00", "Z")}


# Audit log: a file of its own, or the log of the service; a thread writes it.


NAME = "memsvc.logging_config"
TO_LOG = "-"


class AuditLog:
    """Takes lines and hands them to a thread, in order."""

    def __init__(self, lines: queue.SimpleQueue[logging.LogRecord], now: Callable[[], datetime]) -> None:
        """Put lines into *lines*, with the time of *now*."""
        self._logger = logging.Logger(NAME, logging.INFO)  # noqa: LOG001 - levels of the root must not silence it
        self._logger.addHandler(QueueHandler(lines))
        self._now = now

    def note(self, **line: object) -> None:
        """Note a line."""
        told = {"timestamp": self._now().isoformat(), "logger": NAME, "event": "call audited", **line}
        self._logger.info("%s", json.dumps(told, ensure_ascii=False))


@contextmanager
def audit_log(target: str, now: Callable[[], datetime]) -> Iterator[AuditLog]:
    """Open the file *target*, or stderr for "-"; on leaving write what is left, and close it.

    Raises:
        OSError: The file cannot be written.
    """
    # The file is reopened when it was moved away, as log rotation does.
    handler = logging.StreamHandler(sys.stderr) if target == TO_LOG else WatchedFileHandler(target, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = QueueListener(lines, handler)
    listener.start()
    try:
        yield AuditLog(lines, now)
    finally:
        listener.stop()
        handler.close()
