"""Contents of deleted memories are found by their hash: messages that say them are left out of contexts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the index."""
    condition = sa.text("status = 'DELETED' AND kind != 'MESSAGE'")
    columns = ["owner", "content_hash", "update_time"]
    op.create_index("memories_forgotten", "memories", columns, sqlite_where=condition, postgresql_where=condition)
