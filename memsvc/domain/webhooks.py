"""Rules of webhooks: URLs, secrets, signatures and addresses that requests may go to."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets, no secret
LEAST_SECRET_BYTES, MOST_SECRET_BYTES = 24, 64
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_IPV4_BITS = 0xFFFFFFFF


def fault_of_webhook_url(url: str) -> str:
    """Return what is wrong with the URL of an endpoint, as a predicate; empty: nothing."""
    form = "must be a URL such as https://hooks.example.com/memories, without user name, password and fragment"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return form
    is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0 and url.isascii()
    is_bare = parts.username is None and parts.password is None and not parts.fragment
    return "" if is_url and is_bare and url.isprintable() and " " not in url else form


def is_webhook_secret(text: str) -> bool:
    """Return whether *text* is a secret of Standard Webhooks: "whsec_" and 24 to 64 bytes in Base64."""
    try:
        key = _key_of(text)
    except (Base64Error, ValueError):
        return False
    return text.startswith(SECRET_PREFIX) and LEAST_SECRET_BYTES <= len(key) <= MOST_SECRET_BYTES


def signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header webhook-signature: "v1," and the HMAC-SHA256 of id, time and body in Base64."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(_key_of(secret), signed, sha256).digest()).decode()


def is_public(address: str) -> bool:
    """Return whether *address* is a unicast address of the Internet.

    Not public are private, loopback, link-local, shared and reserved addresses, those of multicast, and IPv6 addresses
    that lead to such an IPv4 address.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _inner(parsed)
    return parsed.is_global and not parsed.is_multicast and (inner is None or is_public(str(inner)))


def is_private_literal(host: str) -> bool:
    """Return whether *host* is an address, not a name, that is not public."""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return not is_public(host)


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to; None: it leads to none."""
    if isinstance(address, IPv4Address):
        return None
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & _IPV4_BITS)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _key_of(secret: str) -> bytes:
    return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
