"""The client of a Qdrant server, over gRPC: timeouts, retries, translation of errors.

Opening it sends nothing: the server may start later. gRPC reconnects by itself, within a second of the server's coming
back, so nothing here has to notice that it was away.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, DeadlineExceededError
from memsvc.ports.faults import CircuitBreaker, FaultLog
from memsvc_backends.qdrant_server.settings import GRPC_PORT, QdrantServerSettings

_log = logging.getLogger(__name__)
_OPTIONS = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 5_000,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
}
NO_HURRY = Deadline()
VENDOR_ERRORS = (grpc.RpcError, QdrantException, ApiException, ValueError, RuntimeError, OSError)
"""The local mode, which tests use, raises ValueError where the server says NOT_FOUND."""
_PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED"})
_LATE = "DEADLINE_EXCEEDED"


class AbsentError(Exception):
    """The collection does not exist, or no longer. Never crosses the port."""


class ServerConnection:
    """Calls methods of a client by name, so that each has the same limits. Safe to use from several threads."""

    def __init__(
        self,
        reader: QdrantClient,
        writer: QdrantClient,
        settings: QdrantServerSettings,
        name: str,
        faults: FaultLog | None = None,
    ) -> None:
        """Take two clients, since the time limit of a write belongs to the client, not to the call."""
        self.name = name
        self._breaker = CircuitBreaker(name, FaultLog() if faults is None else faults)
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._is_closed = False

    def require_open(self) -> None:
        """Raise BackendClosedError when the connection was closed."""
        if self._is_closed:
            raise BackendClosedError(self.name)

    def read(self, method: str, *, deadline: Deadline = NO_HURRY, **arguments: Any) -> Any:
        """Call a method that takes a time limit and changes nothing."""
        return self._call(getattr(self._reader, method), arguments, deadline, self._settings.timeout_seconds)

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method that takes no time limit; the client has one of its own."""
        return self._call(getattr(self._reader, method), arguments, NO_HURRY, None)

    def write(self, method: str, **arguments: Any) -> Any:
        """Call a method that changes something, and that does no harm when it is repeated."""
        return self._call(getattr(self._writer, method), arguments, NO_HURRY, self._settings.write_timeout_seconds)

    def close(self) -> None:
        """Close the connections. Harmless when it is done."""
        if not self._is_closed:
            self._is_closed = True
            self._reader.close()
            self._writer.close()

    def _call(
        self, called: Callable[..., Any], arguments: dict[str, Any], deadline: Deadline, limit: float | None
    ) -> Any:
        """Call, and retry after a pause if the server did not answer.

        Raises:
            AbsentError: The collection is not there.
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The server cannot be reached, is too slow or refuses.
            BackendClosedError: The connection was closed.
        """
        wait = self._settings.backoff_seconds
        for left in range(self._settings.attempts - 1, -1, -1):
            self.require_open()
            if deadline.has_passed():
                raise DeadlineExceededError(self.name)
            self._breaker.check()
            timing = {} if limit is None else {"timeout": _whole_seconds(limit, deadline)}
            try:
                answer = called(**arguments, **timing)
            except VENDOR_ERRORS as error:
                self._note(error)
                self._judge(error, deadline)
                if not left or not is_passing(error):
                    raise BackendUnavailableError(self.name) from error
                _log.debug("qdrant did not answer, %s attempts left: %s", left, type(error).__name__)
            else:
                self._breaker.note_success()
                return answer
            time.sleep(min(wait, deadline.remaining_seconds() or wait))
            wait *= 2
        raise BackendUnavailableError(self.name)

    def _note(self, error: Exception) -> None:
        """Report to the breaker; every call has at least a second, so one that is late counts as a failure."""
        if is_passing(error) or is_late(error):
            self._breaker.note_failure()
        else:
            self._breaker.note_success()

    def _judge(self, error: Exception, deadline: Deadline) -> None:
        """Raise what the error means, unless it means that the server cannot be reached."""
        if self._is_closed:
            raise BackendClosedError(self.name) from error
        if is_absent(error):
            raise AbsentError from error
        if is_late(error) and deadline.has_passed():
            raise DeadlineExceededError(self.name) from error


def open_connection(settings: QdrantServerSettings, name: str, faults: FaultLog | None = None) -> ServerConnection:
    """Return a connection to the server that the settings name, with a circuit breaker. Nothing is sent yet."""
    reader, writer = (_client(settings, limit) for limit in (settings.timeout_seconds, settings.write_timeout_seconds))
    return ServerConnection(reader, writer, settings, name, faults)


def _client(settings: QdrantServerSettings, limit: float) -> QdrantClient:
    address = settings.address
    options: dict[str, Any] = dict(_OPTIONS)
    files = {
        "root_certificates": settings.ca_file,
        "private_key": settings.key_file,
        "certificate_chain": settings.cert_file,
    }
    options |= {option: path.read_bytes() for option, path in files.items() if path is not None}
    with warnings.catch_warnings():
        # The client would warn of a key sent without TLS on every start, although the settings chose it.
        warnings.simplefilter("ignore")
        return QdrantClient(
            host=address.hostname,
            grpc_port=address.port or GRPC_PORT,
            https=address.scheme == "https",
            api_key=None if settings.api_key is None else settings.api_key.get_secret_value(),
            prefer_grpc=True,
            timeout=math.ceil(limit),
            grpc_options=options,
            pool_size=settings.connections,
            check_compatibility=False,
        )


def _whole_seconds(limit: float, deadline: Deadline) -> int:
    """Return the limit as the client takes it: whole seconds, at least one."""
    remaining = deadline.remaining_seconds()
    return max(1, math.ceil(limit if remaining is None else min(limit, remaining)))


# What Qdrant's client raises, in the words of the domain, and what of it is worth another attempt.


def status_of(error: BaseException) -> str:
    """Return the name of the status that a gRPC error carries, or nothing."""
    code: Any = getattr(error, "code", None)
    status = code() if callable(code) else None
    return str(getattr(status, "name", ""))


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed in a moment: the server did not answer, or was too busy."""
    return status_of(error) in _PASSING or isinstance(error, QdrantException | OSError)


def is_late(error: BaseException) -> bool:
    """Return whether the time for the call was over."""
    return status_of(error) == _LATE


def is_absent(error: BaseException) -> bool:
    """Return whether the collection does not exist."""
    return status_of(error) == "NOT_FOUND" or (isinstance(error, ValueError) and "not found" in str(error))


@contextmanager
def translate(name: str) -> Iterator[None]:
    """Raise BackendUnavailableError for whatever the client raises."""
    try:
        yield
    except VENDOR_ERRORS as error:
        raise BackendUnavailableError(name) from error
