"""Indexes of what contexts and starts load."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the indexes."""
    for name, condition in {
        "memories_core": "layer = 'CORE' OR tier = 'CORE'",
        "memories_active_tier": "tier = 'ACTIVE'",
        "memories_preference": "kind = 'PREFERENCE'",
    }.items():
        where = sa.text(condition)
        op.create_index(name, "memories", ["owner", "project_id"], sqlite_where=where, postgresql_where=where)
    recent, columns = sa.text("layer = 'SHORT_TERM'"), ["owner", "project_id", "update_time"]
    op.create_index("memories_short_term", "memories", columns, sqlite_where=recent, postgresql_where=recent)
