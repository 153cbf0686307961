"""The client of Qdrant servers, over gRPC: timeouts, retries, failover, translation of errors.

Opening it sends nothing: the server may start later. gRPC reconnects by itself, within a second of the server's coming
back, so nothing here has to notice that it was away.
"""

from __future__ import annotations

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import SplitResult

import grpc
from qdrant_client import QdrantClient, models
from qdrant_client import grpc as wire
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.conversions.conversion import RestToGrpc
from qdrant_client.http.exceptions import ApiException

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import UNREACHED, BackendClosedError, BackendUnavailableError, DeadlineExceededError
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
VENDOR_ERRORS = (
    grpc.RpcError, grpc.FutureCancelledError, QdrantException, ApiException, ValueError, RuntimeError, OSError,
)  # fmt: skip
"""The local mode, which tests use, raises ValueError where the server says NOT_FOUND."""
_PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED"})
_LATE = "DEADLINE_EXCEEDED"
_PROBLEMS = {
    "UNAUTHENTICATED": "refuses the key: set the server's in options.api_key",
    "PERMISSION_DENIED": "refuses the key: it must be one that may read and write",
    "UNIMPLEMENTED": "does not know a call: it must be a Qdrant server of version 1.16 or newer, at its gRPC port",
    "INVALID_ARGUMENT": "refuses a request: check the options of collections, such as shards and replicas; its log and "
    "ours say more",
    "FAILED_PRECONDITION": "refuses a request in its present state; its log and ours say more",
    "DEADLINE_EXCEEDED": "does not answer in time",
    "RESOURCE_EXHAUSTED": "is too busy, or a limit of its strict mode is reached",
}
"""Problem by the status of a gRPC error, and the remedy."""
_TLS = ("ssl", "tls", "certificate", "handshake")
_TLS_PROBLEM = "cannot be reached by TLS: check http or https in its url, and options.ca_file"
Scored: TypeAlias = list[tuple[int, float]]
"""Numbers of points and their scores, best first."""
LONGEST_SETTLE_SECONDS = 10.0
"""Time limit of the calls that change collections: the server waits as long for a node that is down."""


class AbsentError(Exception):
    """The collection does not exist, or no longer. Never crosses the port."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the server.

    Attributes:
        reader: The client of calls that change nothing.
        writer: The client of changes: the time limit of a write belongs to the client, not to the call.
        searches: The calls of searches; None: *reader* searches.
    """

    reader: QdrantClient
    writer: QdrantClient
    searches: SearchCalls | None = None


