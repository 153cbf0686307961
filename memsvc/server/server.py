"""The gRPC server: construction, start, graceful stop, reflection."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import grpc
import structlog
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha.reflection import aio
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from memsvc.domain.errors import MemsvcError
from memsvc.engine.services import Services
from memsvc.ports.features import TakenCalls
from memsvc.server.addresses import is_local, listen, socket_path
from memsvc.server.executors import Executors, NamedExecutor
from memsvc.server.interceptors.authentication import Authentication
from memsvc.server.interceptors.chain import STATUS_SECONDS, CallChain, Interceptor
from memsvc.server.interceptors.key_limits import KeyLimiter, LocalRateCounter, RateCounter, SharedRateCounter
from memsvc.server.interceptors.rules import EndedCall, ServerRules, log_now
from memsvc.server.monitoring.health import SERVICES, Health, HealthPort
from memsvc.server.monitoring.metrics import CallMetrics, MetricsServer, ServiceCollector
from memsvc.server.options import ServerOptions
from memsvc.server.server_context import IndexWait, ServerContext
from memsvc.server.services.admin import AdminServicer
from memsvc.server.services.file import FileServicer
from memsvc.server.services.lifecycle import LifecycleServicer
from memsvc.server.services.memory import MemoryServicer
from memsvc.server.services.search import SearchServicer
from memsvc.server.services.session import SessionServicer
from memsvc.server.slots import Admission, CallClass, ServerSlots, Turns
from memsvc.server.tls import Certificates
from memsvc.server.watches import Watches
from memsvc.v1 import (
    admin_service_pb2_grpc,
    file_service_pb2_grpc,
    lifecycle_service_pb2_grpc,
    memory_service_pb2_grpc,
    search_service_pb2_grpc,
    session_service_pb2_grpc,
)

if TYPE_CHECKING:
    from memsvc.server.http.mcp_endpoint import McpEndpoint
    from memsvc.server.http.server import HttpServer
    from memsvc.server.webhooks import WebhookSender

KEEPALIVE_TIMEOUT_MS = 20_000
MIN_PING_INTERVAL_MS = 10_000
UNREAD_BYTES = 512 * 1024
"""The bytes of a message that gRPC receives before the message is asked for, also in calls whose key is not checked
yet. A stream of requests then has 4 MiB a second with a round trip of 100 ms, and more with a shorter one."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

log = structlog.get_logger("memsvc.server")


utc_now: Callable[[], datetime] = partial(datetime.now, UTC)
"""Return the present moment."""


def build(
    application: Services,
    options: ServerOptions,
    *,
    now: Callable[[], datetime] = utc_now,
    layers: Sequence[Interceptor] = (),
    log_call: Callable[[EndedCall], None] = log_now,
) -> Server:
    """Return a server for a running engine. Nothing listens yet, and no event loop is needed yet.

    *layers* are interceptors outside of the error status: they see the code that a call ends with. *log_call* gets
    every call at its end; it must return at once and must not raise.
    """
    slots = ServerSlots.of(options.slots, files=options.file_streams, watches=options.watch_streams)
    factor, active = options.queue_factor, options.active_threads

    priority = application.search_priority
    admission = Admission(options.slots, options.waits, slots.counts, priority.search, priority.call)

    def pool(kind: CallClass, name: str, threads: int, active: int = 0) -> NamedExecutor:
        turns = Turns(kind, threads, threads * factor, admission, name=f"calls in {name!r}")
        return NamedExecutor(name, threads=threads, queue_factor=factor, active=active, turns=turns)

    executors = Executors(
        search=pool(CallClass.SEARCH, "search", options.search_threads, active),
        write=pool(CallClass.WRITE, "write", options.write_threads, active),
        meta=pool(CallClass.READ, "meta", options.meta_threads, active),
        language=pool(CallClass.LANGUAGE, "language", options.language_threads),
        watch=NamedExecutor("watch", threads=options.watch_threads, queue_factor=factor),
        files=NamedExecutor("files", threads=options.file_threads, queue_factor=factor),
    )
    watches = Watches(application.watch, executors.watch, slots.watches)
    waits = IndexWait(application.indexer)
    return Server(ServerContext(application, executors, waits, options, now, watches, slots), layers, log_call)


