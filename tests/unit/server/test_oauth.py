"""Keys of an issuer that is away, slow or wrong, and tokens that name keys it never had."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from memsvc.server.http import oauth
from memsvc.server.http.oauth import TOKEN_CHECKS, TokenVerifier
from memsvc.server.options import OAuthOptions
from tests.support.thread_limit import no_new_threads
from tests.support.until import until

RESOURCE = "https://memory.example/mcp"
KEYS = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in ("old", "new")}
CURVE = ec.generate_private_key(ec.SECP256R1())


class Issuer(ThreadingHTTPServer):
    """An issuer on this machine that can be slow, or answer with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.published = ["old"]
        self.status = 200
        self.jwks_uri = f"{self.url}/keys"
        self.metadata_path = ""
        self.reads: list[float] = []
        self.is_open = threading.Event()
        self.is_open.set()

    def token(self, kid: str, signer: str = "old", **claims: Any) -> str:
        """Return a token that is signed by *signer*, and says that it is by *kid*."""
        content = {"iss": self.url, "aud": RESOURCE, "sub": "ada", "exp": int(time.time()) + 600} | claims
        return jwt.encode(content, KEYS[signer], algorithm="RS256", headers={"kid": kid})

    def keys(self) -> dict[str, Any]:
        """Return what is published."""
        listed = [RSAAlgorithm.to_jwk(KEYS[one].public_key(), as_dict=True) | {"kid": one} for one in self.published]
        return {"keys": [*listed, ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True) | {"kid": "curve"}]}


