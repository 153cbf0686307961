"""Statements and conflicts. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "statements",
        *(_text(name) for name in ("owner", "project_id", "topic")),
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        *(_text(name) for name in ("rule", "parts")),
        sa.Column("positive", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "project_id", "topic", "row"),
        sqlite_with_rowid=False,
    )
    op.create_index("statements_row", "statements", ["row"])
    texts = (
        "owner",
        "project_id",
        "id",
        "older_id",
        "newer_id",
        "state",
        "rule",
        "topic",
        "older_value",
        "newer_value",
    )
    op.create_table(
        "conflicts",
        *(_text(name) for name in texts),
        sa.Column("create_time", _Number, nullable=False),
        sa.Column("resolve_time", _Number, nullable=True),
        sa.PrimaryKeyConstraint("owner", "project_id", "id"),
        sqlite_with_rowid=False,
    )
    is_open = sa.text("state = 'OPEN'")
    place = ["owner", "project_id", "id"]
    op.create_index("conflicts_open", "conflicts", place, sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("conflicts_older", "conflicts", ["older_id"])
    op.create_index("conflicts_newer", "conflicts", ["newer_id"])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)
