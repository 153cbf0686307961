"""Addresses that webhooks may go to, secrets, settings and the backoff of retries."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme
from google.protobuf.json_format import MessageToDict, ParseDict

from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.watch import Effect, WatchEvent
from memsvc.domain.webhooks import is_public, is_webhook_secret, signature
from memsvc.engine.watch.webhooks import Attempt, RetryPolicy, WebhookService
from memsvc.ports.operations import WebhookDelivery
from memsvc.server.options import WebhookEndpoint, WebhookOptions
from memsvc.server.webhooks import WebhookChannel, body_of
from memsvc.settings import SettingsError, load_settings
from memsvc.v1.memory_service_pb2 import MemoryChange
from tests.support.webhook_receiver import SECRET, Answer, Receiver, receiving

CHANGE = Change(7, 1, "m", ChangeAction.PURGED, 2, 1_700_000_000_000_000)
DELIVERY = WebhookDelivery("e", "\x1fada", "", CHANGE)


class _Ids(WebhookService):
    """A service of which only the ids of events are asked for."""

    def __init__(self) -> None:
        """Have no stores."""

    def event_id(self, delivery: WebhookDelivery) -> str:
        """Return an id."""
        return f"msg_{delivery.change.position}"


def send(monkeypatch: pytest.MonkeyPatch, url: str, addresses: list[str], *, allow_private: bool) -> Attempt:
    """Send to an endpoint whose host has these addresses."""

    async def run() -> Attempt:
        async def resolve(host: str, port: int, **_: Any) -> list[Any]:
            assert host == "hooks.example.com"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        loop = asyncio.get_running_loop()
        original = loop.getaddrinfo
        monkeypatch.setattr(
            loop, "getaddrinfo", lambda host, *a, **k: (resolve if host[0] == "h" else original)(host, *a, **k)
        )
        options = WebhookOptions(allow_private=allow_private, timeout_seconds=5)
        channel = WebhookChannel(_Ids(), WebhookEndpoint("e", url, SECRET), options)
        try:
            return (await channel.send(DELIVERY, WatchEvent(CHANGE, Effect.LEFT, None)))[1]
        finally:
            await channel.close()

    return asyncio.run(run())


def _named(receiver: Receiver) -> str:
    return receiver.url.replace("127.0.0.1", "hooks.example.com")


def test_a_name_with_a_private_address_among_others_gets_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address that is not public is enough; the request never leaves."""
    with receiving() as receiver:
        for addresses in (["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"]):
            attempt = send(monkeypatch, _named(receiver), addresses, allow_private=False)
            assert attempt.status == 0
            assert "not public" in attempt.error
            assert not attempt.is_accepted
            assert attempt.is_retried
    assert receiver.requests == []


