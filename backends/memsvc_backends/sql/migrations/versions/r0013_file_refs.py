"""What memories refer to, and the words that files are found by. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PAGE = 1_000


def upgrade() -> None:
    """Add both tables, and enter the references of the memories that are there; files come with this version only."""
    op.create_table(
        "memory_refs",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("owner", "term", "row"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "file_terms",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "project_id", "term", "row"),
        sqlite_with_rowid=False,
    )
    _enter_references(op.get_bind())


def _enter_references(connection: sa.Connection) -> None:
    memories = sa.table("memories", sa.column("row"), sa.column("owner"), sa.column("file_refs"))
    refs = sa.table("memory_refs", sa.column("owner"), sa.column("term"), sa.column("row"))
    referring = sa.select(memories.c.row, memories.c.owner, memories.c.file_refs).where(memories.c.file_refs != "[]")
    last = -1
    while page := connection.execute(
        referring.where(memories.c.row > last).order_by(memories.c.row).limit(_PAGE)
    ).all():
        values = [
            {"owner": owner, "term": term, "row": row}
            for row, owner, text in page
            for term in dict.fromkeys(f"{category}:{name}" for category, name in json.loads(text))
        ]
        connection.execute(sa.insert(refs), values)
        last = page[-1][0]
