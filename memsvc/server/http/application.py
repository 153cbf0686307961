"""Paths of the HTTP address: the methods of the API, probes, and rules for browsers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import memsvc
from memsvc.server.addresses import is_local
from memsvc.server.http.connect import (
    ConnectApplication,
    Message,
    Receive,
    Scope,
    Send,
    in_time,
    send_error,
)
from memsvc.server.options import HttpOptions
from memsvc.server.slots import SlotOptions

if TYPE_CHECKING:
    from memsvc.server.http.mcp_endpoint import McpEndpoint

READS = frozenset({"GET", "HEAD"})
CONSOLE = Path(memsvc.__file__).parent / "console"
"""A folder without Python: all that it holds is served."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
CACHING = (b"cache-control", b"no-cache")
"""A browser asks whether what it has is still the same: the modules of two versions do not fit together."""
CODES = {404: "unimplemented", 405: "unimplemented", 415: "unimplemented", 421: "permission_denied"}
HINTS = {
    404: "Nothing is served at this path. Methods are called by POST /memsvc.v1.SERVICE/METHOD.",
    405: "This path is called by another HTTP method than this one; see the header Allow.",
    415: (
        "The content type must be application/json or application/proto for a method with one request and one response,"
        " and application/connect+json or application/connect+proto for one that streams."
    ),
    421: (
        "Without API keys the service answers to names of this machine only, so that no web page reaches it by a name "
        "of its own. Use localhost or 127.0.0.1, make a key, or list the name in http.allowed_hosts."
    ),
}


class HttpApplication:
    """All paths of the HTTP address."""

    def __init__(
        self,
        connect: ConnectApplication,
        options: HttpOptions,
        limits: SlotOptions,
        *,
        is_ready: Callable[[], bool],
        is_open: Callable[[], bool],
        mcp: McpEndpoint | None = None,
    ) -> None:
        """Serve methods, probes and MCP.

        *is_ready* says whether calls of every service are answered, *is_open* whether they need no key.
        """
        self._connect = connect
        self._limits = limits
        self._is_ready = is_ready
        self._is_open = is_open
        self._is_local = is_local(options.address)
        self._hosts = frozenset(host.lower() for host in options.allowed_hosts)
        probes = (Route("/healthz", self._healthz), Route("/readyz", self._readyz))
        self._named = {one.path for one in (*probes, *(mcp.routes if mcp else ())) if isinstance(one, Route)}
        console = [Mount("/", StaticFiles(directory=CONSOLE, html=True))] if options.console else []
        self._others = Starlette(
            routes=[*probes, *(mcp.routes if mcp else ()), *console],
            exception_handlers={HTTPException: _refused},
            lifespan=None if mcp is None else lambda _: mcp.running(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._others(scope, receive, send)
        elif not self._is_host_allowed(scope):
            await _error(421)(scope, receive, send)
        elif scope["path"] in self._connect.paths and (header := _undecodable_header(scope)):
            message = f"The header {header} must be text in UTF-8."
            await send_error(send, 400, "invalid_argument", message)
        elif scope["path"] in self._connect.paths:
            await self._connect(scope, in_time(receive, self._limits), _explained(send))
        elif scope["method"] not in READS and scope["path"] not in self._named:
            # The console would answer that this is another method than that of a page.
            await _error(404)(scope, receive, send)
        else:
            await self._others(scope, receive, _guarded(send))

    def _is_host_allowed(self, scope: Scope) -> bool:
        """Return whether a request is for this machine: a web page may have its own name resolve to it."""
        if not self._is_local or not self._is_open():
            return True
        named = (value.decode("latin-1") for name, value in scope["headers"] if name in {b"host", b":authority"})
        host = next(named, "")
        name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
        if not name or name.lower() in self._hosts or "*" in self._hosts:
            return True
        return is_local(f"{name}:0") or name.lower().endswith(".localhost")

    async def _healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        is_ready = self._is_ready()
        return PlainTextResponse("ok\n" if is_ready else "not ready\n", 200 if is_ready else 503)


def _undecodable_header(scope: Scope) -> str:
    """Return the name of a header that connectrpc would fail on with an internal error; empty if there is none."""
    for name, value in scope["headers"]:
        if not (name.isascii() and value.isascii()):
            try:
                name.decode()
                value.decode()
            except UnicodeDecodeError:
                return ascii(name.decode("latin-1"))
    return ""


def _error(status: int, headers: Any = None) -> Response:
    """Return an error in the form of Connect."""
    return JSONResponse({"code": CODES[status], "message": HINTS[status]}, status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _error(status if status in HINTS else 404, getattr(error, "headers", None))


def _guarded(send: Send) -> Send:
    """Return *send* with the headers that keep a page from loading, showing or telling anything of other origins."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            is_cached = any(name == CACHING[0] for name, _ in message["headers"])
            message["headers"] = [*message["headers"], *PAGE_HEADERS, *(() if is_cached else (CACHING,))]
        await send(message)

    return send_guarded


def _explained(send: Send) -> Send:
    """Return *send* that says in words what an answer without a body says by its status."""
    hint: dict[str, Any] = {}

    async def send_explained(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in HINTS:
            named = {name for name, _ in message["headers"]}
            if b"content-type" not in named:
                body = {"code": CODES[message["status"]], "message": HINTS[message["status"]]}
                hint["body"] = json.dumps(body).encode()
                message["headers"] = [*message["headers"], (b"content-type", b"application/json")]
        elif message["type"] == "http.response.body" and hint:
            message["body"] = hint.pop("body")
        await send(message)

    return send_explained
