"""Logging, configured once: structlog for the service, the standard library for the backends, one look for both."""

from __future__ import annotations

import logging
import sys

import structlog

from memsvc.settings import LogFormat, LogSettings


def configure(settings: LogSettings) -> None:
    """Send everything at or above the level to stderr, as JSON lines or for a terminal."""
    console = settings.format is LogFormat.CONSOLE or (settings.format is LogFormat.AUTO and sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if console else structlog.processors.JSONRenderer()
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.ExceptionRenderer() if not console else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level)),
        cache_logger_on_first_use=False,
    )
