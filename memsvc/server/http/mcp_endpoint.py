"""MCP over Streamable HTTP: the server of the SDK, with the caller and the scope of each request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import grpc
import structlog
from connectrpc.errors import ConnectError
from mcp import MCPError
from mcp import types as mcp
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from pydantic import AnyHttpUrl
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.errors import ApiKeyExpiredError, ApiKeyInvalidError, ApiKeyRequiredError, MemsvcError
from memsvc.domain.field_rules import time_zone
from memsvc.mcp.connection import BridgeScope, CallNotices, Link, client_of
from memsvc.mcp.resources import Updates
from memsvc.mcp.server import Open, built
from memsvc.server.http.connect import Message, Receive, Scope, Send, in_time, peer_of, send_error
from memsvc.server.http.oauth import TokenVerifier
from memsvc.server.in_process import Caller, InProcessChannel
from memsvc.server.interceptors.authentication import Authentication
from memsvc.server.interceptors.chain import Method
from memsvc.server.interceptors.rules import RefusalSummary
from memsvc.server.options import HttpOptions, OAuthOptions
from memsvc.server.slots import SlotOptions

PATH = "/mcp"
KEY_PREFIX = "memsvc_"
MOST_LINKS = 1_000
"""The number of callers whose handles of contexts are kept; the one that was silent for the longest goes first."""
NAMES = ("user", "project", "agent", "session", "time_zone", "locale")
ISSUER = "memsvc"


class VerifiedToken(AccessToken):
    """A bearer token that is valid: an API key, or one of the authorization server.

    Attributes:
        key: The rights of the caller.
        is_api_key: Whether the token itself is the API key, which each call brings along.
    """

    key: Any
    is_api_key: bool


class _Verifier:
    """Verifier of bearer tokens."""

    def __init__(
        self, authentication: Authentication, tokens: TokenVerifier | None, needed_scopes: Sequence[str]
    ) -> None:
        self._authentication = authentication
        self._tokens = tokens
        self._needed = needed_scopes
        self._log = structlog.get_logger("memsvc.mcp")
        self._refused = RefusalSummary(self._log_refused)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what is known of a token, None unless it is valid.

        Raises:
            MemsvcError: The store of API keys cannot be asked.
        """
        if token.startswith(KEY_PREFIX) or self._tokens is None:
            try:
                key = await self._authentication.find_key(token)
            except (ApiKeyInvalidError, ApiKeyExpiredError, ApiKeyRequiredError):
                return None
            return _verified(token, key, is_api_key=True, issuer=ISSUER, scopes=self._needed)
        try:
            key, scopes = await self._tokens.verify(token)
        except ValueError as error:
            self._log_one(str(error))
            await self._authentication.slow_down()
            return None
        if missing := set(self._needed) - set(scopes):
            self._log_one(f"the scope {', '.join(sorted(missing))} is missing")
        return _verified(token, key, is_api_key=False, issuer=self._tokens.issuer, scopes=scopes)

    def flush(self) -> None:
        """Log the sum of the tokens that were refused since the last one."""
        self._refused.flush()

    def _log_one(self, reason: str) -> None:
        if self._refused.has_own_line(grpc.StatusCode.UNAUTHENTICATED, reason):
            self._log.info("token refused", reason=reason)

    def _log_refused(self, *, count: int, peers: Mapping[str, int], seconds: float, **_: object) -> None:
        self._log.info("tokens refused", count=count, reasons=peers, seconds=seconds)


def _verified(token: str, key: ApiKey, *, is_api_key: bool, issuer: str, scopes: Sequence[str] = ()) -> VerifiedToken:
    return VerifiedToken(
        token=token,
        client_id=key.id,
        scopes=list(scopes),
        subject=key.id,
        claims={"iss": issuer},
        key=key,
        is_api_key=is_api_key,
    )