class SearchCalls:
    """Calls of searches: begun without waiting, and without a Python object for each hit.

    The channel is its own, since the client's interceptors wait for the answer of every call.
    """

    def __init__(self, settings: QdrantServerSettings, address: SplitResult) -> None:
        """Connect to *address* when the first search is sent."""
        target, options = f"{address.hostname}:{address.port or GRPC_PORT}", list(_OPTIONS.items())
        if address.scheme == "https":
            credentials = grpc.ssl_channel_credentials(**_certificates(settings))
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        key = settings.api_key
        self._metadata = () if key is None else (("api-key", key.get_secret_value()),)
        stub: Any = wire.PointsStub(self._channel)  # type: ignore[no-untyped-call]  # Generated.
        self._query = stub.QueryBatch

    def begin(self, message: wire.QueryBatchPoints, seconds: float) -> Any:
        """Send searches; return the future of the reply."""
        return self._query.future(message, timeout=seconds, metadata=self._metadata)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class ServerConnection:
    """Calls methods of a client by name, so that each has the same limits. Safe to use from several threads.

    With several endpoints all calls go to one of them until it does not answer, then to the next one.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        settings: QdrantServerSettings,
        name: str,
        faults: FaultLog | None = None,
    ) -> None:
        """Call *endpoints*, one or more; processes begin with different ones."""
        self.name = name
        self._breaker = CircuitBreaker(name, FaultLog() if faults is None else faults)
        self._endpoints = endpoints
        self._at = os.getpid() % len(endpoints)
        self._settings = settings
        self._is_closed = False

    def require_open(self) -> None:
        """Raise BackendClosedError when the connection was closed."""
        if self._is_closed:
            raise BackendClosedError(self.name)

    def read(self, method: str, *, deadline: Deadline = NO_HURRY, **arguments: Any) -> Any:
        """Call a method that takes a time limit and changes nothing."""
        limit = self._settings.timeout_seconds
        return self._call(
            lambda at: getattr(at.reader, method)(**arguments, timeout=_whole_seconds(limit, deadline)), deadline
        )

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method that takes no time limit; the client has one of its own."""
        return self._call(lambda at: getattr(at.reader, method)(**arguments), NO_HURRY)

    def write(self, method: str, **arguments: Any) -> Any:
        """Call a method that changes something, and that does no harm when it is repeated."""
        limit = _whole_seconds(self._settings.write_timeout_seconds, NO_HURRY)
        return self._call(lambda at: getattr(at.writer, method)(**arguments, timeout=limit), NO_HURRY)

    def update(self, collection: str, operations: Sequence[models.UpdateOperation]) -> None:
        """Apply changes of points; return when a search that starts afterwards sees them.

        Raises:
            BackendUnavailableError: The server took the changes but did not apply them in time, or any cause of
                `write`. Repeating them is harmless.
        """
        ordering = self._settings.writes.ordering
        chosen = None if ordering is None else models.WriteOrdering(ordering.value)
        for _ in range(self._settings.attempts):
            # In order: a repeated change is applied after the one that was only acknowledged.
            results = self.write(
                "batch_update_points",
                collection_name=collection,
                update_operations=operations,
                wait=True,
                ordering=chosen,
            )
            if all(result.status == models.UpdateStatus.COMPLETED for result in results or ()):
                return
            _log.debug("a change of %s was not applied in time: %s", collection, [one.status for one in results])
        raise BackendUnavailableError(self.name, problem="takes changes but does not apply them in time")

    def settle(self, is_done: Callable[[], bool], method: str, **arguments: Any) -> None:
        """Change collections or aliases, which waits for nodes that are down; return once *is_done*.

        The change is made by the majority of the nodes; a call that ends late, since it waited for the others, has
        worked if it shows.

        Raises:
            BackendUnavailableError: The change does not show; it may do so later.
        """
        limit = _whole_seconds(min(self._settings.write_timeout_seconds, LONGEST_SETTLE_SECONDS), NO_HURRY)
        try:
            self._call(lambda at: getattr(at.writer, method)(**arguments, timeout=limit), NO_HURRY)
        except BackendUnavailableError as error:
            if not is_done():
                raise
            _log.info("%s was late and worked: %s", method, error.problem)

    def begin_queries(
        self, collection: str, requests: Sequence[models.QueryRequest], deadline: Deadline = NO_HURRY
    ) -> Callable[[], list[Scored]]:
        """Send searches in one request; return a function that waits for the hits of each, or raises.

        The function raises what `read` raises.
        """
        self.require_open()
        endpoint = self._endpoints[self._at]
        calls = endpoint.searches
        if calls is None:
            return lambda: _scored(self.read("query_batch_points", deadline=deadline, **_batch(collection, requests)))
        try:
            self._breaker.check()
        except BackendUnavailableError as refused:
            return _raiser(refused)
        message = self._query_message(collection, requests, deadline)
        first = [calls.begin(message, self._seconds(deadline))]

        def answer(at: Endpoint) -> list[Scored]:
            begun = first.pop() if first else (at.searches or calls).begin(message, self._seconds(deadline))
            return _numbered(begun.result())

        return lambda: self._call(answer, deadline, is_checked=True)

    def query(
        self, collection: str, requests: Sequence[models.QueryRequest], deadline: Deadline = NO_HURRY
    ) -> list[Scored]:
        """Search, as `begin_queries` does, and return the hits of each request."""
        return self.begin_queries(collection, requests, deadline)()

    def close(self) -> None:
        """Close the connections. Harmless when it is done."""
        if not self._is_closed:
            self._is_closed = True
            for endpoint in self._endpoints:
                endpoint.reader.close()
                endpoint.writer.close()
                if endpoint.searches is not None:
                    endpoint.searches.close()

    def _query_message(
        self, collection: str, requests: Sequence[models.QueryRequest], deadline: Deadline
    ) -> wire.QueryBatchPoints:
        consistency = self._settings.reads.read_consistency
        return wire.QueryBatchPoints(
            collection_name=collection,
            query_points=[RestToGrpc.convert_query_request(request, collection) for request in requests],
            read_consistency=None if consistency is None else RestToGrpc.convert_read_consistency(consistency),
            timeout=_whole_seconds(self._settings.timeout_seconds, deadline),
        )

    def _seconds(self, deadline: Deadline) -> float:
        return float(_whole_seconds(self._settings.timeout_seconds, deadline))

    def _call(self, ask: Callable[[Endpoint], Any], deadline: Deadline, *, is_checked: bool = False) -> Any:
        """Call, and retry if the server did not answer: at the next endpoint, after a pause if it was the last one.

        Raises:
            AbsentError: The collection is not there.
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The server cannot be reached, is too slow or refuses.
            BackendClosedError: The connection was closed.
        """
        wait, number = self._settings.backoff_seconds, len(self._endpoints)
        attempts = max(self._settings.attempts, number)
        for attempt in range(1, attempts + 1):
            self.require_open()
            if deadline.has_passed():
                raise DeadlineExceededError(self.name)
            if not is_checked:
                self._breaker.check()
            is_checked, at = False, self._at
            try:
                answer = ask(self._endpoints[at])
            except VENDOR_ERRORS as error:
                self._note(error, at)
                self._judge(error, deadline)
                if attempt == attempts or not self._is_worth_another(error):
                    _log.debug("qdrant failed", exc_info=True)
                    raise BackendUnavailableError(self.name, problem=problem_of(error)) from error
                _log.debug("qdrant did not answer, %s attempts left: %s", attempts - attempt, type(error).__name__)
            else:
                self._breaker.note_success()
                return answer
            if attempt >= number:
                time.sleep(min(wait, deadline.remaining_seconds() or wait))
                wait *= 2
        raise BackendUnavailableError(self.name)

    def _is_worth_another(self, error: Exception) -> bool:
        return is_passing(error) or (is_late(error) and len(self._endpoints) > 1)

    def _note(self, error: Exception, at: int) -> None:
        """Report to the breaker; every call has at least a second, so one that is late counts as a failure."""
        if is_passing(error) or is_late(error):
            self._breaker.note_failure()
            if self._at == at:
                self._at = (at + 1) % len(self._endpoints)
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
    """Return a connection to the servers that the settings name, with a circuit breaker. Nothing is sent yet."""
    reading, writing = settings.timeout_seconds, settings.write_timeout_seconds
    endpoints = [
        Endpoint(
            _client(settings, address, reading), _client(settings, address, writing), SearchCalls(settings, address)
        )
        for address in settings.addresses
    ]
    return ServerConnection(endpoints, settings, name, faults)


