"""The second port: /metrics, /healthz and /readyz."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from memsvc.server.addresses import AddressError

READY, NOT_READY, NOT_FOUND = "200 OK", "503 Service Unavailable", "404 Not Found"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, *_: object) -> None:
        """Write no line for each question."""


class Monitoring:
    """Answers in threads of its own, so that it goes on while the event loop is busy."""

    def __init__(self, registry: CollectorRegistry, is_ready: Callable[[], bool]) -> None:
        self._metrics = make_wsgi_app(registry)
        self._is_ready = is_ready
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, address: str) -> str:
        """Listen at "HOST:PORT" (port 0: any free one) and return the URL of the metrics.

        Raises:
            AddressError: It cannot be listened at.
        """
        host, _, port = address.rpartition(":")
        try:
            self._server = make_server(host.strip("[]"), int(port), self._answer, _Server, _Quiet)
        except (OSError, ValueError, OverflowError) as error:
            message = f"Cannot serve metrics at {address!r}: it is in use, or not HOST:PORT of this machine."
            raise AddressError(message) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="monitoring", daemon=True)
        self._thread.start()
        return f"http://{host}:{self._server.server_port}/metrics"

    def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def _answer(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environment, start)
            return answer
        status = {"/healthz": READY, "/readyz": READY if self._is_ready() else NOT_READY}.get(path, NOT_FOUND)
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [status.partition(" ")[2].lower().encode() + b"\n"]
