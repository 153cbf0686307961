"""The extension pgvector: is it there, and of which version?"""

from __future__ import annotations

import logging

import psycopg

from memsvc.domain.errors import MemsvcError
from memsvc_backends.postgres_index.connections import Connection

_FIND = (
    "SELECT extversion, nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
    "WHERE extname = 'vector'"
)
_WHERE = "SELECT 1 FROM pg_namespace WHERE nspname = 'public' AND has_schema_privilege(oid, 'CREATE')"
_ONE_BY_ONE = "SELECT pg_advisory_xact_lock(1835363711)"
_REACH = "SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(%s), false)"
_LOOKING_ON = (0, 8)
"""The first version that looks on in a graph when a filter leaves too little."""
_OLDEST = (0, 5)
"""The first version with graphs."""

_log = logging.getLogger(__name__)


def ensure_extension(connection: Connection) -> tuple[int, ...]:
    """Create the extension when it is not there, and return its version.

    Raises:
        MemsvcError: It is not installed on the server, may not be created, or is too old.
    """
    found = connection.execute(_FIND).fetchone()
    if found is None:
        _create(connection)
        found = connection.execute(_FIND).fetchone()
    version = parsed(found[0]) if found is not None else ()
    if version < _OLDEST:
        raise MemsvcError(
            f"The extension 'vector' of the PostgreSQL database is version {found[0] if found else '?'}; 0.5 or newer "
            "is needed: install it on the server and run ALTER EXTENSION vector UPDATE."
        )
    return version


def reach_extension(connection: Connection) -> None:
    """Let a connection find the extension's types wherever they are; tables still go into its first schema."""
    found = connection.execute(_FIND).fetchone()
    if found is not None:
        connection.execute(_REACH, (found[1],))


def looks_on(version: tuple[int, ...]) -> bool:
    """Return whether a graph of this version is searched on until a filter leaves enough."""
    return version >= _LOOKING_ON


def parsed(version: str) -> tuple[int, ...]:
    """Return a version such as 0.8.1 as numbers; what is no number ends it."""
    parts: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def _create(connection: Connection) -> None:
    try:
        with connection.transaction():
            # Two who create it at the same time fail.
            connection.execute(_ONE_BY_ONE)
            # In a schema that nobody drops by the way: all columns of the type would go with it.
            place = " SCHEMA public" if connection.execute(_WHERE).fetchone() else ""
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector{place}".encode())
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise MemsvcError(
            "The PostgreSQL server has no extension 'vector': install pgvector on the server (packages are called "
            "postgresql-NN-pgvector or pgvector_NN), or choose another backend for vectors."
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise MemsvcError(
            "The PostgreSQL user may not create the extension 'vector': as a superuser, run CREATE EXTENSION vector in "
            "the database once, or choose another backend for vectors."
        ) from error
    _log.info("created the extension vector")
