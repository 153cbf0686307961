"""Bearer tokens of an OAuth 2.1 authorization server: JWT access tokens (RFC 9068), verified by its published keys."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx2
import jwt

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.limits import USER_ID
from memsvc.server.options import OAuthOptions

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key; never by a shared secret, and never none."""
METADATA_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
CACHE_SECONDS = 300
HTTP_SECONDS = 5.0
LEEWAY_SECONDS = 30
ID_PREFIX = "oauth:"


class TokenVerifier:
    """Verifier of access tokens. Thread-safe; the keys of the issuer are cached."""

    def __init__(self, options: OAuthOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._keys: jwt.PyJWKClient | None = None

    @property
    def issuer(self) -> str:
        """Return the issuer whose tokens are accepted."""
        return self._options.issuer

    def verify(self, token: str) -> tuple[ApiKey, Sequence[str]]:
        """Return the rights of a token, as those of a key, and its scopes. May ask the issuer for its keys.

        Raises:
            ValueError: The token is not valid here; the message says why, and holds nothing of the token.
        """
        options = self._options
        try:
            signing_key = self._signing_keys().get_signing_key_from_jwt(token)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                signing_key.key,
                algorithms=list(ALGORITHMS),
                audience=options.audience or options.resource,
                issuer=options.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", options.user_claim]},
            )
        except (jwt.PyJWTError, OSError) as error:
            message = f"{type(error).__name__}: {error}"
            raise ValueError(message) from error
        scopes = _scopes(claims)
        if missing := set(options.scopes) - set(scopes):
            message = f"the scope {', '.join(sorted(missing))} is missing"
            raise ValueError(message)
        return self._rights(claims, scopes), scopes

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

    def _signing_keys(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._keys is None:
                url = self._options.jwks_url or _jwks_url(self._options.issuer)
                self._keys = jwt.PyJWKClient(url, lifespan=CACHE_SECONDS, timeout=HTTP_SECONDS)
            return self._keys


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
    for path in METADATA_PATHS:
        try:
            answer = httpx2.get(issuer.rstrip("/") + path, timeout=HTTP_SECONDS)
            return str(answer.raise_for_status().json()["jwks_uri"])
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            failures.append(f"{path}: {error}")
    message = f"the issuer's metadata have no jwks_uri ({'; '.join(failures)})"
    raise OSError(message)
