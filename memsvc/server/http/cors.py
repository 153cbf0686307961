"""Rules for web pages of other origins (CORS)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware

if TYPE_CHECKING:
    from memsvc.server.http.connect import Application

METHODS = ("GET", "POST", "DELETE", "OPTIONS")
REQUEST_HEADERS = (
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-type",
    "grpc-timeout",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "tracestate",
    "x-grpc-web",
    "x-memsvc-agent",
    "x-memsvc-locale",
    "x-memsvc-project",
    "x-memsvc-session",
    "x-memsvc-time-zone",
    "x-memsvc-user",
    "x-request-id",
    "x-user-agent",
)
RESPONSE_HEADERS = (
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "mcp-session-id",
    "retry-after",
    "trailer-x-memsvc-notice",
    "trailer-x-request-id",
    "www-authenticate",
    "x-request-id",
)
"""Headers that scripts of other origins may send and read: of Connect, gRPC-Web, MCP, tracing, key and request id."""
CORS_SECONDS = 7_200
_ALL = "*"


def with_cors(application: Application, origins: Collection[str]) -> Application:
    """Return an application whose responses, errors included, pages of *origins* can read."""
    if not origins:
        return application
    shared = CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=REQUEST_HEADERS,
        expose_headers=RESPONSE_HEADERS,
        # A page that is named may come from the Internet, and the service be on this machine.
        allow_private_network=True,
        max_age=CORS_SECONDS,
    )
    return cast("Application", shared)


def is_foreign(origin: str, host: str, origins: Collection[str]) -> bool:
    """Return whether a page of *origin* may not call the service at *host*; empty: the caller is no page."""
    if not origin or origin in origins or _ALL in origins:
        return False
    return urlsplit(origin).netloc.lower() != host.lower()
