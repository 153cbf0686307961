"""The last position that was trimmed: positions may have gaps that were never used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_FILL = "UPDATE counters SET trimmed_position = coalesce((SELECT min(position) - 1 FROM outbox), last_position)"


def upgrade() -> None:
    """Add the column; positions had no gaps so far."""
    op.add_column("counters", sa.Column("trimmed_position", _NUMBER, nullable=False, server_default=sa.text("0")))
    op.execute(_FILL)