def test_the_request_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the name of the host, though the name resolves to nothing else; a dead address is passed over."""
    with receiving() as receiver:
        attempt = send(monkeypatch, f"{_named(receiver)}/a?b=c", ["127.0.0.2", "127.0.0.1"], allow_private=True)
    assert attempt.is_accepted
    [request] = receiver.requests
    assert request.path == "/a?b=c"
    assert request.headers["host"] == _named(receiver).removeprefix("http://")
    assert request.is_signed()


@pytest.mark.parametrize("name", ["hooks.example.com", "other.example.com"])
def test_the_certificate_is_that_of_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Though the connection is made to an address; one of another name gets nothing."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    with receiving(context) as receiver:
        attempt = send(monkeypatch, _named(receiver), ["127.0.0.1"], allow_private=True)
    is_right = name == "hooks.example.com"
    assert attempt.is_accepted is is_right
    assert len(receiver.requests) == is_right
    assert is_right or "certificate verify failed" in attempt.error


def test_the_example_of_the_guide_is_in_the_form_of_what_is_sent() -> None:
    """Among the rest numbers of 64 bits, which are strings."""
    guide = (Path(__file__).parents[3] / "docs/guides/webhooks.md").read_text()
    example = json.loads(guide.partition("```json\n")[2].partition("```")[0])
    change = ParseDict(example["data"]["change"], MemoryChange())
    assert MessageToDict(change) == example["data"]["change"]

    event = WatchEvent(replace(CHANGE, action=ChangeAction.CREATED), Effect.LEFT, None)
    sent = json.loads(body_of(DELIVERY, event))
    assert sent.keys() == example.keys()
    assert sent["data"].keys() == example["data"].keys()
    assert sent["type"] == example["type"]


@pytest.mark.parametrize("status", [200, 410])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(headers={"content-length": "20"}, body=b"short"),
        Answer(headers={"content-length": "20", "connection": "close"}, body=b"short"),
        Answer(headers={"content-length": "2", "content-encoding": "gzip"}, body=b"ok"),
    ],
    ids=["late", "cut off", "no gzip"],
)
def test_the_status_decides_whatever_becomes_of_the_body(answer: Answer, status: int) -> None:
    """An event that the endpoint has accepted is not sent again, and the next one is sent as ever."""
    event = WatchEvent(CHANGE, Effect.LEFT, None)

    async def run(url: str) -> list[int]:
        options = WebhookOptions(allow_private=True, timeout_seconds=5, concurrency=1)
        channel = WebhookChannel(_Ids(), WebhookEndpoint("e", url, SECRET), options)
        sent = [(await channel.send(DELIVERY, event))[1].status for _ in range(2)]
        await channel.close()
        return sent

    with receiving() as receiver:
        receiver.answer = lambda _path, _user: replace(answer, status=status)
        assert asyncio.run(run(f"{receiver.url}/")) == [status, status]


def test_an_event_that_cannot_be_encoded_keeps_no_other_from_being_sent() -> None:
    """It is a failed attempt of its own, and is sent again later."""
    event = WatchEvent(CHANGE, Effect.LEFT, None)
    beyond = WatchEvent(replace(CHANGE, time=10**20), Effect.LEFT, None)

    async def run(url: str) -> list[Attempt]:
        options = WebhookOptions(allow_private=True, timeout_seconds=5)
        channel = WebhookChannel(_Ids(), WebhookEndpoint("e", url, SECRET), options)
        attempts = [(await channel.send(DELIVERY, one))[1] for one in (beyond, event)]
        await channel.close()
        return attempts

    with receiving() as receiver:
        failed, sent = asyncio.run(run(f"{receiver.url}/"))
    assert (failed.status, failed.error, failed.is_retried) == (0, "SerializeToJsonError", True)
    assert sent.is_accepted
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_request_that_is_broken_off_keeps_no_connection(*, is_connected: bool) -> None:
    """Wherever its timeout finds it: else the pool fills up, and nothing is sent to the endpoint before a restart."""
    event = WatchEvent(CHANGE, Effect.LEFT, None)

    async def is_sent_after(steps: int) -> tuple[bool, bool]:
        """Break a request off after *steps* of the event loop; return if it had ended, and if the next is accepted."""
        options = WebhookOptions(allow_private=True, timeout_seconds=5, concurrency=1)
        channel = WebhookChannel(_Ids(), WebhookEndpoint("e", f"{receiver.url}/", SECRET), options)
        if is_connected:
            await channel.send(DELIVERY, event)
        broken_off = asyncio.create_task(channel.send(DELIVERY, event))
        for _ in range(steps):
            await asyncio.sleep(0)
        is_over = broken_off.done()
        broken_off.cancel()
        await asyncio.gather(broken_off, return_exceptions=True)
        _, following = await channel.send(DELIVERY, event)
        await channel.close()
        return is_over, following.is_accepted

    with receiving() as receiver:
        for steps in range(200):
            is_over, is_accepted = asyncio.run(is_sent_after(steps))
            assert is_accepted, f"after {steps} steps"
            if is_over:
                break


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104 - refused
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "names", "192.0.0.8", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.19.0.1",
        "198.51.100.1", "203.0.113.1", "240.0.0.1", "fec0::1", "::7f00:1", "::8.8.8.8", "::ffff:0:7f00:1",
        "::ffff:0:808:808", "::ffff:169.254.169.254", "64:ff9b::a00:1", "64:ff9b:1::7f00:1", "64:ff9b:1:7f00:1:0:808:808",
        "2001:0:7f00:1::", "2001:0:808:808::f7f7:f7f7", "2001:db8::1", "2002:808:808::1", "3fff::1", "3fff:fff::1",
        "5f00::1", "100::1", "fdff::1", "febf::1", "ffff::1", "4000::1", "1fff:ffff::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    """Loopback, private, link-local, metadata, shared, multicast, reserved, and IPv6 that leads to such.

    With every patch version of Python: 3.11.7 takes 192.0.0.192, fec0::1, ::7f00:1, 3fff::1 and 5f00::1 for public.
    """
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "93.184.215.14", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "1.0.0.1", "9.255.255.255", "11.0.0.1",
        "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "192.88.98.1", "192.167.1.1",
        "198.17.0.1", "198.20.0.1", "223.255.255.254", "::ffff:8.8.8.8", "64:ff9b:1::808:808", "2001:200::1",
        "2001:4860:4860::8888", "2003::1", "2a00:1450:4001::1", "3ffe:ffff::1", "3fff:1000::1",
    ],
)  # fmt: skip
def test_public_addresses(address: str) -> None:
    """Those of the Internet."""
    assert is_public(address)


def test_signature_of_the_published_example() -> None:
    """The example of Standard Webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - published
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_AAAA", "A" * 44, "whsec_" + "A" * 100, "whsec_ä" + "A" * 43])
def test_wrong_secrets(text: str) -> None:
    """Without prefix, too short, too long, not Base64."""
    assert not is_webhook_secret(text)


