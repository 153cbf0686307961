"""The references to files in the summaries of memories: a file with no other reference is no orphan."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

# As the code makes them that follows this migration: CheckIntegrity compares with what is made then.
from memsvc.text.file_refs import refs_in
from memsvc_backends.sql.memory_codec import ref_terms

revision = "0012"
down_revision = "0011"

_PAGE = 1_000
_NEXT = sa.text(
    "SELECT row, owner, summary FROM memories WHERE row > :after AND summary <> '' ORDER BY row LIMIT :most"
)
_ADD = sa.text("INSERT INTO memory_refs (owner, term, row) VALUES (:owner, :term, :row) ON CONFLICT DO NOTHING")


def upgrade() -> None:
    """Add the references of stored summaries."""
    connection, after = op.get_bind(), -1
    while page := connection.execute(_NEXT, {"after": after, "most": _PAGE}).all():
        after = page[-1][0]
        added = [
            {"owner": owner, "term": term, "row": row}
            for row, owner, summary in page
            for term in ref_terms(refs_in(summary))
        ]
        if added:
            connection.execute(_ADD, added)
