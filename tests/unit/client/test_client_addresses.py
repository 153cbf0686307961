"""Addresses of the client: malformed and unreachable ones are reported at once, and clients open and close by hand."""

from __future__ import annotations

import asyncio
import inspect

import grpc
import pytest

from memsvc.client import AsyncMemsvc, Memsvc, MemsvcCallError
from memsvc.client.channel import endpoint_of


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("127.0.0.1:50051", ("127.0.0.1", 50051)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("unix:/run/memsvc.sock", ("/run/memsvc.sock", 0)),
        ("unix:///run/memsvc.sock", ("/run/memsvc.sock", 0)),
        ("unix-abstract:memsvc", ("\0memsvc", 0)),
    ],
)
def test_an_address_has_an_endpoint(address: str, endpoint: tuple[str, int]) -> None:
    """HOST:PORT and unix:PATH are understood."""
    assert endpoint_of(address) == endpoint


@pytest.mark.parametrize(
    "address", ["", "nonsense", "host:", ":1", "host:0", "host:65536", "host:one", "host:²", "http://localhost:1"]
)
def test_a_malformed_address_is_refused_when_the_client_is_opened(address: str) -> None:
    """The error quotes the address and names the two forms."""
    client = Memsvc(address, user_id="u")

    with pytest.raises(ValueError, match="neither HOST:PORT nor unix:PATH"):
        client.open()
    client.close()


@pytest.mark.parametrize("key", ["ünïcode", "memsvc_a\tb", "memsvc_\x01", "memsvc_a\nb"])
def test_a_key_that_no_header_can_hold_is_refused_when_the_client_is_opened(key: str) -> None:
    """Without the key in the message."""
    client = Memsvc("127.0.0.1:1", user_id="u", api_key=key)

    with pytest.raises(ValueError, match=r"API key \(MEMSVC_API_KEY\) has other characters") as raised:
        client.open()
    assert key not in str(raised.value)
    client.close()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/nowhere/memsvc.sock"])
def test_an_unreachable_address_is_reported_by_the_first_call(address: str) -> None:
    """Unary calls and streams alike fail before gRPC begins to retry."""
    with Memsvc(address, user_id="u") as client:
        for call in (
            lambda: client.get("x"),
            lambda: list(client.list()),
            lambda: list(client.export_user()),
            lambda: client.upload_file(b"x", name="x.txt"),
        ):
            with pytest.raises(MemsvcCallError, match="No service can be reached at") as raised:
                call()
            assert raised.value.code is grpc.StatusCode.UNAVAILABLE


def test_a_client_opens_and_closes_by_hand() -> None:
    """No context manager is needed; both may be called twice, and a closed client can be opened again."""
    client = Memsvc("127.0.0.1:1", user_id="u")

    with pytest.raises(RuntimeError, match=r"call open\(\) first"):
        client.get("x")
    assert client.open() is client.open()
    client.close()
    client.close()
    with pytest.raises(MemsvcCallError):
        client.open().get("x")
    client.close()


def test_an_asynchronous_client_opens_and_closes_by_hand() -> None:
    """The same without asyncio's context manager."""

    async def use() -> None:
        client = AsyncMemsvc("127.0.0.1:1", user_id="u").open()
        with pytest.raises(MemsvcCallError):
            await client.get("x")
        await client.close()

    asyncio.run(use())


def test_streams_of_the_blocking_client_are_iterators() -> None:
    """Its signatures say what it returns, not what the asynchronous client does."""
    assert inspect.signature(Memsvc.list).return_annotation == "Iterator[types_pb.Memory]"