GOOD = {"url": "https://hooks.example.com/m", "secret": SECRET}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"endpoints": {"a": {"url": "https://hooks.example.com/m"}}}, "webhooks.endpoints.a.secret"),
        ({"endpoints": {"a": {**GOOD, "secret": "short"}}}, "webhooks.endpoints.a.secret"),
        ({"endpoints": {"a": {**GOOD, "url": "ftp://x"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "url": "https://u:p@example.com"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "url": "http://hooks.example.com"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "url": "https://169.254.169.254/latest"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "url": "https://[::1]/"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "url": "https://localhost/"}}}, "webhooks.endpoints.a.url"),
        ({"endpoints": {"a": {**GOOD, "events": ["memory.read"]}}}, "webhooks.endpoints.a.events"),
        ({"endpoints": {"a": {**GOOD, "evnts": []}}}, "evnts"),
        ({"endpoints": {"Not A Name": GOOD}}, "webhooks.endpoints"),
        ({"endpoints": {"a": GOOD}, "allowed_hosts": ["example.com"]}, "webhooks.allowed_hosts"),
        ({"timeout_seconds": 0}, "webhooks.timeout_seconds"),
        ({"max_attempts": 0}, "webhooks.max_attempts"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, values: dict[str, Any], named: str) -> None:
    """The message names the setting, and never shows a secret."""
    with pytest.raises(SettingsError) as caught:
        load_settings(data_dir=tmp_path, webhooks=values)
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


def test_secrets_come_from_a_folder_and_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL from the file, the secret from the folder of secrets."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "MEMSVC_WEBHOOKS__ENDPOINTS__CRM__SECRET").write_text(f"{SECRET}\n")
    config = tmp_path / "memsvc.toml"
    config.write_text('[webhooks.endpoints.crm]\nurl = "https://hooks.example.com/m"\nuser_ids = ["小明"]\n')
    monkeypatch.setenv("MEMSVC_SECRETS_DIR", str(secrets))

    endpoint = load_settings(config, data_dir=tmp_path).webhooks.endpoints["crm"]

    assert endpoint.secret.get_secret_value() == SECRET
    assert endpoint.user_ids == ("小明",)
    assert SECRET not in repr(endpoint)


def test_pauses_grow_and_stay_within_the_longest() -> None:
    """They double, less up to a half; Retry-After lengthens them within the longest."""
    second = timedelta(seconds=1)
    policy = RetryPolicy(second, 60 * second, 1_000, timedelta(days=1))
    random = Random(1)
    for attempt in range(1, 200):
        full = min(60, 2 ** (attempt - 1)) * second
        assert full / 2 <= policy.delay(attempt, random, None) <= full
    assert policy.delay(1, random, 30 * second) == 30 * second
    assert policy.delay(1, random, timedelta(days=1)) == 60 * second
