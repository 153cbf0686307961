"""API keys. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table. A store from before has no keys, and asks for none."""
    op.create_table(
        "api_keys",
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("id", "name", "role", "tenant_id", "user_ids", "project_ids", "digest")
        ),
        sa.Column("create_time", _Number, nullable=False),
        sa.Column("expire_time", _Number, nullable=True),
        sa.Column("revoke_time", _Number, nullable=True),
        sa.Column("calls_per_second", sa.Double(), nullable=False),
        sa.Column("concurrent_calls", _Number, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
