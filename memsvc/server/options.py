"""What the server is told at its start, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from memsvc.domain.context import Locale, Shares
from memsvc.domain.search import Weighting
from memsvc.server.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ContextDefaults:
    """What a context is like that does not say so itself."""

    total_tokens: int = 128_000
    shares: Shares = field(default_factory=Shares)
    locale: Locale = Locale.EN


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What holds for keys that do not say so themselves, 0 being no limit, and how often open streams are looked at."""

    calls_per_second: float = 0.0
    concurrent_calls: int = 0
    recheck_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    Attributes:
        addresses: Each "host:port" (port 0: any free one) or "unix:/absolute/path".
        grace_seconds: How long calls under way may go on after the server was told to stop.
        max_message_bytes: The largest message that is taken in or sent.
        search_threads: How many searches run at once; likewise writes, and all other calls (meta).
        language_threads: How many calls wait for a language model at once.
        queue_factor: How many calls may wait for each thread before further ones are refused.
        default_deadline_seconds: The time given to a unary call whose client set no deadline.
        keepalive_seconds: How often an idle connection is tried.
        health_seconds: How often the backends are pinged.
        reflection: Whether clients may ask for the API's description.
        default_weighting: The weighting of searches that name none.
        context: What contexts are like that do not say so themselves.
        version: The service's version, as Diagnose tells it.
        watch_streams: How many watches may be open; further ones are refused.
        watch_threads: How many threads read changes for them.
        file_streams: How many uploads and downloads may be under way; further ones are refused.
        file_threads: How many threads read and write their bytes.
        metrics_address: "HOST:PORT" of /metrics, /healthz and /readyz; empty: they are not served.
        keys: What holds for API keys.
        health_address: "HOST:PORT" or "unix:PATH" of a port for probes alone, in plain text; empty: there is none.
        tls: The files of the certificate; None: TCP is not encrypted.
    """

    addresses: tuple[str, ...] = ("127.0.0.1:50051",)
    grace_seconds: float = 20.0
    max_message_bytes: int = 16 * 1024 * 1024
    search_threads: int = 8
    write_threads: int = 32
    meta_threads: int = 8
    language_threads: int = 4
    queue_factor: int = 4
    default_deadline_seconds: float = 30.0
    keepalive_seconds: float = 120.0
    health_seconds: float = 5.0
    reflection: bool = True
    default_weighting: Weighting | None = None
    context: ContextDefaults = ContextDefaults()
    version: str = ""
    watch_streams: int = 1_000
    watch_threads: int = 2
    file_streams: int = 64
    file_threads: int = 4
    metrics_address: str = ""
    keys: KeyOptions = KeyOptions()
    health_address: str = ""
    tls: TlsFiles | None = None
