"""What Qdrant's client raises, in the words of the domain, and what of it is worth another attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from memsvc.domain.errors import BackendUnavailableError

VENDOR_ERRORS = (grpc.RpcError, QdrantException, ApiException, ValueError, RuntimeError, OSError)
"""The local mode, which tests use, raises ValueError where the server says NOT_FOUND."""
_PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED"})
_LATE = "DEADLINE_EXCEEDED"


def status_of(error: BaseException) -> str:
    """Return the name of the status that a gRPC error carries, or nothing."""
    code: Any = getattr(error, "code", None)
    status = code() if callable(code) else None
    return str(getattr(status, "name", ""))


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed in a moment: nobody answered, or was too busy."""
    return status_of(error) in _PASSING or isinstance(error, QdrantException | OSError)


def is_late(error: BaseException) -> bool:
    """Return whether the time for the call was over."""
    return status_of(error) == _LATE


def is_absent(error: BaseException) -> bool:
    """Return whether what was asked for, a collection, is not there."""
    return status_of(error) == "NOT_FOUND" or (isinstance(error, ValueError) and "not found" in str(error))


@contextmanager
def translate(name: str) -> Iterator[None]:
    """Raise BackendUnavailableError for whatever the client raises."""
    try:
        yield
    except VENDOR_ERRORS as error:
        raise BackendUnavailableError(name) from error
