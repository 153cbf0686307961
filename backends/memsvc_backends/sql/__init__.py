"""The metadata store on SQL: SQLite or PostgreSQL, through SQLAlchemy Core."""

from memsvc_backends.sql import tables  # noqa: F401 - before what looks at all tables
from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.store import SQL, SqlMetadataStore

__all__ = ["SQL", "SqlMetadataStore", "SqlSettings"]
