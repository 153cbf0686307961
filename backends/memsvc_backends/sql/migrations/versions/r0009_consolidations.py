"""An index of the daily logs that are in use. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the index."""
    is_log = sa.text("substr(\"key\", 1, 6) = 'daily/' AND status = 'ACTIVE'")
    columns = ["key", "owner", "project_id"]
    op.create_index("memories_logs", "memories", columns, sqlite_where=is_log, postgresql_where=is_log)
