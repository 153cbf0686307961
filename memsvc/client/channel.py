"""The connection: where to, how large, and what is tried again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

SERVICE_CONFIG: dict[str, list[dict[str, Any]]] = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""Every call is tried up to five times. Mutations carry a request id, so that they still happen once.

The pauses come to more than `MAX_REST_SECONDS`: a call that comes when the service is back finds it, also when gRPC
tried to connect right before that.
"""

MAX_REST_SECONDS = 1.0
"""How long gRPC waits at most until it tries to connect again; after a long outage it would be two minutes."""

KEY_VARIABLE = "MEMSVC_API_KEY"
"""Where the key is when none is given."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS; each file is PEM.

    Attributes:
        ca: Who vouches for the service; None: whom gRPC trusts by itself.
        certificate: What the client shows of itself, where the service asks for it, with its *key*.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def open_channel(address: str, *, api_key: str | None = None, tls: Tls | None = None) -> grpc.aio.Channel:
    """Return a channel to "HOST:PORT" or "unix:PATH"; it connects with the first call. Needs a running event loop.

    Every call brings *api_key*; None stands for the one in MEMSVC_API_KEY, the empty text for none.

    Raises:
        OSError: A file of *tls* cannot be read.
    """
    key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
    if tls is None:
        channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        return cast("grpc.aio.Channel", _Keyed(channel, key)) if key else channel
    credentials = _credentials(tls)
    if key:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(key))
    return grpc.aio.secure_channel(address, credentials, options=_OPTIONS)


class _Keyed:
    """A channel whose calls bring a key. Where nothing is encrypted, gRPC refuses call credentials."""

    def __init__(self, channel: grpc.aio.Channel, key: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {key}"),)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if name not in _KINDS:
            return found
        return lambda *args, **kwargs: partial(found(*args, **kwargs), metadata=self._metadata)


_KINDS = frozenset({"unary_unary", "unary_stream", "stream_unary", "stream_stream"})
_OPTIONS = [
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", int(MAX_REST_SECONDS * 1_000)),
    ("grpc.enable_http_proxy", 0),
]


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    ca, certificate, key = (None if path is None else path.read_bytes() for path in (tls.ca, tls.certificate, tls.key))
    return grpc.ssl_channel_credentials(ca, private_key=key, certificate_chain=certificate)