def _client(settings: QdrantServerSettings, address: SplitResult, limit: float) -> QdrantClient:
    options: dict[str, Any] = _OPTIONS | _certificates(settings)
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


def _certificates(settings: QdrantServerSettings) -> dict[str, bytes]:
    files = {
        "root_certificates": settings.ca_file,
        "private_key": settings.key_file,
        "certificate_chain": settings.cert_file,
    }
    return {option: path.read_bytes() for option, path in files.items() if path is not None}


def _batch(collection: str, requests: Sequence[models.QueryRequest]) -> dict[str, Any]:
    return {"collection_name": collection, "requests": requests}


def _scored(replies: Sequence[models.QueryResponse]) -> list[Scored]:
    return [[(int(point.id), float(point.score)) for point in reply.points] for reply in replies]


def _numbered(reply: Any) -> list[Scored]:
    return [[(point.id.num, point.score) for point in one.result] for one in reply.result]


def _raiser(error: Exception) -> Callable[[], list[Scored]]:
    def raise_error() -> list[Scored]:
        raise error

    return raise_error


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


def problem_of(error: BaseException) -> str:
    """Return the problem that an error of the client shows, with its remedy and without the server's words."""
    status = status_of(error)
    if status == "UNAVAILABLE" and any(word in _details(error).lower() for word in _TLS):
        return _TLS_PROBLEM
    return _PROBLEMS.get(status, UNREACHED)


def _details(error: BaseException) -> str:
    details: Any = getattr(error, "details", None)
    return str(details() if callable(details) else "")


def is_late(error: BaseException) -> bool:
    """Return whether the time for the call was over."""
    return status_of(error) == _LATE


def is_absent(error: BaseException) -> bool:
    """Return whether the collection does not exist."""
    return status_of(error) == "NOT_FOUND" or (isinstance(error, ValueError) and "not found" in str(error))