class Server:
    """A gRPC server that is started once and stopped once, in one event loop."""

    def __init__(
        self,
        context: ServerContext,
        layers: Sequence[Interceptor] = (),
        log_call: Callable[[EndedCall], None] = log_now,
    ) -> None:
        self._context = context
        self._layers = list(layers)
        self._log_call = log_call
        self._metrics: MetricsServer | None = None
        self._health_port: HealthPort | None = None
        self._grpc: grpc.aio.Server | None = None
        self._http: HttpServer | None = None
        self._webhooks: WebhookSender | None = None
        self._health: Health | None = None
        self._health_task: asyncio.Task[None] | None = None
        self._bound: list[str] = []
        self._rules: ServerRules | None = None
        self._calls: CallChain | None = None

    @property
    def addresses(self) -> Sequence[str]:
        """Return the addresses that the server listens at, with the ports that were bound."""
        return tuple(self._bound)

    async def run(self, on_ready: Callable[[Sequence[str]], None] | None = None) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP, then stop gracefully. *on_ready* gets the bound addresses.

        SIGHUP is ignored if it was when the process began, as under nohup.

        Raises:
            AddressError: The server cannot listen at an address; nothing is left behind.
            CertificateError: The certificate cannot be used; likewise.
            HttpEndedError: The HTTP server has ended by itself; gRPC was stopped gracefully.
        """
        loop = asyncio.get_running_loop()
        stop_requested = asyncio.Event()
        signals = [one for one in SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        for number in signals:
            loop.add_signal_handler(number, stop_requested.set)
        try:
            await self.start()
            if on_ready is not None:
                on_ready(self.addresses)
            await self._until(stop_requested)
        finally:
            await self.stop()
            for number in signals:
                loop.remove_signal_handler(number)

    async def _until(self, stop_requested: asyncio.Event) -> None:
        if self._http is None:
            await stop_requested.wait()
            return
        # Without HTTP the process would look healthy to all but its callers; what supervises it starts it again.
        awaited = asyncio.create_task(stop_requested.wait()), asyncio.create_task(self._http.wait_ended())
        done, pending = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()

    async def start(self) -> None:
        """Start to listen; return when calls are answered.

        Raises:
            AddressError: The server cannot listen at an address.
            CertificateError: The certificate cannot be used.
        """
        health = self._health = Health(self._context)
        self._add_metrics(health)
        server = self._grpc = grpc.aio.server(options=_channel_options(self._context.options))
        chain = self._calls = self._chain()
        self._add_services(server, chain, health)
        tls = self._context.options.tls
        certificates = None if tls is None else await asyncio.to_thread(Certificates, tls)
        credentials = None if certificates is None else certificates.credentials()
        for address in self._context.options.addresses:
            if credentials is None and not is_local(address):
                log.warning("listening without encryption beyond this machine", address=address)
            self._bound.append(await listen(server, address, credentials))
        if self._metrics is not None:
            url = await asyncio.to_thread(self._metrics.start, self._context.options.metrics_address)
            self._bound.append(url)
        await health.begin()
        if self._context.options.health_address:
            self._health_port = HealthPort(health.servicer)
            self._bound.append(await self._health_port.start(self._context.options.health_address))
        await server.start()
        await self._start_http(chain, health)
        self._share_sockets()
        self._start_webhooks()
        self._health_task = asyncio.create_task(health.follow(), name="health")
        log.info("server started", addresses=list(self._bound))

    def _share_sockets(self) -> None:
        """Give the files of unix sockets their permissions: those of other files are stricter."""
        options = self._context.options
        for address in (*options.addresses, options.health_address, options.http.address):
            if options.socket_mask is not None and (path := socket_path(address)):
                path.chmod(0o777 & ~options.socket_mask)

    async def stop(self) -> None:
        """Refuse new calls, let those under way end within the grace, and release every resource."""
        if self._health is not None:
            await self._health.leave()
        if self._calls is not None:
            self._calls.refuse()
        if self._health_task is not None:
            self._health_task.cancel()
            await asyncio.wait({self._health_task})
        self._context.watches.stop()
        self._context.application.user_eraser.stop()
        stops = [] if self._http is None else [self._http.stop()]
        await asyncio.gather(*stops, self._stop_grpc())
        if self._rules is not None:
            self._rules.flush()
        if self._health_port is not None:
            await self._health_port.stop()
        if self._webhooks is not None:
            await asyncio.to_thread(self._webhooks.stop)
        await asyncio.to_thread(self._release)
        log.info("server stopped")

    async def _stop_grpc(self) -> None:
        """Stop gRPC after the calls under way: new ones are cancelled until their clients know of the stop."""
        left = self._context.options.grace_seconds
        if self._calls is not None:
            left = await self._calls.drain(left)
            await self._calls.end_calls()
        if self._grpc is not None:
            await self._grpc.stop(left)

    @cached_property
    def _authentication(self) -> Authentication:
        options, context = self._context.options.keys, self._context
        limits = KeyLimiter(
            self._rate_counter(),
            calls_per_second=options.calls_per_second,
            concurrent_calls=options.concurrent_calls,
        )
        return Authentication(
            context.application.api_keys.authenticator,
            limits,
            context.executors.meta,
            recheck_seconds=options.recheck_seconds,
        )

    def _rate_counter(self) -> RateCounter:
        """Return the counter of calls; other servers may begin calls of the same keys where the store is shared."""
        context = self._context
        shared = context.application.api_keys.shared_rates
        if shared is None:
            return LocalRateCounter(time.monotonic)

        async def take(caller: str, rate: float, wanted: int) -> TakenCalls:
            return await context.executors.meta.proceed(
                shared.take, caller, rate=rate, wanted=wanted, now=datetime.now(UTC)
            )

        return SharedRateCounter(take, time.monotonic)

    def _add_metrics(self, health: Health) -> None:
        """Count the calls and serve metrics, when an address for metrics is set."""
        if not self._context.options.metrics_address:
            return
        registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        context = self._context
        names_tenants = context.options.metrics_tenants
        registry.register(
            ServiceCollector(context.application, context.executors, context.slots.counts, names_tenants=names_tenants)
        )
        self._layers.append(CallMetrics(registry))
        self._metrics = MetricsServer(registry, lambda: health.is_ready)

    def _release(self) -> None:
        if self._metrics is not None:
            self._metrics.stop()
        self._context.executors.close()
        for address in self._bound:
            if path := socket_path(address):
                path.unlink(missing_ok=True)

    async def _start_http(self, chain: CallChain, health: Health) -> None:
        """Serve the methods of the chain over HTTP, when an address for it is set."""
        options = self._context.options
        if not options.http.address:
            return
        # Imported when it is needed: a server without HTTP starts without it.
        from memsvc.server.http.application import HttpApplication  # noqa: PLC0415
        from memsvc.server.http.connect import ConnectApplication  # noqa: PLC0415
        from memsvc.server.http.server import HttpServer  # noqa: PLC0415

        keyring = self._context.application.api_keys.authenticator
        with suppress(MemsvcError):
            await self._context.executors.meta.proceed(keyring.check_for_keys)

        def is_open() -> bool:
            return not keyring.is_key_required()

        application = HttpApplication(
            ConnectApplication(
                chain.methods, max_bytes=options.max_message_bytes, max_json_bytes=options.http.max_json_bytes
            ),
            options.http,
            options.slots,
            is_ready=lambda: health.is_ready,
            is_open=is_open,
            mcp=self._mcp(chain, is_open),
        )
        # Its own reader of the files: each sees for itself that they have changed.
        certificates = None if options.tls is None else await asyncio.to_thread(Certificates, options.tls)
        self._http = HttpServer(
            application,
            options.http,
            # Longer, so that calls that are ended after the grace say why.
            grace_seconds=options.grace_seconds + STATUS_SECONDS,
            header_seconds=options.slots.first_message_seconds,
        )
        self._bound.append(await self._http.start(certificates))

    def _start_webhooks(self) -> None:
        """Send changes to the endpoints of the settings, if there are any."""
        options, service = self._context.options.webhooks, self._context.application.webhooks
        if options.endpoints:
            # Imported when it is needed: a server without webhooks starts without an HTTP client.
            from memsvc.server.webhooks import WebhookSender  # noqa: PLC0415

            self._webhooks = WebhookSender(service, options)
            self._webhooks.start()

    def _mcp(self, chain: CallChain, is_open: Callable[[], bool]) -> McpEndpoint | None:
        """Return the endpoint of MCP, None if it is turned off or its package is not installed."""
        options = self._context.options
        if not options.http.mcp or find_spec("mcp") is None:
            return None
        try:
            from memsvc.server.http.mcp_endpoint import McpEndpoint  # noqa: PLC0415 - an optional package
        except ImportError as error:
            # Frameworks of agents may bring an earlier version along.
            log.warning("MCP over HTTP is off: the installed mcp is not that of memsvc[mcp]", reason=str(error))
            return None

        return McpEndpoint(chain.methods, options.http, self._authentication, options.slots, is_open=is_open)

    def _chain(self) -> CallChain:
        context = self._context
        rules = ServerRules(
            context.application.performance,
            now=context.now,
            default_seconds=context.options.default_deadline_seconds,
            authentication=self._authentication,
            log_call=self._log_call,
            counts=context.slots.counts,
        )
        self._rules = rules
        executors = {one.name: one for one in context.executors.each()}
        options = context.options
        chain = CallChain(
            rules, self._layers, executors, limits=options.slots, max_response_bytes=options.max_message_bytes
        )
        chain.add(memory_service_pb2_grpc.add_MemoryServiceServicer_to_server, MemoryServicer(context))
        chain.add(search_service_pb2_grpc.add_SearchServiceServicer_to_server, SearchServicer(context))
        chain.add(lifecycle_service_pb2_grpc.add_LifecycleServiceServicer_to_server, LifecycleServicer(context))
        chain.add(admin_service_pb2_grpc.add_AdminServiceServicer_to_server, AdminServicer(context))
        chain.add(session_service_pb2_grpc.add_SessionServiceServicer_to_server, SessionServicer(context))
        chain.add(file_service_pb2_grpc.add_FileServiceServicer_to_server, FileServicer(context))
        return chain

    def _add_services(self, server: grpc.aio.Server, chain: CallChain, health: Health) -> None:
        server.add_generic_rpc_handlers((chain.generic_handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
        if self._context.options.reflection:
            add_reflection(server, (*SERVICES, HEALTH_SERVICE))


def _channel_options(options: ServerOptions) -> list[tuple[str, int]]:
    return [
        # Or a second server binds the same port silently, and gets half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        ("grpc.keepalive_time_ms", int(options.keepalive_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # The default of five minutes ends connections of eager clients with "too many pings".
        ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
        # By its own estimate of the connection gRPC receives megabytes of messages that are not asked for.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    ]


V1 = "grpc.reflection.v1.ServerReflection"


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Serve the descriptions of *services* as v1alpha and v1.

    grpcio-reflection implements v1alpha only, while newer tools use v1; the messages of both are the same.
    """
    names = (*services, reflection.SERVICE_NAME, V1)
    reflection.enable_server_reflection(names, server)
    handler = grpc.stream_stream_rpc_method_handler(
        aio.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    generic = grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})
    server.add_generic_rpc_handlers((generic,))
