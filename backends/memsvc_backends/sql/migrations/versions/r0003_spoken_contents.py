"""Unique contents by speaker: two people who say the same do not repeat each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_COLUMNS = ("owner", "project_id", "content_hash", "kind", "speaker")


def upgrade() -> None:
    """Add the speaker to the index of unique contents."""
    op.drop_index("unique_memory_content", "memories")
    condition = sa.text("is_unique = 1")
    op.create_index(
        "unique_memory_content",
        "memories",
        list(_COLUMNS),
        unique=True,
        sqlite_where=condition,
        postgresql_where=condition,
    )
