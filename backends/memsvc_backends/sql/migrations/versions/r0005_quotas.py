"""Quotas, and the amounts that tenants have stored, which are counted once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_AMOUNTS = ("memories", "content_bytes", "file_bytes")
_FILL = """
INSERT INTO stored_amounts (subject, id, shard, memories, content_bytes, file_bytes)
SELECT 'TENANT', tenant, 0, sum(memories), sum(content_bytes), sum(file_bytes) FROM (
  SELECT {tenant} AS tenant, 1 AS memories, content_bytes + {bytes} - 2 AS content_bytes, 0 AS file_bytes FROM memories
  UNION ALL SELECT {tenant}, 0, 0, size_bytes FROM files
) AS counted GROUP BY tenant
"""
_TENANTS = {
    "sqlite": "substr(owner, 1, instr(owner, char(31)) - 1)",
    "postgresql": "substr(owner, 1, strpos(owner, chr(31)) - 1)",
}
_BYTES = {"sqlite": "length(CAST(metadata AS BLOB))", "postgresql": "octet_length(metadata)"}


def upgrade() -> None:
    """Create the tables, and count what each tenant has."""
    op.create_table(
        "quotas",
        sa.Column("subject", _TEXT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("calls_per_second", sa.Double(), nullable=False),
        *(sa.Column(name, _NUMBER, nullable=False) for name in _AMOUNTS),
        sa.Column("update_time", _NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("subject", "id"),
    )
    op.create_table(
        "stored_amounts",
        sa.Column("subject", _TEXT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False, autoincrement=False),
        *(sa.Column(name, _NUMBER, nullable=False) for name in _AMOUNTS),
        sa.PrimaryKeyConstraint("subject", "id", "shard"),
    )
    dialect = op.get_bind().dialect.name
    op.execute(_FILL.format(tenant=_TENANTS[dialect], bytes=_BYTES[dialect]))
