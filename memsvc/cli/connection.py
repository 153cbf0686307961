"""Options and output shared by every command that talks to a service."""

from __future__ import annotations

import functools
import getpass
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from memsvc.cli.errors import CommandError, print_error, report_errors
from memsvc.cli.options import require_utf8

if TYPE_CHECKING:
    from memsvc.client import Memsvc, Project, Tls

P = ParamSpec("P")

DEFAULT_ADDRESS = "127.0.0.1:50051"
ADDRESS_VARIABLE = "MEMSVC_ADDRESS"
VERSION_SECONDS = 5.0
"""How long a failed command waits for the version of the service."""
HERE = "."
"""Means the project of the current folder."""


def os_user() -> str:
    """Return the name of the person at the keyboard, or "default" where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "default"


@dataclass(frozen=True, slots=True)
class CliContext:
    """The address and identity of a command, and whether its output is for a program."""

    address: str
    user: str
    project: str
    as_json: bool
    api_key: str = ""
    tls: Tls | None = None
    notices: set[str] = field(default_factory=set)
    """Notices that were written."""

    def write_notice(self, notice: str) -> None:
        """Write a notice of the service to stderr, unless it was written."""
        if notice and notice not in self.notices:
            self.notices.add(notice)
            print_error(f"memsvc: {notice}")

    def require_endpoint(self) -> None:
        """Raise CommandError unless the address and the key have the form of such."""
        from memsvc.client.channel import checked_key, endpoint_of  # noqa: PLC0415 - a quick start

        try:
            endpoint_of(self.address)
            checked_key(self.api_key)
        except ValueError as error:
            raise CommandError(str(error)) from error

    def service_version(self) -> str:
        """Return the version of the service; empty if it does not say, as to keys without the role ADMIN."""
        from memsvc.client import MemsvcCallError  # noqa: PLC0415 - only when something failed

        try:
            with self.client(timeout=VERSION_SECONDS) as client:
                return client.diagnose().version
        except MemsvcCallError:
            return ""

    @contextmanager
    def client(self, *, timeout: float = 30.0, conversation: str = "") -> Iterator[Memsvc]:
        """Connect; calls fail after *timeout* seconds. *conversation* is the session that is spoken of, if any."""
        from memsvc.client import Memsvc  # noqa: PLC0415 - a quick start

        self.require_endpoint()
        with Memsvc(
            self.address,
            user_id=self.user,
            project_id=self.project,
            session_id=conversation,
            timeout=timeout,
            api_key=self.api_key,
            tls=self.tls,
            on_notice=self.write_notice,
        ) as client:
            yield client


def _project(named: str, *, is_needed: bool) -> str:
    """Return the id of a project that may be named by the current folder; empty without one that is not needed."""
    if named != HERE:
        return named
    try:
        return project_of(Path.cwd()).id
    except CommandError as error:
        if is_needed:
            raise
        print_error(f"memsvc: {error} Without one, or the option --project NAME, memories are global.")
    return ""


def project_of(folder: Path) -> Project:
    """Return the project of a folder.

    Raises:
        CommandError: It belongs to none.
    """
    from memsvc.client.projects import find_project  # noqa: PLC0415 - a quick start

    found = find_project(folder)
    if found is None:
        message = f"No project found from {folder.absolute()} up; put a file .memsvc with its name into its root."
        raise CommandError(message)
    return found


ApiKey = Annotated[str, typer.Option(envvar="MEMSVC_API_KEY", help="API key; prefer the variable.")]
TlsCa = Annotated[
    Path | None,
    typer.Option(envvar="MEMSVC_TLS_CA", help="Use TLS; PEM file of the certificate authority of the service."),
]
Certificate = Annotated[
    Path | None,
    typer.Option(envvar="MEMSVC_TLS_CERTIFICATE", help="Use TLS with this client certificate, in PEM.", hidden=True),
]
CertificateKey = Annotated[
    Path | None, typer.Option(envvar="MEMSVC_TLS_KEY", help="Private key of the certificate, in PEM.", hidden=True)
]


def tls_of(ca: Path | None, certificate: Path | None, key: Path | None) -> Tls | None:
    """Return how to speak TLS, or None when no file for it is named."""
    if ca is None and certificate is None:
        return None
    from memsvc.client import Tls  # noqa: PLC0415 - a quick start

    return Tls(ca, certificate, key)


_OPTIONS = {
    "address": (
        Annotated[str, typer.Option(envvar=ADDRESS_VARIABLE, help="The service: HOST:PORT or unix:PATH.")],
        DEFAULT_ADDRESS,
    ),
    "user": (
        Annotated[str, typer.Option(envvar="MEMSVC_USER", help="User id.  [default: your user name]")],
        "",
    ),
    "project": (
        Annotated[
            str,
            typer.Option(
                envvar="MEMSVC_PROJECT", help='The project, "." for that of this folder; else global memories.'
            ),
        ],
        "",
    ),
    "api_key": (ApiKey, ""),
    "tls_ca": (TlsCa, None),
    "tls_certificate": (Certificate, None),
    "tls_key": (CertificateKey, None),
    "as_json": (Annotated[bool, typer.Option("--json", help="Write JSON.")], False),
}


def connected(
    command: Callable[Concatenate[CliContext, P], None], *, without: Collection[str] = (), needs_project: bool = True
) -> Callable[..., None]:
    """Give a command the options of a connection, pass them as a CliContext, and report failures in a line.

    It is not offered those *without* which it does its work. In a folder of no project, the option `--project .` fails,
    or without *needs_project* means the global memories.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _OPTIONS.items()
        if name not in without
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        address, user, project, api_key, ca, certificate, key, as_json = (
            given.pop(name, default) for name, (_, default) in _OPTIONS.items()
        )
        tls = tls_of(ca, certificate, key)
        with report_errors(address, CliContext(address, user, project, as_json, api_key, tls).service_version):
            require_utf8([address, user, project, *given.values()])
            found = _project(project, is_needed=needs_project)
            session = CliContext(address, user or os_user(), found, as_json, api_key, tls)
            command(session, **given)  # type: ignore[call-arg]  # typer made the arguments from the signature

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    vars(run)["__signature__"] = inspect.Signature([*keyword_only, *added])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    del run.__wrapped__  # else its signature, with the CliContext, would be read
    return run