class _Answer(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        issuer = self.server
        if self.path == "/keys":
            issuer.reads.append(time.monotonic())
            issuer.is_open.wait(60)
            body: Any = issuer.keys()
        elif issuer.metadata_path in {"", self.path}:
            body = {"jwks_uri": issuer.jwks_uri}
        else:
            self.send_error(404)
            return
        data = json.dumps(body).encode()
        self.send_response(issuer.status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """A running issuer."""
    with Issuer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.is_open.set()
        server.shutdown()


@pytest.fixture
def verifier(issuer: Issuer) -> TokenVerifier:
    """A verifier of the issuer's tokens."""
    return TokenVerifier(OAuthOptions(issuer=issuer.url, resource=RESOURCE))


async def refused(verifier: TokenVerifier, token: str) -> str:
    """Return the reason that a token is refused for."""
    with pytest.raises(ValueError, match=r".+") as error:
        await verifier.verify(token)
    return str(error.value)


def test_a_token_says_the_user(issuer: Issuer, verifier: TokenVerifier) -> None:
    """The keys are found by the metadata, and read once."""

    async def run() -> None:
        for _ in range(3):
            key, scopes = await verifier.verify(issuer.token("old", scope="a b"))
            assert (("ada",), ["a", "b"]) == (key.user_ids, scopes)

    asyncio.run(run())
    assert 1 == len(issuer.reads)


def test_forged_key_ids_cause_no_requests(
    issuer: Issuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read per pause, whatever they name; genuine tokens are verified in between; a new key is found later."""
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0.5)

    async def run() -> None:
        for number in range(50):
            assert "kid" in await refused(verifier, issuer.token(f"forged-{number}"))
            await verifier.verify(issuer.token("old"))
        elapsed = time.monotonic() - issuer.reads[0]
        assert len(issuer.reads) <= 1 + elapsed / 0.5
        issuer.published = ["new"]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                await verifier.verify(issuer.token("new", "new"))
            except ValueError:
                await refused(verifier, issuer.token("forged"))
            else:
                return
        pytest.fail("the new key was never found")

    asyncio.run(run())


def test_cached_keys_outlive_the_issuer(
    issuer: Issuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their age makes them be read again; while that fails they go on verifying."""
    monkeypatch.setattr(oauth, "CACHE_SECONDS", 0)
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0.0)

    async def run() -> None:
        await verifier.verify(issuer.token("old"))
        issuer.status = 500
        for _ in range(20):
            await verifier.verify(issuer.token("old"))

    asyncio.run(run())
    assert len(issuer.reads) > 1


def test_keys_are_too_old_at_some_time(
    issuer: Issuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was withdrawn while the issuer could not be read does not verify for ever."""
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0.0)

    async def run() -> None:
        await verifier.verify(issuer.token("old"))
        issuer.status = 500
        cache = verifier._keys.jwk_set_cache
        assert cache is not None
        cache.lifespan = 0
        assert "could not be read" in await refused(verifier, issuer.token("old"))

    asyncio.run(run())


def test_a_hanging_issuer_delays_no_token_of_a_cached_key(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Neither by the forged tokens that wait for it, however many, nor by the age of the keys."""

    async def run() -> None:
        await verifier.verify(issuer.token("old"))
        verifier._keys._next_read = verifier._keys._fresh_until = 0.0
        issuer.is_open.clear()
        forged = [asyncio.create_task(refused(verifier, issuer.token(f"f{n}"))) for n in range(10 * TOKEN_CHECKS)]
        async with asyncio.timeout(oauth.HTTP_SECONDS - 1):
            for _ in range(20):
                await verifier.verify(issuer.token("old"))
        assert not any(one.done() for one in forged)
        issuer.is_open.set()
        assert all("kid" in one for one in await asyncio.gather(*forged))

    asyncio.run(run())
    assert 2 == len(issuer.reads)


def test_an_issuer_that_is_away_at_first(
    issuer: Issuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed read is repeated after the pause, not for each token."""
    issuer.status = 500

    async def run() -> None:
        for _ in range(20):
            assert "could not be read" in await refused(verifier, issuer.token("old"))
        assert [] == issuer.reads
        issuer.status = 200
        assert "could not be read" in await refused(verifier, issuer.token("old"))
        verifier._keys._next_read = 0.0
        await verifier.verify(issuer.token("old"))

    asyncio.run(run())
    assert 1 == len(issuer.reads)


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "ftp://127.0.0.1/keys", "keys", 5])
def test_keys_are_read_by_http_alone(issuer: Issuer, verifier: TokenVerifier, uri: Any) -> None:
    """Whatever the metadata of the issuer name."""
    issuer.jwks_uri = uri
    assert "could not be read" in asyncio.run(refused(verifier, issuer.token("old")))
    assert [] == issuer.reads


def test_checks_are_bounded(issuer: Issuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forged tokens take that many threads, and no more."""
    under_way, most, lock, release = 0, 0, threading.Lock(), threading.Event()
    decode = jwt.decode

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        try:
            release.wait(60)
            return decode(*given, **named)
        finally:
            with lock:
                under_way -= 1

    monkeypatch.setattr(jwt, "decode", counted)

    async def run() -> None:
        forged = issuer.token("old", "new")
        refusals = [asyncio.create_task(refused(verifier, forged)) for _ in range(20)]
        await asyncio.to_thread(until, lambda: under_way == TOKEN_CHECKS)
        release.set()
        reasons = await asyncio.gather(*refusals)
        assert all("Signature" in one for one in reasons)

    asyncio.run(run())
    assert TOKEN_CHECKS == most


@pytest.mark.parametrize(
    "token",
    [
        "", "x", "a.b.c", "..", "é.é.é", f"{'W' * 60_000}.e30.x",
        jwt.encode({}, KEYS["old"], algorithm="RS256"),
        jwt.encode({}, KEYS["old"], algorithm="RS256", headers={"kid": "curve"}),
        jwt.encode({}, CURVE, algorithm="ES256", headers={"kid": "old"}),
    ],
    ids=["empty", "letter", "words", "dots", "accents", "long", "no kid", "kid of a curve", "kid of RSA"],
)  # fmt: skip
def test_what_is_no_token_of_the_issuer_is_refused(verifier: TokenVerifier, token: str) -> None:
    """Also a token whose header names the key of another algorithm."""
    asyncio.run(refused(verifier, token))


@pytest.mark.parametrize(
    "path",
    [
        "/realms/agents/.well-known/openid-configuration",
        "/realms/agents/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/realms/agents",
        "/.well-known/oauth-authorization-server/realms/agents",
    ],
)
def test_the_metadata_of_an_issuer_with_a_path_are_found(issuer: Issuer, path: str) -> None:
    """Behind the path, as OpenID Connect places them, and before it, as RFC 8414 does."""
    issuer.metadata_path = path
    issuer.url += "/realms/agents"
    verifier = TokenVerifier(OAuthOptions(issuer=issuer.url, resource=RESOURCE))
    key, _ = asyncio.run(verifier.verify(issuer.token("old")))
    assert key.name == "ada"


@pytest.mark.parametrize("claims", [{"sub": 5}, {"sub": ""}, {"exp": 10**18}, {"scope": 5}, {"aud": "https://other"}])
def test_claims_that_are_wrong(issuer: Issuer, verifier: TokenVerifier, claims: dict[str, Any]) -> None:
    """Even if the issuer has signed them."""
    asyncio.run(refused(verifier, issuer.token("old", **claims)))


def test_keys_are_read_when_a_thread_can_be_started_again(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Until then tokens are refused at once."""

    async def run() -> None:
        with no_new_threads("issuer"):
            for _ in range(2):
                assert "could not be read" in await refused(verifier, issuer.token("old"))
        await verifier.verify(issuer.token("old"))

    asyncio.run(run())
    assert 1 == len(issuer.reads)
