"""What the client library raises, in the words of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError

GONE = (errors.UndefinedTable, errors.DeadlockDetected)
"""What a statement meets whose tables a switch is taking away, or has taken away."""


@contextmanager
def translate(name: str, deadline: Deadline | None = None) -> Iterator[None]:
    """Raise an error of the domain in place of anything that the client library raises.

    Raises:
        DeadlineExceededError: The server broke a statement off because the deadline passed.
        BackendUnavailableError: Anything else. The index is derived: what it cannot do it may after it was made anew.
    """
    try:
        yield
    except errors.QueryCanceled as error:
        if deadline is not None and deadline.passed():
            raise DeadlineExceededError(name) from error
        raise BackendUnavailableError(name) from error
    except psycopg.Error as error:
        raise BackendUnavailableError(name) from error
