"""The command health: what probes run. It starts quickly, and needs neither a key nor the data directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.output import visible

if TYPE_CHECKING:
    import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
HEALTH, UNIX = "health://", "unix:"
"""What the address of a port for probes begins with in the file, and that of a Unix socket."""
ANYWHERE = ("0.0.0.0:", "[::]:")
PAUSE_SECONDS = 0.2
FAILED, BAD_USAGE = 1, 2


class _NotServingError(Exception):
    """The service does not serve; the message says what is known of it."""


class _UnusableError(Exception):
    """It could not even be asked; the message says what to change."""


def health(  # noqa: PLR0913 - its options
    *,
    address: Annotated[
        str, typer.Option(envvar="MEMSVC_ADDRESS", help="The service: HOST:PORT or unix:PATH.")
    ] = DEFAULT_ADDRESS,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            help="Take the address from the file that `memsvc serve --ready-file` writes: the one for probes if there "
            "is one, else a Unix socket, else the first."
        ),
    ] = None,
    service: Annotated[
        str, typer.Option(help='What is asked about: "readiness", "liveness", "" or a service\'s full name.')
    ] = "readiness",
    wait: Annotated[float, typer.Option(min=0, help="Retry for this number of seconds until it serves.")] = 0.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds until a check times out.")] = 5.0,
    tls_ca: Annotated[
        Path | None,
        typer.Option(envvar="MEMSVC_TLS_CA", help="Use TLS; PEM file of the certificate authority of the service."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(envvar="MEMSVC_TLS_CERTIFICATE", help="Use TLS with this client certificate, in PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="MEMSVC_TLS_KEY", help="Private key of the certificate, in PEM.")
    ] = None,
    tls_name: Annotated[str, typer.Option(help="Host name in the certificate, if it differs from the address.")] = "",
) -> None:
    """Check whether the service is serving.

    For probes and scripts; no key is needed.

    Exit codes: 0 it serves; 1 it does not, or does not answer, or knows no such name; 2 it could not be asked.
    """
    files = (tls_ca, tls_key, tls_certificate)  # as gRPC takes them
    until = time.monotonic() + wait
    while True:
        left = until - time.monotonic()
        try:
            where = address if ready_file is None else _address_in(ready_file)
            _ask(where, service, min(timeout, max(left, 0.1)) if wait else timeout, files, tls_name)
        except _NotServingError as error:
            if left <= 0:
                _fail(str(error), FAILED)
        except _UnusableError as error:
            _fail(str(error), BAD_USAGE)
        else:
            return
        time.sleep(PAUSE_SECONDS)


def _address_in(ready_file: Path) -> str:
    """Return the address to ask at, as it can be reached from here."""
    try:
        addresses = ready_file.read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        message = f"{str(ready_file)!r} is no file of addresses: name the one that `memsvc serve --ready-file` wrote."
        raise _UnusableError(message) from None
    except FileNotFoundError:
        message = f"The service has not started: {str(ready_file)!r} is not there."
        raise _NotServingError(message) from None
    except OSError as error:
        message = f"{str(ready_file)!r} cannot be read: {error.strerror}."
        raise _UnusableError(message) from None
    # False comes first: of several, the one for probes, then a socket.
    ranked = sorted(addresses, key=lambda one: (not one.startswith(HEALTH), not one.startswith(UNIX)))
    if not ranked:
        message = f"{str(ready_file)!r} is empty: name the file that `memsvc serve --ready-file` wrote."
        raise _UnusableError(message)
    return ranked[0]


def _ask(address: str, service: str, seconds: float, files: tuple[Path | None, ...], tls_name: str) -> None:
    import grpc  # noqa: PLC0415 - help is quicker without
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    shown = address.removeprefix(HEALTH)
    request = health_pb2.HealthCheckRequest(service=service)
    try:
        with _channel(address, files, tls_name) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=seconds)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            message = (
                f"The service at {shown} knows no {service!r}; ask for readiness, liveness or memsvc.v1.SearchService."
            )
        else:
            _require_endpoint(shown)
            message = (
                f"The service at {shown} does not answer: {error.code().name}. Is it up, and is --address its own?"
            )
        raise _NotServingError(message) from None
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        message = f"The service at {shown} is there and does not serve {service!r}: {name}. `memsvc diagnose` says why."
        raise _NotServingError(message)


def _require_endpoint(address: str) -> None:
    """Raise _UnusableError unless an address has the form of one. After a failure alone: the import takes time."""
    from memsvc.client.channel import endpoint_of  # noqa: PLC0415 - see above

    try:
        endpoint_of(address)
    except ValueError as error:
        raise _UnusableError(str(error)) from None


def _channel(address: str, files: tuple[Path | None, ...], tls_name: str) -> grpc.Channel:
    import grpc  # noqa: PLC0415

    options: list[tuple[str, str | int]] = [("grpc.enable_http_proxy", 0)]
    if tls_name:
        options.append(("grpc.ssl_target_name_override", tls_name))
    target = _reachable(address)
    _, key_file, certificate_file = files
    if (key_file is None) != (certificate_file is None):
        raise _UnusableError("--tls-certificate and --tls-key belong together: name both.")
    # Neither the port for probes nor a Unix socket speaks TLS.
    if address.startswith((HEALTH, UNIX)) or not any(files):
        return grpc.insecure_channel(target, options)
    try:
        ca, key, certificate = (None if file is None else file.read_bytes() for file in files)
    except OSError as error:
        message = f"{str(error.filename)!r} cannot be read: {error.strerror}."
        raise _UnusableError(message) from None
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(ca, key, certificate), options)


def _reachable(address: str) -> str:
    """Return where to reach a service of this machine that listens at every address."""
    address = address.removeprefix(HEALTH)
    for wildcard in ANYWHERE:
        if address.startswith(wildcard):
            return f"localhost:{address.removeprefix(wildcard)}"
    return address


def _fail(message: str, code: int) -> None:
    typer.echo(visible(f"memsvc: {message}"), err=True)
    raise typer.Exit(code)


def main() -> None:
    """Run the command without loading all the others, which takes a third of the time off."""
    typer.run(health)


if __name__ == "__main__":
    main()
