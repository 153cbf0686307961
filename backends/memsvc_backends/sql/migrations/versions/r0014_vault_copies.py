"""The copies of vault files that were rejected: they become no memory when that of the original is deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_COLUMNS = ("path", "owner", "project_id", "digest", "memory_id")


def upgrade() -> None:
    """Add the table; the next synchronisation finds the copies that exist."""
    op.create_table(
        "vault_copies",
        sa.Column("path_key", _TEXT, nullable=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in _COLUMNS),
        sa.PrimaryKeyConstraint("path_key"),
    )
    op.create_index("vault_copies_owner", "vault_copies", ["owner"])
