"""The memories that were extracted from a message: contexts know which messages say what changed or was deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; of messages that were flushed before, nothing is known."""
    op.add_column("messages", sa.Column("extracted", _TEXT, nullable=False, server_default=sa.text("'[]'")))
