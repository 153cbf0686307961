"""Options of the server, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from memsvc.domain.context import Locale, Section, SectionShares
from memsvc.domain.search import TimeWeighting
from memsvc.server.slots import SlotOptions, WaitBounds
from memsvc.server.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ContextDefaults:
    """Defaults of contexts."""

    total_tokens: int = 128_000
    shares: SectionShares = field(default_factory=SectionShares)
    locale: Locale = Locale.EN
    sections: frozenset[Section] = frozenset(Section)
    use_feedback: bool = False


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Limits of API keys that have none of their own (0: no limit), and the interval of checks of open streams."""

    calls_per_second: float = 0.0
    concurrent_calls: int = 0
    recheck_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class OAuthOptions:
    """Authorization server whose access tokens MCP over HTTP accepts, beside API keys.

    Attributes:
        issuer: Its URL; empty: none, API keys alone.
        resource: The URL of the MCP endpoint as clients know it, such as "https://memory.example/mcp".
        audience: The audience of tokens; empty: *resource*.
        jwks_url: The address of its keys; empty: by its metadata.
        scopes: The scopes that every token needs.
        write_scope: The scope that a token needs to change something; empty: none.
        user_claim: The claim that is the user id.
        project_claim: The claim that is the project id; empty: the client's configuration says it.
        tenant_id: The tenant of all users of the issuer.
    """

    issuer: str = ""
    resource: str = ""
    audience: str = ""
    jwks_url: str = ""
    scopes: tuple[str, ...] = ()
    write_scope: str = ""
    user_claim: str = "sub"
    project_claim: str = ""
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Options of HTTP.

    Attributes:
        address: "HOST:PORT" (port 0: any free one) or "unix:/absolute/path"; empty: not served.
        max_json_bytes: The largest request in JSON.
        cors_origins: The origins of web pages that may call the API, such as "https://agents.example"; "*": all.
        allowed_hosts: Names, beyond those of this machine, that the service answers to while no keys are needed.
        max_connections: The number of open connections; requests of further ones are refused.
        console: True serves the console at /.
        mcp: True serves MCP at /mcp, if its package is installed.
        oauth: The authorization server of MCP.
    """

    address: str = ""
    max_json_bytes: int = 4 * 1024 * 1024
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_connections: int = 1_000
    console: bool = True
    mcp: bool = True
    oauth: OAuthOptions = OAuthOptions()


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """An endpoint of webhooks: its name, its URL and the secret of its signatures."""

    name: str
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Options of the sender of webhooks.

    Attributes:
        allow_private: True allows addresses that are not of the Internet.
        timeout_seconds: The longest duration of a request.
        concurrency: The number of requests under way for each endpoint.
    """

    endpoints: tuple[WebhookEndpoint, ...] = ()
    allow_private: bool = False
    timeout_seconds: float = 10.0
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the server.

    Attributes:
        addresses: Each "host:port" (port 0: any free one) or "unix:/absolute/path".
        socket_mask: The permissions that the files of unix sockets lack; None: those by the mask of the process.
        grace_seconds: The time that calls under way have to end after the server was asked to stop.
        max_message_bytes: The largest message that is received or sent.
        search_threads: The number of searches that run at once; likewise writes, and all other calls (meta).
        active_threads: The number of threads of each of these pools that work at a time while the others wait for
            something; 0: all. A thread that works for longer than 20 ms does not count.
        language_threads: The number of calls that wait for a language model at once.
        queue_factor: The number of calls that may wait for each thread before further ones are refused.
        default_deadline_seconds: The time given to a unary call whose client set no deadline.
        keepalive_seconds: The interval of pings on an idle connection.
        health_seconds: The interval of pings of the backends.
        reflection: True serves the API's description to clients.
        default_weighting: The weighting of searches that do not name one.
        use_feedback: True adds reports of use to the ranking of searches that do not say otherwise.
        context: Defaults of contexts.
        version: The service's version, for Diagnose.
        watch_streams: The number of watches that may be open; further ones are refused.
        watch_threads: The number of threads that read changes for them.
        file_streams: The number of uploads and downloads under way; further ones are refused.
        file_threads: The number of threads that read and write their bytes.
        metrics_address: "HOST:PORT" of /metrics, /healthz and /readyz; empty: not served.
        metrics_tenants: True names tenants in the metrics of quotas.
        keys: Defaults of API keys.
        health_address: "HOST:PORT" or "unix:PATH" of a plain-text port for probes alone; empty: none.
        tls: The files of the certificate; None: TCP is not encrypted.
        slots: The shares of tenants and keys in threads and streams, and idle limits.
        waits: The longest waits of calls for a thread.
        http: The same API over HTTP.
        webhooks: The endpoints that changes are sent to.
    """

    addresses: tuple[str, ...] = ("127.0.0.1:50051",)
    socket_mask: int | None = None
    grace_seconds: float = 20.0
    max_message_bytes: int = 16 * 1024 * 1024
    search_threads: int = 8
    write_threads: int = 32
    meta_threads: int = 8
    active_threads: int = 1
    language_threads: int = 4
    queue_factor: int = 4
    default_deadline_seconds: float = 30.0
    keepalive_seconds: float = 120.0
    health_seconds: float = 5.0
    reflection: bool = True
    default_weighting: TimeWeighting | None = None
    use_feedback: bool = False
    context: ContextDefaults = ContextDefaults()
    version: str = ""
    watch_streams: int = 1_000
    watch_threads: int = 2
    file_streams: int = 64
    file_threads: int = 4
    metrics_address: str = ""
    metrics_tenants: bool = False
    keys: KeyOptions = KeyOptions()
    health_address: str = ""
    tls: TlsFiles | None = None
    slots: SlotOptions = field(default_factory=SlotOptions)
    http: HttpOptions = field(default_factory=HttpOptions)
    waits: WaitBounds = field(default_factory=WaitBounds)
    webhooks: WebhookOptions = WebhookOptions()

    @property
    def service(self) -> str:
        """Return the name and version of the service, as exports name their maker."""
        return f"memsvc {self.version}".strip()
