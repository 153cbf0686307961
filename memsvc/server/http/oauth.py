"""Bearer tokens of an OAuth 2.1 authorization server: JWT access tokens (RFC 9068), verified by its published keys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt
import structlog

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.limits import USER_ID
from memsvc.server.options import OAuthOptions

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key; never by a shared secret, and never none."""
METADATA_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
CACHE_SECONDS = 300
"""The age of cached keys at which they are read again; tokens do not wait for that."""
STALE_SECONDS = 86_400
"""The age of cached keys up to which they verify tokens while the issuer is away."""
RETRY_SECONDS = 5.0
"""The pause after a read of keys: forged key ids must not cause a request to the issuer each."""
HTTP_SECONDS = 5.0
READ_SECONDS = 10.0
"""The longest wait of a token for a read of keys."""
TOKEN_CHECKS = 2
"""Tokens verified at a time: forged ones must not take the threads of other calls."""
LEEWAY_SECONDS = 30
ID_PREFIX = "oauth:"
_UNREADABLE = (
    jwt.PyJWTError, httpx2.HTTPError, OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError,
)  # fmt: skip
"""Errors of a read of keys, whatever the issuer answers; the keys of the cache stay then."""


class TokenVerifier:
    """Verifier of access tokens, for one event loop. The keys of the issuer are cached."""

    def __init__(self, options: OAuthOptions) -> None:
        self._options = options
        self._keys = _IssuerKeys(options)
        self._checks = asyncio.Semaphore(TOKEN_CHECKS)

    @property
    def issuer(self) -> str:
        """Return the issuer whose tokens are accepted."""
        return self._options.issuer

    async def verify(self, token: str) -> tuple[ApiKey, Sequence[str]]:
        """Return the rights of a token, as those of a key, and its scopes. May ask the issuer for its keys.

        The caller compares the scopes. A token whose key is cached never waits for the issuer.

        Raises:
            ValueError: The token is not valid here; the message says why, and holds nothing of the token.
        """
        await self._keys.prepare(_key_id(token))
        async with self._checks:
            return await asyncio.to_thread(self._verified, token)

    def _verified(self, token: str) -> tuple[ApiKey, Sequence[str]]:
        options = self._options
        try:
            signing_key = self._keys.get_signing_key_from_jwt(token)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                signing_key.key,
                algorithms=list(ALGORITHMS),
                audience=options.audience or options.resource,
                issuer=options.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", options.user_claim]},
            )
            scopes = _scopes(claims)
            return self._rights(claims, scopes), scopes
        # A key of another algorithm than the header's is a TypeError, a time beyond the calendar an OverflowError.
        except (jwt.PyJWTError, TypeError, OSError, OverflowError, RecursionError) as error:
            message = f"{type(error).__name__}: {error}"
            raise ValueError(message) from error

    def _rights(self, claims: Mapping[str, Any], scopes: Sequence[str]) -> ApiKey:
        options = self._options
        user = _identifier(claims, options.user_claim)
        projects = (_identifier(claims, options.project_claim),) if options.project_claim else ()
        may_write = not options.write_scope or options.write_scope in scopes
        return ApiKey(
            id=f"{ID_PREFIX}{user}",
            name=user,
            role=ApiKeyRole.READ_WRITE if may_write else ApiKeyRole.READ_ONLY,
            digest=b"",
            create_time=datetime.now(UTC),
            tenant_id=options.tenant_id,
            user_ids=(user,),
            project_ids=projects,
            expire_time=datetime.fromtimestamp(int(claims["exp"]), UTC),
        )


