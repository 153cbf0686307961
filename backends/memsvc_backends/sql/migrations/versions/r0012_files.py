"""What is known of files. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXTS = (
    "owner", "project_id", "agent_id", "session_id", "id", "category", "name", "media_type", "sha256", "metadata",
    "searched",
)  # fmt: skip


def upgrade() -> None:
    """Add the table and its indexes."""
    op.create_table(
        "files",
        sa.Column("row", _Number, nullable=False, autoincrement=False),
        sa.Column("size_bytes", _Number, nullable=False),
        sa.Column("create_time", _Number, nullable=False),
        sa.Column("expire_time", _Number, nullable=True),
        sa.Column("has_content", sa.SmallInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        sa.PrimaryKeyConstraint("row"),
    )
    op.create_index("unique_file_id", "files", ["id"], unique=True)
    op.create_index("files_row", "files", ["owner", "project_id", "row"])
    op.create_index("files_owner", "files", ["owner", "row"])
    op.create_index("files_category", "files", ["owner", "project_id", "category", "row"])
    op.create_index("files_sha256", "files", ["sha256", "owner", "has_content"])
    passing = sa.text("expire_time IS NOT NULL")
    op.create_index("files_expiring", "files", ["expire_time", "row"], sqlite_where=passing, postgresql_where=passing)
