"""Rules of webhooks: URLs, secrets, signatures and addresses that requests may go to."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets, no secret
LEAST_SECRET_BYTES, MOST_SECRET_BYTES = 24, 64
_SPECIAL_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
"""The registry of special addresses of IANA, and multicast. `IPv4Address.is_global` depends on the patch version of
Python: 3.11.7 does not know all of 192.0.0.0/24."""
_GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The addresses of which IANA gives out parts to the Internet."""
_SPECIAL_IPV6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Parts of them: protocols such as Teredo and 6to4, which embed an IPv4 address, and documentation."""
_EMBEDDING_IPV4 = tuple(IPv6Network(network) for network in ("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/96"))
"""Mapped addresses, and those of NAT64. In the rest of 64:ff9b:1::/48 the place of the IPv4 address is not known."""
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

    Not public are private, loopback, link-local, shared and reserved addresses, those of multicast, IPv6 addresses that
    lead to such an IPv4 address, and all of 6to4, Teredo and IPv4-compatible and IPv4-translated addresses.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return _is_public_ipv4(parsed) if isinstance(parsed, IPv4Address) else _is_public_ipv6(parsed)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in _SPECIAL_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    if any(address in network for network in _EMBEDDING_IPV4):
        return _is_public_ipv4(IPv4Address(int(address) & _IPV4_BITS))
    return address in _GLOBAL_IPV6 and not any(address in network for network in _SPECIAL_IPV6)


def is_private_literal(host: str) -> bool:
    """Return whether *host* is an address, not a name, that is not public."""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return not is_public(host)


def _key_of(secret: str) -> bytes:
    return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
