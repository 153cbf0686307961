"""Reminders. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column and both tables. Memories from before have no reminder until their content is written again."""
    op.add_column("memories", sa.Column("reminder", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "reminders",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("owner", "project_id", "day", "row"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reminders_given",
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        sa.Column("day", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("time", _Number, nullable=False),
        sa.PrimaryKeyConstraint("row", "day", "slot"),
        sqlite_with_rowid=False,
    )
