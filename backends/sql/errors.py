"""Where the errors of SQLAlchemy and the driver become the domain's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from memsvc.domain.errors import BackendUnavailableError, MemsvcError
from memsvc.ports.metadata import UniquenessRaceError

BACKEND = "sql"
_UNIQUE_VIOLATION = "23505"


class SchemaVersionError(Exception):
    """The database was made by a version of memsvc that this one does not know; nothing was changed."""


@contextmanager
def translate() -> Iterator[None]:
    """Turn every error of the vendor that leaves the block into one of ours, and keep it as the cause.

    Raises:
        UniquenessRaceError: A unique index refused a row.
        BackendUnavailableError: The database is busy, full, unreadable or out of reach.
        MemsvcError: A statement was refused for a fault of ours.
    """
    try:
        yield
    except exc.IntegrityError as error:
        if _is_unique_violation(error):
            message = "A key or content was taken by somebody else; repeat the transaction."
            raise UniquenessRaceError(message) from error
        raise _fault() from error
    except (exc.ProgrammingError, exc.DataError, exc.NotSupportedError) as error:
        raise _fault() from error
    except (exc.DBAPIError, exc.TimeoutError) as error:
        raise BackendUnavailableError(BACKEND) from error
    except exc.SQLAlchemyError as error:
        raise _fault() from error


def _fault() -> MemsvcError:
    return MemsvcError("The metadata store refused a statement.")


def _is_unique_violation(error: exc.IntegrityError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _UNIQUE_VIOLATION or str(error.orig).startswith("UNIQUE constraint failed")
