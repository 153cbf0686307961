"""Both indexes on PostgreSQL alone: vectors by pgvector, full text by tables of our own terms.

Each generation has tables of its own, and a manifest names the live one. A switch is one transaction that changes the
manifest and drops the tables of the earlier generation. A concurrent search of any process then fails with "undefined
table" and reads the manifest again. So no notification is needed, and no process searches outdated tables.
"""

try:
    import psycopg as _psycopg  # noqa: F401 - whether it is there is all that is asked
except ModuleNotFoundError as error:
    message = "it needs a package that is not installed: pip install memsvc[postgres]"
    raise ModuleNotFoundError(message, name=error.name) from error

from memsvc_backends.postgres_index.lexical import FULLTEXT
from memsvc_backends.postgres_index.vectors import PGVECTOR

__all__ = ["FULLTEXT", "PGVECTOR"]
