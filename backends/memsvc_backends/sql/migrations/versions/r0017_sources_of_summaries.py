"""Summaries are found by what they sum up, from which what is deleted is removed; deleted memories by their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the indexes."""
    summaries = sa.text("kind = 'SUMMARY'")
    op.create_index("memories_summaries", "memories", ["owner"], sqlite_where=summaries, postgresql_where=summaries)
    deleted = sa.text("status = 'DELETED'")
    order = ["update_time", "row", "owner", "project_id"]
    op.create_index("memories_deleted", "memories", order, sqlite_where=deleted, postgresql_where=deleted)
    summarised = sa.text("summary_id != ''")
    columns = ["summary_id", "ordinal"]
    op.create_index("messages_summarised", "messages", columns, sqlite_where=summarised, postgresql_where=summarised)
