"""What finds the memories that upkeep is due of, and leases. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_KEPT_UP = "status = 'ACTIVE' AND tier != 'CORE' AND layer != 'CORE'"


def upgrade() -> None:
    """Add the table and the indexes; expired memories are no longer among the indexed ones."""
    op.drop_index("memories_live", table_name="memories")
    _conditional(
        "memories_indexed", ["row", "fingerprint", "chunk_count"], "status != 'DELETED' AND status != 'EXPIRED'"
    )
    place = ["row", "owner", "project_id"]
    _conditional("memories_expiring", ["expire_time", *place], f"{_KEPT_UP} AND expire_time IS NOT NULL")
    _conditional("memories_read_often", ["access_count", *place], f"{_KEPT_UP} AND layer = 'SHORT_TERM'")
    _conditional("memories_unread", ["access_time", "create_time", *place], f"{_KEPT_UP} AND layer = 'LONG_TERM'")
    useful = ["owner", "importance", "access_count", "row"]
    _conditional("memories_useful", useful, f"{_KEPT_UP} AND layer = 'LONG_TERM'")
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", _Number, nullable=False),
        sa.Column("last_end", _Number, nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )


def _conditional(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "memories", columns, sqlite_where=where, postgresql_where=where)
