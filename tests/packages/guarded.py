"""A service that requires TLS and a key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.support.server_process import ServerProcess


@dataclass(frozen=True, slots=True)
class Guarded:
    """Its address and URL, and what an agent needs to call it."""

    address: str
    url: str
    api_key: str
    authority_file: str


class GuardedProcess(ServerProcess):
    """A server that is asked by TLS."""

    authority_file: Path

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """Open a channel of one's own to the server."""
        credentials = grpc.ssl_channel_credentials(self.authority_file.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(self.bound, credentials, options=options) as channel:
            yield channel
