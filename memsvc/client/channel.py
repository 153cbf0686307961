"""The connection: where to, how large, and what is tried again."""

from __future__ import annotations

import json

import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""Every call is tried up to four times. Mutations carry a request id, so that they still happen once."""


def insecure_channel(address: str) -> grpc.aio.Channel:
    """Return a channel to "HOST:PORT" or "unix:PATH"; it connects with the first call. Needs a running event loop."""
    return grpc.aio.insecure_channel(
        address,
        options=[
            ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", 120_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.enable_http_proxy", 0),
        ],
    )
