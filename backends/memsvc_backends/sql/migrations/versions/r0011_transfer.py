"""Erasures, and finding tombstones by id. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "erasures",
        sa.Column("owner_digest", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("owner", "request_id")),
        sa.Column("begin_time", _Number, nullable=False),
        sa.Column("end_time", _Number, nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("projects", "receipt")),
        sa.PrimaryKeyConstraint("owner_digest"),
    )
    op.create_index("erasures_end", "erasures", ["end_time"])
    op.create_index("tombstones_memory", "tombstones", ["memory_id"])
