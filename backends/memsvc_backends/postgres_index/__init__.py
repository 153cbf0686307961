"""Both indexes on PostgreSQL alone: vectors by pgvector, full text by tables of our own terms.

Why these tables: generations are tables beside each other, and a manifest says which one is live. A switch is one
transaction that changes the manifest and drops the tables of the generation before; whoever still searches those, in
whatever process, is told by the server that they are gone, and asks for the manifest. So nobody has to be told, and
nobody searches what no longer takes changes.
"""

try:
    import psycopg as _psycopg  # noqa: F401 - whether it is there is all that is asked
except ModuleNotFoundError as error:
    message = "it needs a package that is not installed: pip install memsvc[postgres]"
    raise ModuleNotFoundError(message, name=error.name) from error

from memsvc_backends.postgres_index.lexical import FULLTEXT
from memsvc_backends.postgres_index.vectors import PGVECTOR

__all__ = ["FULLTEXT", "PGVECTOR"]