class _IssuerKeys(jwt.PyJWKClient):
    """Published keys of the issuer, as a cache that never waits for the issuer.

    The keys are read in a thread of their own, once at a time, with a pause after each read. Keys in the cache verify
    tokens for up to STALE_SECONDS while the issuer is away.
    """

    def __init__(self, options: OAuthOptions) -> None:
        super().__init__(options.jwks_url or options.issuer, lifespan=STALE_SECONDS, timeout=HTTP_SECONDS)
        self._log = structlog.get_logger("memsvc.mcp")
        self._options = options
        self._is_located = bool(options.jwks_url)
        self._reading: Future[None] | None = None
        self._next_read = 0.0
        self._fresh_until = 0.0

    def get_signing_key(self, kid: str) -> jwt.PyJWK:
        """Return a key of the cache.

        Raises:
            PyJWKClientError: It is not in the cache.
        """
        if (key := self._cached(kid)) is None:
            message = "the issuer has published no key of this kid, or could not be read"
            raise jwt.PyJWKClientError(message)
        return key

    async def prepare(self, kid: str) -> None:
        """Have the keys read if the cache is old or lacks *kid*; wait for it only if it lacks *kid*."""
        is_cached, now = self._cached(kid) is not None, time.monotonic()
        if is_cached and now < self._fresh_until:
            return
        if self._reading is None and now >= self._next_read:
            self._reading = Future()
            thread = threading.Thread(target=self._read, args=(self._reading,), name="issuer", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._reading = None
                self._log.warning("keys of the issuer were not read", reason=str(error))
        reading = self._reading
        if reading is not None and not is_cached:
            await asyncio.wait({asyncio.wrap_future(reading)}, timeout=READ_SECONDS)

    def _cached(self, kid: str) -> jwt.PyJWK | None:
        found = self.jwk_set_cache.get() if self.jwk_set_cache is not None else None
        keys = () if found is None else found.keys
        return next((one for one in keys if one.key_id == kid and one.public_key_use in {"sig", None}), None)

    def _read(self, reading: Future[None]) -> None:
        try:
            if not self._is_located:
                self.uri = _jwks_url(self._options.issuer)
                self._is_located = True
            self.fetch_data()
            self._fresh_until = time.monotonic() + CACHE_SECONDS
        except _UNREADABLE as error:
            # The issuer may have moved its keys.
            self._is_located = bool(self._options.jwks_url)
            self._log.warning("keys of the issuer were not read", reason=f"{type(error).__name__}: {error}")
        finally:
            self._next_read = time.monotonic() + RETRY_SECONDS
            self._reading = None
            reading.set_result(None)


def _key_id(token: str) -> str:
    """Return the id of the key that has signed a token, as the token says.

    Raises:
        ValueError: The token is no JWT.
    """
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, RecursionError) as error:
        message = f"{type(error).__name__}: {error}"
        raise ValueError(message) from error
    if not isinstance(kid, str):
        message = "the token names no key (kid)"
        raise ValueError(message)  # noqa: TRY004 - tokens of any content are refused alike
    return kid


def _scopes(claims: Mapping[str, Any]) -> Sequence[str]:
    told = claims.get("scope", claims.get("scp", ""))
    return told.split() if isinstance(told, str) else [str(one) for one in told]


def _identifier(claims: Mapping[str, Any], name: str) -> str:
    told = claims.get(name)
    if not isinstance(told, str) or not 0 < len(told) <= USER_ID:
        message = f"the claim {name} is no id of 1 to {USER_ID} characters"
        raise ValueError(message)
    return told


def _jwks_url(issuer: str) -> str:
    """Return the address of the issuer's keys from its metadata (RFC 8414, OpenID Connect Discovery).

    Raises:
        OSError: The issuer does not answer, or says nothing of its keys.
    """
    failures = []
    parts = urlsplit(issuer.rstrip("/"))
    places = [f"{parts.path}{known}" for known in METADATA_PATHS]
    # The metadata of an issuer with a path are behind the path (OpenID Connect), or before it (RFC 8414).
    places += [f"{known}{parts.path}" for known in METADATA_PATHS if parts.path]
    for path in places:
        try:
            answer = httpx2.get(f"{parts.scheme}://{parts.netloc}{path}", timeout=HTTP_SECONDS)
            return _http_url(str(answer.raise_for_status().json()["jwks_uri"]))
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            failures.append(f"{path}: {error}")
    message = f"the issuer's metadata have no jwks_uri ({'; '.join(failures)})"
    raise OSError(message)


def _http_url(url: str) -> str:
    if urlsplit(url).scheme not in {"http", "https"}:
        message = f"the jwks_uri {url!r} is no URL of http or https"
        raise ValueError(message)
    return url