@dataclass(slots=True)
class _Links:
    """Open links of the callers of HTTP, by caller and scope. Calls go to the chain, with the rights of the caller."""

    methods: Mapping[str, Method]
    opened: OrderedDict[tuple[Any, ...], tuple[Open, InProcessChannel]] = field(default_factory=OrderedDict)

    async def find(self, request: Any) -> Open:
        """Return what is open for the caller of a request.

        Raises:
            MCPError: The request does not say for whom, or for others than its key.
        """
        token = _token_of(request)
        key = token.key if isinstance(token, VerifiedToken) else None
        place = scope_of(request, key)
        caller = _caller(request, token)
        name = (caller.authorization, key and (key.id, key.role, key.project_ids), place)
        found = self.opened.get(name)
        if found is None:
            found = self.opened[name] = self._open(place, caller)
            if len(self.opened) > MOST_LINKS:
                _, (oldest, _) = self.opened.popitem(last=False)
                await oldest.updates.close()
        self.opened.move_to_end(name)
        opened, channel = found
        # A token of the same rights may have been renewed: with the old one, watches would end at its expiry.
        channel.caller = caller
        return opened

    def is_read_only(self, request: Any) -> bool:
        """Return whether the key of a request may change nothing."""
        token = _token_of(request)
        return isinstance(token, VerifiedToken) and _is_reader(token.key)

    async def close(self) -> None:
        """End all watches."""
        for each, _ in self.opened.values():
            await each.updates.close()
        self.opened.clear()

    def _open(self, place: BridgeScope, caller: Caller) -> tuple[Open, InProcessChannel]:
        channel = InProcessChannel(self.methods, caller)
        notices, opened = CallNotices(), cast("grpc.aio.Channel", channel)
        here, everywhere = (client_of(place, project, notices).open(opened) for project in (place.project, ""))
        link = Link(place, here, everywhere, notices=notices)
        return Open(link, Updates(link)), channel


def _token_of(request: Request) -> AccessToken | None:
    return request.user.access_token if isinstance(request.user, AuthenticatedUser) else None


def _is_reader(key: ApiKey) -> bool:
    return not key.role.covers(ApiKeyRole.READ_WRITE)


def _caller(request: Request, token: AccessToken | None) -> Caller:
    peer = peer_of(request.client, request.headers.keys())
    if isinstance(token, VerifiedToken) and not token.is_api_key:
        return Caller(peer, verified_key=token.key)
    return Caller(peer, authorization=request.headers.get("authorization", ""))


def scope_of(request: Request, key: ApiKey | None) -> BridgeScope:
    """Return for whom a request is: by its key or token, and by the headers and the URL that its client is set to.

    Raises:
        MCPError: It does not say, says something else than the key, or an unknown time zone.
    """
    asked = {name: _header(request, name) or request.query_params.get(name, "") for name in NAMES}
    for name, allowed in (("user", key.user_ids if key else ()), ("project", key.project_ids if key else ())):
        if len(allowed) == 1:
            if asked[name] not in {"", allowed[0]}:
                message = f"The key of this MCP server is for the {name} {allowed[0]!r}, not {asked[name]!r}."
                raise MCPError(mcp.INVALID_PARAMS, message)
            asked[name] = allowed[0]
    if not asked["user"]:
        message = (
            "Whose memories? The URL of this MCP server needs ?user=NAME, or the header X-Memsvc-User, or the API key"
            " of one user."
        )
        raise MCPError(mcp.INVALID_PARAMS, message)
    if time_zone(asked["time_zone"]) is None:
        message = f"There is no time zone {asked['time_zone']!r}; name one such as Asia/Shanghai."
        raise MCPError(mcp.INVALID_PARAMS, message)
    return BridgeScope(
        address=_own_address(request),
        user=asked["user"],
        project=asked["project"],
        agent=asked["agent"],
        session=asked["session"],
        time_zone=asked["time_zone"],
        locale=asked["locale"],
        read_only=key is not None and _is_reader(key),
    )


def _header(request: Request, name: str) -> str:
    header = f"X-Memsvc-{name.replace('_', '-').title()}"
    try:
        return request.headers.get(header, "").encode("latin-1").decode()
    except UnicodeDecodeError:
        message = f"The header {header} must be text in UTF-8."
        raise MCPError(mcp.INVALID_PARAMS, message) from None


