"""Unread memories are listed by importance: those that are too important to be archived are not read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_COLUMNS = ("importance", "access_time", "create_time", "row", "owner", "project_id")


def upgrade() -> None:
    """Replace the index by one that begins with the importance."""
    op.drop_index("memories_unread", "memories")
    condition = sa.text("status = 'ACTIVE' AND tier != 'CORE' AND layer != 'CORE' AND layer = 'LONG_TERM'")
    op.create_index("memories_unread", "memories", list(_COLUMNS), sqlite_where=condition, postgresql_where=condition)
