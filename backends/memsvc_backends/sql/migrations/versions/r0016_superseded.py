"""An index of the memories that were superseded, by what. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the index."""
    is_superseded = sa.text("superseded_by_id != ''")
    columns = ["superseded_by_id"]
    op.create_index(
        "memories_superseded", "memories", columns, sqlite_where=is_superseded, postgresql_where=is_superseded
    )
