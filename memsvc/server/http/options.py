"""Options of the HTTP address, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Options of HTTP.

    Attributes:
        address: "HOST:PORT" (port 0: any free one) or "unix:/absolute/path"; empty: not served.
        max_json_bytes: The largest request in JSON.
        cors_origins: The origins of web pages that may call the API, such as "https://agents.example"; "*": all.
        allowed_hosts: Names, beyond those of this machine, that the service answers to while no keys are needed.
        max_connections: The number of open connections; requests of further ones are refused.
    """

    address: str = ""
    max_json_bytes: int = 4 * 1024 * 1024
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_connections: int = 1_000
