"""Logging, configured once: structlog for the service, the standard library for the backends, one look for both."""

from __future__ import annotations

import json
import logging
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler

import structlog

from memsvc.settings import LogFormat, LogSettings

QUIET = ("alembic", "openai", "httpx", "httpx2", "httpcore", "httpcore2", "fastembed", "huggingface_hub")
"""Libraries that tell more than anybody asked for: clients of models even log what they send, at their lower levels."""


class _Lines(structlog.WriteLogger):
    """Writes the service's own lines straight to stderr: a record of the standard library takes twice the time."""

    def __init__(self, name: str = "memsvc") -> None:
        super().__init__(sys.stderr)
        self.name = name


def configure(settings: LogSettings) -> None:
    """Send everything at or above the level to stderr, as JSON lines or for a terminal."""
    console = settings.format is LogFormat.CONSOLE or (settings.format is LogFormat.AUTO and sys.stderr.isatty())
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
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*shared, *rendering],
        logger_factory=_Lines,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level)),
        cache_logger_on_first_use=False,
    )


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
