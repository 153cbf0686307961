"""The queue of webhooks: a cursor for each endpoint, pending deliveries and dead letters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "webhook_cursors",
        sa.Column("endpoint", _TEXT, nullable=False),
        sa.Column("position", _NUMBER, nullable=False),
        sa.Column("gone_time", _NUMBER),
        sa.PrimaryKeyConstraint("endpoint"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("endpoint", _TEXT, nullable=False),
        sa.Column("position", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("row", _NUMBER, nullable=False),
        sa.Column("memory_id", _TEXT, nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("time", _NUMBER, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_time", _NUMBER, nullable=False),
        sa.Column("next_time", _NUMBER, nullable=False),
        sa.Column("is_dead", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "position"),
    )
    op.create_index("webhook_deliveries_owner", "webhook_deliveries", ["endpoint", "is_dead", "owner", "position"])
