"""Where the errors of SQLAlchemy and the driver become the domain's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from memsvc.domain.errors import BackendUnavailableError, MemsvcError
from memsvc.domain.moving_errors import StoreMovedError
from memsvc.ports.metadata import UniquenessRaceError

BACKEND = "sql"
_UNIQUE_VIOLATION = "23505"
MOVED = "memsvc: moved to "
"""What a database refuses writes with whose data have moved away; the place follows."""


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
        raise BackendUnavailableError(BACKEND) from error
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
        return _fault()
    return BackendUnavailableError(BACKEND)


def _fault() -> MemsvcError:
    return MemsvcError("The metadata store refused a statement.")


def _is_unique_violation(error: exc.IntegrityError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _UNIQUE_VIOLATION or str(error.orig).startswith("UNIQUE constraint failed")