def _own_address(request: Request) -> str:
    """Return the address that a request has reached, "HOST:PORT" or the path of a socket."""
    host, port = request.scope.get("server") or ("", None)
    return host if port is None else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _metadata(oauth: OAuthOptions) -> Callable[[Request], Awaitable[Response]]:
    """Return the page of the metadata of the protected resource (RFC 9728).

    The SDK's own would write an issuer without a path with a slash at its end, which then is another issuer.
    """
    document = {
        "resource": oauth.resource,
        "authorization_servers": [oauth.issuer],
        # Clients ask for all of them.
        "scopes_supported": list(dict.fromkeys((*oauth.scopes, *filter(None, (oauth.write_scope,))))),
        "bearer_methods_supported": ["header"],
    }

    async def page(_: Request) -> Response:
        return JSONResponse(document, headers={"access-control-allow-origin": "*"})

    return page


def _is_foreign(origin: str, host: str, origins: Collection[str]) -> bool:
    """Return whether a page of *origin* may not call the service at *host*; empty: the caller is no page."""
    if not origin or origin in origins or "*" in origins:
        return False
    return urlsplit(origin).netloc.lower() != host.lower()


class McpEndpoint:
    """The endpoint, as an ASGI application, and its routes."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        options: HttpOptions,
        authentication: Authentication,
        limits: SlotOptions,
        *,
        is_open: Callable[[], bool],
    ) -> None:
        """Call *methods*; *authentication* finds API keys, *is_open* says whether none is needed.

        *limits* has the longest silences of a client that sends a request.
        """
        oauth = options.oauth
        tokens = TokenVerifier(oauth) if oauth.issuer else None
        self._is_open = is_open
        self._limits, self._max_bytes = limits, options.max_json_bytes
        needed = list(oauth.scopes) if tokens is not None else []
        self._origins = options.cors_origins
        self._verifier = _Verifier(authentication, tokens, needed)
        self._has_tokens = tokens is not None
        self._links = _Links(methods)
        self._manager = StreamableHTTPSessionManager(built(self._links), max_request_body_size=self._max_bytes)
        self._sdk: Any = StreamableHTTPASGIApp(self._manager)
        resource = AnyHttpUrl(oauth.resource) if tokens is not None else None
        where = None if resource is None else build_resource_metadata_url(resource)
        guarded = RequireAuthMiddleware(self._receive_whole, needed, where)
        self._guarded = AuthContextMiddleware(guarded)
        self._whole = AuthenticationMiddleware(self._route, backend=BearerAuthBackend(cast("Any", self._verifier)))
        self.routes: list[BaseRoute] = [Route(PATH, endpoint=self)]
        if where is not None:
            self.routes.append(Route(where.path or "/", _metadata(oauth)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve sessions while the context is open."""
        async with self._manager.run():
            try:
                yield
            finally:
                self._verifier.flush()
                await self._links.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin, host = headers.get(b"origin", ""), headers.get(b"host", headers.get(b":authority", ""))
        if _is_foreign(origin, host, self._origins):
            message = f"Pages of {origin!r} may not call MCP here: list the origin in http.cors_origins."
            await send_error(send, 403, "permission_denied", message)
            return
        try:
            await self._whole(scope, receive, send)
        except MemsvcError as error:
            # That is no refusal: after one, clients would forget their key and ask people to log in.
            await send_error(send, 503, "unavailable", error.message, [(b"retry-after", b"1")])
        except ConnectError as error:
            await send_error(send, 504, error.code.value, error.message, [(b"connection", b"close")])

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_token = any(name == b"authorization" for name, _ in scope["headers"])
        is_free = not has_token and not self._has_tokens and self._is_open()
        await (self._receive_whole if is_free else self._guarded)(scope, receive, send)

    async def _receive_whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose caller is known, once its body is here.

        Raises:
            ConnectError: The client was silent for too long.
        """
        if scope["method"] == "POST":
            receive = await _buffered(in_time(receive, self._limits), receive, self._max_bytes)
        await self._sdk(scope, receive, send)


async def _buffered(timed: Receive, rest: Receive, max_bytes: int) -> Receive:
    """Read a body by *timed*; return a receive that has it, and then what *rest* has.

    Of a body that is too large only the beginning is read; the SDK refuses it.
    """
    messages = [await timed()]
    size = len(messages[0].get("body", b""))
    while messages[-1].get("more_body", False) and size <= max_bytes:
        messages.append(await timed())
        size += len(messages[-1].get("body", b""))
    messages.reverse()

    async def receive() -> Message:
        return messages.pop() if messages else await rest()

    return receive
