"""Options of connections to PostgreSQL, for store and indexes: valid URLs, and the arguments of the client library."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from memsvc.domain.errors import RESUMES

SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")
LONGEST_SILENCE_SECONDS = 30
"""A server that does not answer for so long counts as lost."""
CLIENT = {
    "tcp_user_timeout": LONGEST_SILENCE_SECONDS * 1000, "keepalives_idle": LONGEST_SILENCE_SECONDS,
    # A role or database may have another default, and the client library's is that of the database.
    "client_encoding": "utf8",
}  # fmt: skip
"""The arguments of every connection."""
SERVER_SILENCE = (
    "set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false), "
    "set_config('tcp_keepalives_count', '3', false), "
    f"set_config('tcp_user_timeout', '{LONGEST_SILENCE_SECONDS * 1000}', false)"
)
"""The same for the server, as part of a SELECT: it ends the session of a host that is gone, after two hours by default.

A local socket ignores it.
"""
READ_COMMITTED = "set_config('default_transaction_isolation', 'read committed', false)"
"""As part of a SELECT: the isolation of statements and transactions that name none, whatever the role's default.

At a stricter one statements fail where they now wait for each other, as those of two servers on one index.
"""
READ_ONLY = f"is read-only: its url leads to a standby; let it lead to the primary, and the service {RESUMES}"
"""What is wrong with a connection to a server in recovery."""


def is_database_url(url: str) -> bool:
    """Return whether a text is the URL of a PostgreSQL database."""
    try:
        return url.startswith(SCHEMES) and bool(sa.make_url(url))
    except (ArgumentError, ValueError):
        return False


def problem_of_database(encoding: str, *, is_standby: bool) -> str:
    """Return the reason why a database is not one to write to, or nothing."""
    if is_standby:
        return READ_ONLY
    if encoding != "UTF8":
        return f"has the encoding {encoding!r}, which cannot hold every text: create a database with ENCODING 'UTF8'"
    return ""


def connection_options(url: str, *, application: str, seconds: int) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect` for a URL, as SQLAlchemy reads it, and *seconds* to connect.

    *application* is the `application_name` of the connection, unless the URL has one.

    The client library reads URLs otherwise: a password with "/" and several hosts as `?host=one:5432&host=two:5432`.
    """
    target = sa.make_url(url).set(drivername="postgresql+psycopg")
    _, options = target.get_dialect()().create_connect_args(target)
    return {"application_name": application, **options, **CLIENT, "connect_timeout": seconds, "autocommit": True}
