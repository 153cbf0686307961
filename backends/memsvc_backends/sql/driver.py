"""What the connections to a database are made and driven by: SQLite and PostgreSQL have one each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa


class Driver(Protocol):
    """How connections are made, and how transactions begin and end on them.

    Connections are in the driver's own autocommit: transactions are begun by words, never by the driver.
    """

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may write to the database: then nothing read can be kept."""
        ...

    def connect(self) -> sa.Connection:
        """Make a connection."""
        ...

    def is_usable(self, connection: sa.Connection) -> bool:
        """Return whether a connection that lay idle can be lent, as far as can be told without asking the server."""
        ...

    def is_clean(self, connection: sa.Connection) -> bool:
        """Return whether a connection that was lent may be kept: it is there, and in no transaction."""
        ...

    def begin_snapshot(self, connection: sa.Connection) -> None:
        """Begin a transaction that sees one state of the database throughout."""
        ...

    def begin_write(self, connection: sa.Connection) -> None:
        """Begin a transaction that changes memories.

        It waits until no other one is under way, in this process or another, so that it cannot fail half way for it.
        """
        ...

    def begin_note(self, connection: sa.Connection) -> None:
        """Begin a transaction that writes what is in no order: it may run beside one that changes memories."""
        ...

    def commit(self, connection: sa.Connection) -> None:
        """Commit, or raise: a transaction in which a statement failed is not passed off as committed."""
        ...

    def undo(self, connection: sa.Connection) -> None:
        """Take the transaction back, if there is one still."""
        ...

    def files(self) -> Sequence[Path]:
        """Return the files, of this machine, in which what was removed may stay until `rewrite`."""
        ...

    def settle(self, connection: sa.Connection) -> bool:
        """Bring what was removed out of the files that hold the log of changes, outside a transaction.

        Return False when a reader of an older state is in the way.
        """
        ...

    def rewrite(self, connection: sa.Connection) -> None:
        """Write all data anew, without anything that was removed. Outside a transaction."""
        ...

    def storage_bytes(self, connection: sa.Connection) -> int:
        """Return the bytes that the database takes up."""
        ...

    def close(self) -> None:
        """Give back what is not a connection."""
        ...
