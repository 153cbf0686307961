"""Logging, configured once: structlog for the service, the standard library for the backends, one look for both."""

from __future__ import annotations

import logging
import sys

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
