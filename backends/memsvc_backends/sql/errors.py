"""Where the errors of SQLAlchemy and the driver become the domain's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from memsvc.domain.errors import UNREACHED, BackendUnavailableError, MemsvcError, StoreMovedError
from memsvc.ports.metadata import UniquenessRaceError

BACKEND = "sql"
_UNIQUE_VIOLATION = "23505"
MOVED = "memsvc: moved to "
"""What a database refuses writes with whose data have moved away; the place follows."""
_PROBLEMS = {
    r"failed to resolve host|could not translate host": (
        "cannot be reached: the host in its url is not known; write special characters of a password in the url as "
        "%40 (@), %3A (:), %2F (/)"
    ),
    r"timeout expired|connection .*(Connection refused|No such file|No route to host)": (
        "cannot be reached: is PostgreSQL up, and are host and port in its url right?"
    ),
    "password authentication failed": "refuses the connection: correct user and password in its url",
    "no password supplied": "refuses the connection: its url needs a password",
    r'role ".*" does not exist': "refuses the connection: it has no user of the name in its url",
    r'database ".*" does not exist': (
        "refuses the connection: create the database that its url names, or correct the name"
    ),
    r"no pg_hba\.conf entry": "refuses the connection: let this machine and user in by its pg_hba.conf",
    "too many (clients|connections)|remaining connection slots": "has no connection left: raise its max_connections",
    "invalid .*(value|option|port|parameter)": "cannot be reached: its url has a wrong part; check port and parameters",
}
"""What PostgreSQL's client says of a connection that failed, and what to do."""


class SchemaVersionError(Exception):
    """The database was made by a version of memsvc that this one does not know; nothing was changed."""


@contextmanager
def translate() -> Iterator[None]:
    """Turn every error of the vendor that leaves the block into one of ours, and keep it as the cause.

    Raises:
        UniquenessRaceError: A unique index refused a row.
        BackendUnavailableError: The database is busy, full, unreadable or out of reach.
        StoreMovedError: The database refused to be written to, since its data have moved away.
        MemsvcError: A statement was refused for a fault of ours.
    """
    try:
        yield
    except exc.DatabaseError as error:
        raise _of_database(error) from error
    except (exc.DBAPIError, exc.TimeoutError) as error:
        raise BackendUnavailableError(BACKEND, problem=problem_of(getattr(error, "orig", None))) from error
    except exc.SQLAlchemyError as error:
        raise _fault() from error


def _of_database(error: exc.DatabaseError) -> Exception:
    text = str(error.orig)
    if MOVED in text:
        # Where to is nothing for those who only write.
        message = "Everything was moved to another store, and the service has yet to be started with that; try again."
        return StoreMovedError(message)
    if isinstance(error, exc.IntegrityError) and _is_unique_violation(error):
        return UniquenessRaceError("A key or content was taken by somebody else; repeat the transaction.")
    if isinstance(error, exc.IntegrityError | exc.ProgrammingError | exc.DataError | exc.NotSupportedError):
        if isinstance(error, exc.IntegrityError) or (problem := problem_of(error.orig)) == UNREACHED:
            return _fault()
        return BackendUnavailableError(BACKEND, problem=problem)
    return BackendUnavailableError(BACKEND, problem=problem_of(error.orig))


def problem_of(error: BaseException | None) -> str:
    """Return what is wrong with the database and what helps, in words that hold nothing of its address.

    What PostgreSQL says of a connection that failed comes without a code and may quote the address, and with it a
    password that was not escaped. A server that speaks another language is told of in general words.
    """
    if getattr(error, "sqlstate", None) or not type(error).__module__.startswith("psycopg"):
        return UNREACHED
    words = str(error)
    return next((problem for pattern, problem in _PROBLEMS.items() if re.search(pattern, words)), UNREACHED)


def _fault() -> MemsvcError:
    return MemsvcError("The metadata store refused a statement.")


def _is_unique_violation(error: exc.IntegrityError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _UNIQUE_VIOLATION or str(error.orig).startswith("UNIQUE constraint failed")
