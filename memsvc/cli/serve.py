"""The commands that run as a server: serve, check before it, and mcp for an MCP client on stdin and stdout."""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import mmap
import os
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED, CommandError, report_errors, require_server
from memsvc.cli.moments import is_time_zone, machine_time_zone
from memsvc.cli.output import MILLI, flush, write, write_json_value, write_table
from memsvc.data_directory import private_files, publish_addresses

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from memsvc.engine.services import Services
    from memsvc.server.interceptors.chain import Interceptor
    from memsvc.server.options import ContextDefaults, HttpOptions, ServerOptions, WebhookOptions
    from memsvc.server.server import Server
    from memsvc.server.slots import SlotOptions
    from memsvc.server.tls import TlsFiles
    from memsvc.settings import EventLoop, Settings


DataDir = Annotated[Path | None, typer.Option(help="Data directory. One process at a time.")]
Config = Annotated[Path | None, typer.Option(help="Settings file.  [default: memsvc.toml, if it exists]")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON Lines.")]

RETURN_SECONDS = 15.0
"""Interval of looks at the memory of the process."""
REST_SHARE = 50
"""Garbage is not looked for again for so many times as long as that took: no call goes on in that time, which is half a
second for millions of objects."""
GROWN_BYTES = 32 * 1024 * 1024
"""Growth of the process after which free memory is returned: up to 50 ms of a thread."""
HEAPS = 4
ANYWHERE = frozenset({"", "0.0.0.0", "[::]", "::"})  # noqa: S104 - compared, not listened at
"""Hosts of addresses at which the service listens on every interface."""
_M_ARENA_MAX = -8
GARBAGE_THRESHOLDS = (20_000, 20, 50)
SWITCH_SECONDS = 0.0005
"""How long a busy thread keeps the interpreter from others. Python's own 5 ms would add up: a search beside an import
waits for its turn several times."""


def serve(
    *,
    address: Annotated[
        str,
        typer.Option(help="HOST:PORT or unix:PATH, comma-separated; port 0 takes a free port."),
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve without API keys to any client that can reach the address.")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="File to write the addresses to when the service is ready.")
    ] = None,
) -> None:
    """Run the service, until SIGTERM or Ctrl-C.

    Settings come from memsvc.toml, MEMSVC_ variables and these options.
    """
    with report_errors(), private_files() as mask:
        require_server("`memsvc serve`")
        settings = read_settings(config, data_dir, address=address, insecure=insecure)
        from memsvc.bootstrap.offline import has_keys  # noqa: PLC0415 - a quick start
        from memsvc.server.addresses import reserved  # noqa: PLC0415

        addresses = _addresses(settings)
        http = settings.http.address
        others = filter(None, (settings.metrics.address, settings.server.health_address, http))
        exposed = (*addresses, http) if http else addresses
        # Without a look into the data, which stay closed until the addresses are known to be free.
        _require_guard(settings, exposed, _may_have_keys)
        _require_files(settings, ready_file)
        with _named(settings), reserved([*addresses, *others]) as reservation:
            _require_guard(settings, exposed, has_keys)
            _check_metrics(settings)
            _serve(settings, addresses, ready_file, reservation, mask)


def _require_files(settings: Settings, ready_file: Path | None) -> None:
    """Return if the files of the certificate can be used and the ready file can be written.

    Both are needed when the stores are open, which takes long.

    Raises:
        CertificateError: A file of the certificate cannot be used.
        CommandError: The ready file cannot be written.
    """
    from memsvc.server.tls import Certificates  # noqa: PLC0415 - a quick start

    if files := _tls(settings):
        Certificates(files)
    if ready_file is None:
        return
    try:
        if ready_file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        part = _part_of(ready_file)
        part.touch()
        part.unlink()
    except OSError as error:
        message = f"The file of --ready-file {str(ready_file)!r} cannot be written: {error.strerror}."
        raise CommandError(message) from error


@contextmanager
def _named(settings: Settings) -> Iterator[None]:
    """Name the setting in an error of an address that --address does not name."""
    from memsvc.server.addresses import AddressError  # noqa: PLC0415 - a quick start

    named = {
        "http.address": (settings.http.address, "serves gRPC alone"),
        "metrics.address": (settings.metrics.address, "serves no metrics"),
        "server.health_address": (settings.server.health_address, "serves health checks at the other addresses alone"),
    }
    try:
        yield
    except AddressError as error:
        for name, (address, without) in named.items():
            if address and repr(address) in str(error) and name not in str(error):
                variable = f"MEMSVC_{name.replace('.', '__').upper()}"
                message = f'{error} This is {name} ({variable}); "" {without}.'
                raise AddressError(message) from error
        raise


def _serve(
    settings: Settings, addresses: tuple[str, ...], ready_file: Path | None, reservation: ExitStack, mask: int
) -> None:
    """Open everything, then give up the *reservation* and listen in its place.

    *mask* holds for what other programs use: sockets and the ready file.
    """
    import asyncio  # noqa: PLC0415 - a quick start

    from memsvc import logging_config  # noqa: PLC0415
    from memsvc.bootstrap import app  # noqa: PLC0415
    from memsvc.engine.runtime.periodic_task import PeriodicTask  # noqa: PLC0415

    def ready(bound: Any) -> None:
        publish_addresses(settings.data_dir, map(_reachable, filter(_is_grpc, bound)))
        write(f"memsvc is serving on {', '.join(bound)} (data in {settings.data_dir})")
        flush()
        if ready_file is not None:
            _write_whole(ready_file, "".join(f"{each}\n" for each in bound), mask)

    logging_config.configure(settings.log)
    with ExitStack() as stack:
        memory = MemoryReturn()
        application = stack.enter_context(app.running(settings))
        _tune_interpreter()
        stack.callback(PeriodicTask("memory", RETURN_SECONDS, memory.run).stop)
        reservation.close()
        with asyncio.Runner(loop_factory=_loop_factory(settings.server.event_loop)) as runner:
            runner.run(_server(settings, application, _options(settings, addresses, mask), stack).run(ready))


def _is_grpc(bound: str) -> bool:
    """Return whether a bound address is one of gRPC: those of HTTP, metrics and probes have a scheme."""
    return "://" not in bound


def _reachable(bound: str) -> str:
    """Return an address as it can be reached from any folder of this machine."""
    from memsvc.server.addresses import socket_path  # noqa: PLC0415 - a quick start

    path = socket_path(bound)
    host, _, port = bound.rpartition(":")
    if path is not None:
        return f"unix:{path.absolute()}"
    return f"localhost:{port}" if host in ANYWHERE else bound


def _server(settings: Settings, application: Services, options: ServerOptions, stack: ExitStack) -> Server:
    """Return the server, with tracing and an audit log where they are set; *stack* sends and writes what is left."""
    from memsvc import tracing  # noqa: PLC0415 - a quick start
    from memsvc.logging_config import AccessLog  # noqa: PLC0415
    from memsvc.server.server import build, utc_now  # noqa: PLC0415

    layers: list[Interceptor] = []
    found = tracing.configured(options.version)
    if found is not None:
        stack.callback(found.close)
        application.performance.listen(found.told)
        layers.append(found.layer)
    if settings.access.audit_file:
        from memsvc.logging_config import audit_log  # noqa: PLC0415 - a quick start
        from memsvc.server.interceptors.audit import Audit  # noqa: PLC0415

        audit = Audit(stack.enter_context(audit_log(settings.access.audit_file, utc_now)))
        stack.callback(audit.flush)
        layers.append(audit)
    access = AccessLog(settings.log)
    stack.callback(access.close)
    return build(application, options, layers=layers, log_call=access.note)


def _loop_factory(chosen: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop, None for Python's own."""
    if chosen != "uvloop":
        return None
    import uvloop  # noqa: PLC0415 - a quick start

    return uvloop.new_event_loop


def _tune_interpreter() -> None:
    """Set the interpreter up for many short calls: fair turns, and rare looks for garbage among what stays for good.

    A search makes thousands of short-lived objects and no cycles; looking through them every 700 cost it a tenth.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


class MemoryReturn:
    """Return of free memory to the system.

    glibc keeps what threads have freed: after a minute of the longest queries 1.4 GB stayed. Garbage in cycles, which
    is looked for rarely, may hold requests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Limit the heaps of glibc: each thread would have one of its own. Rest by *clock*, in seconds."""
        self._library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._clock = clock
        self._kept = 0
        self._next_time = -math.inf
        if self._library is not None and hasattr(self._library, "mallopt"):
            self._library.mallopt(_M_ARENA_MAX, HEAPS)

    def run(self) -> None:
        """Return what is free, if the process has grown since that was done last."""
        if self._library is None or not hasattr(self._library, "malloc_trim"):
            return
        resident = _resident_bytes()
        if resident < self._kept + GROWN_BYTES:
            self._kept = min(self._kept, resident)
            return
        began = self._clock()
        if began < self._next_time:
            return
        gc.collect()
        ended = self._clock()
        self._next_time = ended + REST_SHARE * (ended - began)
        self._library.malloc_trim(0)
        self._kept = _resident_bytes()


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * mmap.PAGESIZE


def _part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")


def _write_whole(path: Path, text: str, mask: int) -> None:
    """Write a file atomically, with the permissions that *mask* leaves."""
    part = _part_of(path)
    part.write_text(text, encoding="utf-8")
    part.chmod(0o666 & ~mask)
    part.replace(path)


def _active_threads(settings: Settings) -> int:
    """Return the number of threads of a pool that compute at once; 0: all.

    More of them than the interpreter can run take turns, which costs a third of the throughput. Those of a server on a
    network mostly wait for it.
    """
    from memsvc.settings.profile import Profile  # noqa: PLC0415 - a quick start

    if settings.server.active_threads or settings.profile is not Profile.EMBEDDED:
        return settings.server.active_threads
    return max(1, (os.cpu_count() or 1) // 4)


def _options(settings: Settings, addresses: tuple[str, ...], mask: int) -> ServerOptions:
    from importlib.metadata import version  # noqa: PLC0415 - a quick start

    from memsvc.domain.search import TimeWeighting  # noqa: PLC0415
    from memsvc.server.options import KeyOptions, ServerOptions  # noqa: PLC0415
    from memsvc.server.slots import WaitBounds  # noqa: PLC0415

    server, ranking = settings.server, settings.ranking
    return ServerOptions(
        addresses=addresses,
        socket_mask=mask,
        grace_seconds=server.grace_seconds,
        max_message_bytes=server.max_message_bytes,
        search_threads=server.search_threads,
        write_threads=server.write_threads,
        meta_threads=server.meta_threads,
        active_threads=_active_threads(settings),
        language_threads=server.language_threads,
        queue_factor=server.queue_factor,
        default_deadline_seconds=server.default_deadline_seconds,
        reflection=server.reflection,
        default_weighting=TimeWeighting(decay_factor=ranking.decay_factor) if ranking.time_weighting else None,
        use_feedback=ranking.use_feedback,
        context=_context_defaults(settings),
        version=version("memsvc"),
        watch_streams=settings.watch.max_streams,
        watch_threads=settings.watch.threads,
        file_streams=settings.files.max_streams,
        file_threads=settings.files.threads,
        metrics_address=settings.metrics.address,
        metrics_tenants=settings.metrics.tenants,
        keys=KeyOptions(
            settings.access.calls_per_second, settings.access.concurrent_calls, settings.access.refresh_seconds
        ),
        health_address=server.health_address,
        tls=_tls(settings),
        slots=_slots(settings),
        http=_http(settings),
        waits=WaitBounds(*dict(server.wait).values()),
        webhooks=_webhooks(settings),
    )


def _webhooks(settings: Settings) -> WebhookOptions:
    from memsvc.server.options import WebhookEndpoint, WebhookOptions  # noqa: PLC0415 - a quick start

    given = settings.webhooks
    endpoints = (WebhookEndpoint(name, one.url, one.secret.get_secret_value()) for name, one in given.endpoints.items())
    return WebhookOptions(tuple(endpoints), given.allow_private, given.timeout_seconds, given.concurrency)


def _http(settings: Settings) -> HttpOptions:
    from memsvc.server.options import HttpOptions, OAuthOptions  # noqa: PLC0415 - a quick start

    given = settings.http.model_dump()
    return HttpOptions(**{**given, "oauth": OAuthOptions(**given["oauth"])})


def _slots(settings: Settings) -> SlotOptions:
    from memsvc.server.slots import SlotOptions  # noqa: PLC0415 - a quick start

    server = settings.server
    return SlotOptions(
        server.tenant_share,
        server.key_share,
        server.first_message_seconds,
        server.next_message_seconds,
        server.reader_seconds,
    )


def _context_defaults(settings: Settings) -> ContextDefaults:
    from memsvc.domain.context import Section, SectionShares  # noqa: PLC0415 - a quick start
    from memsvc.server.options import ContextDefaults  # noqa: PLC0415

    context = settings.context
    return ContextDefaults(
        context.total_tokens,
        SectionShares(context.core_share, context.session_share, context.short_term_share, context.long_term_share),
        context.locale,
        frozenset(Section)
        - (frozenset() if context.evidence else {Section.EVIDENCE})
        - (frozenset() if context.files else {Section.FILES}),
        settings.ranking.use_feedback,
    )


def _tls(settings: Settings) -> TlsFiles | None:
    from memsvc.server.tls import TlsFiles  # noqa: PLC0415 - a quick start

    tls = settings.server.tls
    if tls.certificate is None or tls.key is None:
        return None
    return TlsFiles(tls.certificate, tls.key, tls.client_ca)


def check(*, data_dir: DataDir = None, config: Config = None, as_json: AsJson = False) -> None:
    """Open every backend and report its state.

    Needs the data directory for itself: ask a running service with `memsvc diagnose`.
    """
    with report_errors(), private_files():
        require_server("`memsvc check`")
        from memsvc import logging_config  # noqa: PLC0415 - a quick start
        from memsvc.bootstrap.check import check_backends, configuration_warnings  # noqa: PLC0415
        from memsvc.bootstrap.offline import has_keys  # noqa: PLC0415
        from memsvc.data_directory import owned  # noqa: PLC0415
        from memsvc.settings import LogLevel  # noqa: PLC0415

        settings = read_settings(config, data_dir)
        _require_guard(settings, _addresses(settings), has_keys)
        logging_config.configure(settings.log.model_copy(update={"level": LogLevel.WARNING}))
        with owned(settings.data_dir, visits=True) as directory:
            found = check_backends(settings, directory.path)
    if as_json:
        for one in found:
            write_json_value(asdict(one))
    else:
        rows = [
            (each.port, each.backend, each.trouble or "well", each.model, f"{each.seconds * MILLI:.1f}")
            for each in found
        ]
        columns = ("port", "backend", "state", "model", ">ms")
        write_table(columns, rows, title=f"Profile {settings.profile}, data in {settings.data_dir}")
        for line in (*dict.fromkeys(each.advice for each in found if each.advice), *configuration_warnings(settings)):
            write(line)
    if any(one.trouble for one in found):
        raise typer.Exit(FAILED)


def read_settings(config: Path | None, data_dir: Path | None, *, address: str = "", insecure: bool = False) -> Settings:
    """Return the settings, the options of the command first."""
    from memsvc.settings import load_settings  # noqa: PLC0415 - a quick start

    server: dict[str, Any] = {}
    if address:
        server["address"] = address
    if insecure:
        server["insecure"] = True
    overrides: dict[str, Any] = {}
    if server:
        overrides["server"] = server
    if data_dir is not None:
        overrides["data_dir"] = data_dir
    return load_settings(config, **overrides)


def _addresses(settings: Settings) -> tuple[str, ...]:
    """Return where to listen."""
    from memsvc.server.addresses import require_address  # noqa: PLC0415 - a quick start

    addresses = tuple(part.strip() for part in settings.server.address.split(",") if part.strip())
    for address in addresses:
        require_address(address)
    return addresses


def _require_guard(settings: Settings, addresses: tuple[str, ...], has_keys: Callable[[Settings], bool]) -> None:
    """Refuse addresses that other machines can reach, unless callers are asked for a key or a certificate.

    They are asked for keys as soon as one was ever made, which *has_keys* tells.

    Raises:
        CommandError: They are not.
    """
    from memsvc.server.addresses import is_local  # noqa: PLC0415 - a quick start

    beyond = [address for address in addresses if not is_local(address)]
    if beyond and not settings.server.insecure and not _is_guarded(settings, has_keys):
        message = (
            f"Anybody who can reach {beyond[0]} could read and change all memories. Make a key with `memsvc keys "
            'create --role admin`, or set access.keys to "required", so that callers are asked for keys; or set '
            "server.tls.client_ca, so that they are asked for certificates; or listen on 127.0.0.1 or unix:PATH. Say "
            "--insecure when the network keeps others out."
        )
        raise CommandError(message)


def _may_have_keys(settings: Settings) -> bool:
    """Return whether there is a store in which keys may be."""
    return bool(settings.metadata.options) or settings.data_dir.exists()


def _is_guarded(settings: Settings, has_keys: Callable[[Settings], bool]) -> bool:
    """Return whether callers are asked for a key or a certificate."""
    from memsvc.domain.api_keys import KeyDemand  # noqa: PLC0415 - a quick start

    if settings.server.tls.client_ca is not None or settings.access.keys is KeyDemand.REQUIRED:
        return True
    return settings.access.keys is KeyDemand.AUTO and has_keys(settings)


def _check_metrics(settings: Settings) -> None:
    """Refuse to show numbers to other machines unless that is meant.

    Raises:
        CommandError: It was not said so.
    """
    from memsvc.server.addresses import is_local  # noqa: PLC0415 - a quick start

    address = settings.metrics.address
    if address and not settings.server.insecure and not is_local(address):
        message = (
            f"Anybody who can reach {address} could read how much is stored and asked. Serve metrics on 127.0.0.1, "
            "or say --insecure when the network keeps others out."
        )
        raise CommandError(message)


# The bridge of MCP.


def _serve_bridge(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    agent: Annotated[str, typer.Option(envvar="MEMSVC_AGENT", help="Agent id of written memories.")] = "",
    conversation: Annotated[str, typer.Option("--session", envvar="MEMSVC_SESSION", help="Session id.")] = "",
    time_zone: Annotated[
        str,
        typer.Option(
            envvar="MEMSVC_TIME_ZONE", help="Time zone, such as Asia/Shanghai.  [default: that of this machine]"
        ),
    ] = "",
    locale: Annotated[str, typer.Option(envvar="MEMSVC_LOCALE", help="Language of headings: en or zh.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for a service that is unreachable.")] = 5.0,
) -> None:
    """Serve an MCP client on stdin and stdout.

    Claude, Cursor and other clients get a memory of one user and project.

    The client starts this command. The service need not run yet.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - a quick start

    if find_spec("mcp") is None:
        message = "The command mcp needs the extra mcp: pip install 'memsvc[mcp]'"
        raise CommandError(message)
    from memsvc.mcp.connection import BridgeScope  # noqa: PLC0415
    from memsvc.mcp.server import run  # noqa: PLC0415

    session.require_endpoint()
    if time_zone and not is_time_zone(time_zone):
        message = f"There is no time zone {time_zone!r}; name one such as Asia/Shanghai."
        raise CommandError(message)
    run(
        BridgeScope(
            address=session.address,
            user=session.user,
            project=session.project,
            agent=agent,
            session=conversation,
            api_key=session.api_key,
            tls=session.tls,
            time_zone=time_zone or machine_time_zone(),
            locale=locale,
            read_only=read_only,
            patience_seconds=patience,
        )
    )


mcp = connected(_serve_bridge, without=("as_json",), needs_project=False)
