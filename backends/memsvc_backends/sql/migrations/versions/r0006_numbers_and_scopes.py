"""The terms by which ranges find numbers in metadata, and the index of scopes."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

# As the code makes them that follows this migration: CheckIntegrity compares with what is made then.
from memsvc_backends.sql.memory_codec import encode_numbers

revision = "0006"
down_revision = "0005"

_PAGE = 1_000
_SCOPE = ("owner", "project_id", "agent_id", "session_id", "status", "update_time")
_NEXT = sa.text(
    "SELECT row, owner, metadata FROM memories WHERE row > :after AND metadata <> '{}' ORDER BY row LIMIT :most"
)
_ADD = sa.text("INSERT INTO memory_metadata (owner, term, row) VALUES (:owner, :term, :row)")


def upgrade() -> None:
    """Add the terms of the numbers in metadata, and the index."""
    _add_numbers(op.get_bind())
    op.create_index("memories_scope", "memories", list(_SCOPE))


def _add_numbers(connection: sa.Connection) -> None:
    after = -1
    while page := connection.execute(_NEXT, {"after": after, "most": _PAGE}).all():
        after = page[-1][0]
        added = [
            {"owner": owner, "term": term, "row": row}
            for row, owner, text in page
            for term in encode_numbers(json.loads(text))
        ]
        if added:
            connection.execute(_ADD, added)
