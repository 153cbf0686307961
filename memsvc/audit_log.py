"""Where the lines of the audit log go: a file of their own, or the log of the service; written by a thread."""

from __future__ import annotations

import json
import logging
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler

NAME = "memsvc.audit_log"
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
    # The file is opened anew when somebody has moved it away, as log rotation does.
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
