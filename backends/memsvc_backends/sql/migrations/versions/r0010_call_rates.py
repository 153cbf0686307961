"""Calls that keys and tenants began, which all servers over the database count together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "call_rates",
        sa.Column("caller", _TEXT, nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("time", _NUMBER, nullable=False),
        sa.Column("taken", _NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("caller"),
    )
    op.create_index("call_rates_time", "call_rates", ["time"])
