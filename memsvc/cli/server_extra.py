"""The check of commands that need the extra `server`."""

from __future__ import annotations

from importlib.util import find_spec

from memsvc.cli.errors import CommandError

PACKAGES = ("numpy", "pydantic_settings", "sqlalchemy", "structlog", "uvloop")
"""Packages of the extra `server` that a client does not have."""


def require_server(what: str) -> None:
    """Refuse *what*, such as a command, where the packages of the server are not installed.

    Raises:
        CommandError: They are not; the message says how to install them.
    """
    if any(find_spec(package) is None for package in PACKAGES):
        message = f"{what} needs the server: pip install 'memsvc[server]'"
        raise CommandError(message)
