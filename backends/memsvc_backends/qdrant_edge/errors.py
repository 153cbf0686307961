"""What can go wrong between the adapter and its child process; nothing of this crosses the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.domain.errors import BackendUnavailableError

NAME = "qdrant-edge"
"""What the backend is called in errors."""


class ChildDiedError(Exception):
    """The child process ended, or closed a connection, before it answered."""


class EdgeFaultError(Exception):
    """The engine refused an operation; the text is its own."""


class RetiredError(Exception):
    """The generation that was asked is no more."""


@contextmanager
def translate() -> Iterator[None]:
    """Raise BackendUnavailableError for a child that is gone or an engine that refuses."""
    try:
        yield
    except (ChildDiedError, EdgeFaultError, RetiredError) as error:
        raise BackendUnavailableError(NAME) from error
