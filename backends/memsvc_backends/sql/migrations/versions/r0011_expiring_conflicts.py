"""CONFLICTED memories in the index of memories that expire."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_COLUMNS = ("expire_time", "row", "owner", "project_id")


def upgrade() -> None:
    """Replace the index by one that holds the CONFLICTED memories too."""
    op.drop_index("memories_expiring", "memories")
    condition = sa.text(
        "(status = 'ACTIVE' OR status = 'CONFLICTED') AND tier != 'CORE' AND layer != 'CORE' "
        "AND expire_time IS NOT NULL"
    )
    op.create_index("memories_expiring", "memories", list(_COLUMNS), sqlite_where=condition, postgresql_where=condition)
