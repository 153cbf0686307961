"""Every failure as one clear line on stderr that says what to do next."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from memsvc.cli.output import visible
from memsvc.domain.errors import ReportedError

if TYPE_CHECKING:
    from memsvc.client import MemsvcCallError

FAILED = 1
BAD_USAGE = 2
PIPE_CLOSED = 141
"""The exit code of a program whose output has no reader: 128 and SIGPIPE."""
SERVER_PACKAGES = ("numpy", "pydantic_settings", "sqlalchemy", "structlog", "uvloop")
"""Packages of the extra `server` that a client does not have."""


class CommandError(ReportedError):
    """A command cannot do its work; the message says why and what to do."""


def print_error(message: str) -> None:
    """Write a line to stderr, without characters that control a terminal: the message may quote contents."""
    print(visible(message), file=sys.stderr, flush=True)  # noqa: T201 - the command line


@contextmanager
def report_errors(address: str = "", service_version: Callable[[], str] = str) -> Iterator[None]:
    """Turn what a command may fail with into a line and exit code 1.

    *address* is the service that it talks to, and *service_version* asks for its version: empty if it does not say.
    """
    try:
        yield
    except BrokenPipeError:
        abandon_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except _expected() as error:
        print_error(f"memsvc: {_line(error, address, service_version)}")
        raise typer.Exit(FAILED) from None


def abandon_stdout() -> None:
    """Discard the remaining output: its reader has closed the pipe, as `head` does after its last line."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def call_line(error: MemsvcCallError, address: str) -> str:
    """Say what went wrong in a call, and what helps."""
    code = error.code.name
    if code == "UNAVAILABLE" and not error.reason:
        if fault := _transport_fault(error.message):
            return f"The service at {address} was reached, but {fault}"
        return f"No service answers at {address}; start one with `memsvc serve`, or name another with --address."
    if error.violations:
        broken = "".join(f"\n  {violation.field}: {violation.description}" for violation in error.violations)
        return f"The request is not valid:{with_commands(broken)}"
    if code == "DEADLINE_EXCEEDED" and not error.reason:
        late = f"The service at {address} did not answer in time; look at it with `memsvc diagnose`."
        return f"{late} What was to be written may be stored all the same."
    advice = _ADVICE.get(error.reason, "")
    return f"{with_commands(error.message)}{f' {advice}' if advice else ''}"


def _transport_fault(message: str) -> str:
    """Return what went wrong after the connection was made, and what helps; empty: none was made."""
    from memsvc.client.errors import TlsFault, tls_fault  # noqa: PLC0415 - a quick start

    fault = tls_fault(message)
    if fault is TlsFault.PLAIN_SERVICE:
        return "it does not speak TLS: leave out --tls-ca."
    if fault is TlsFault.UNVERIFIED:
        found = _UNVERIFIED.search(message)
        cause = f": {found[1].strip()}" if found else ""
        if "expired" in cause:
            return f"TLS failed{cause}; renew the certificate of the service."
        return f"TLS failed{cause}. --tls-ca names the authority of its certificate; a host name must be in it."
    if fault is TlsFault.PLAIN_CLIENT:
        return "it closed the connection: if it needs TLS, name the authority of its certificate with --tls-ca."
    return ""


def with_commands(text: str) -> str:
    """Return a text with commands in place of the methods of the API."""
    return _METHOD.sub(lambda match: _COMMANDS[match[0]], text)


_COMMANDS = {
    "CreateSession": "`memsvc session create`",
    "ReopenSession": "`memsvc session reopen`",
    "ListMemories": "`memsvc list`",
    "ListRevisions": "`memsvc history`",
    "ListCheckpoints": "`memsvc checkpoint list`",
    "ListQuarantined": "`memsvc quarantine list`",
    "ListApiKeys": "`memsvc keys list`",
    "ListFiles": "`memsvc file ls`",
}
"""The commands for methods of the API that errors of the service name."""
_UNVERIFIED = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]+)")
_METHOD = re.compile(rf"\b(?:{'|'.join(_COMMANDS)})\b")
_ADVICE = {
    "MEMORY_NOT_FOUND": "Look for it with `memsvc list` or `memsvc search`; check --user and --project.",
    "SELECTION_CHANGED": "Run the command again without --token, and check the preview.",
    "CONFLICT_NOT_FOUND": "`memsvc conflicts list` names the open ones; check --user and --project.",
    "API_KEY_NOT_FOUND": "`memsvc keys list --all` names them.",
    "STORE_MOVED": "`memsvc diagnose` says where to.",
    "REVISION_CONFLICT": "`memsvc get` shows it.",
    "REQUEST_ID_REUSED": "Choose another --request-id.",
    "NOT_READY": "The indexes catch up after a start; try again in a moment.",
    "LIMIT_EXCEEDED": "Try again in a moment.",
    "WRITE_CONFLICT": "Other calls write the same at the same time.",
    "CURSOR_EXPIRED": "Leave out --cursor.",
    "REINDEX_RUNNING": "Wait until it has ended.",
    "NOTHING_TO_SUMMARIZE": "`memsvc list` shows the memories.",
    "MAINTENANCE_RUNNING": "Wait until it has ended, or look with --dry-run, which need not wait.",
    "BACKEND_UNAVAILABLE": "Look at it with `memsvc diagnose`.",
    "API_KEY_REQUIRED": (
        "Or name it with --api-key. The first one is created while the service is stopped: `memsvc keys create --role "
        "admin --data-dir` and its data directory."
    ),
    "INTERNAL": "The service's log says more.",
}


def _expected() -> tuple[type[Exception], ...]:
    """Return the errors that are reported in one line; any other is a bug and shows its traceback."""
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - only when something failed
    from memsvc.domain.errors import MemsvcError  # noqa: PLC0415

    return (MemsvcCallError, MemsvcError, ReportedError, UnicodeDecodeError, OSError, ModuleNotFoundError)


def _line(error: Exception, address: str, service_version: Callable[[], str]) -> str:
    from memsvc.client import MemsvcCallError  # noqa: PLC0415

    if isinstance(error, MemsvcCallError):
        if error.code.name == "UNIMPLEMENTED" and not error.reason:
            return _lacking_line(address, service_version())
        return call_line(error, address)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}."
    return str(error)


def _lacking_line(address: str, service: str) -> str:
    """Say that the service has no method for the command; *service* is its version, empty if it is not known."""
    from importlib.metadata import version  # noqa: PLC0415 - only when something failed

    own = version("memsvc")
    if service == own:
        return f"The service at {address} lacks the method for this command, although it is memsvc {own}, too."
    if service:
        advice = "upgrade the service, or use the command line of its version"
        return f"The service at {address} is memsvc {service} and lacks the method for this command of {own}: {advice}."
    return (
        f"The service at {address} lacks the method for this command: it is older than this memsvc {own}, or another "
        "service. Upgrade it, or name another with --address."
    )


def require_server(what: str) -> None:
    """Refuse *what*, such as a command, where the packages of the server are not installed.

    Raises:
        CommandError: They are not; the message says how to install them.
    """
    if any(find_spec(package) is None for package in SERVER_PACKAGES):
        message = f"{what} needs the server: pip install 'memsvc[server]'"
        raise CommandError(message)
