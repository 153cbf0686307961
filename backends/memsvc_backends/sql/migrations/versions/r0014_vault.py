"""What the vault knows of its files. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables."""
    texts = ("path", "owner", "project_id", "memory_id", "session_id", "digest")
    op.create_table(
        "vault_files",
        sa.Column("path_key", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in texts),
        sa.Column("revision", _Number, nullable=False),
        sa.Column("anchor", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("path_key"),
    )
    _unique("unique_vault_memory", ["memory_id"], "memory_id != ''")
    _unique("unique_vault_session", ["owner", "project_id", "session_id"], "session_id != ''")
    op.create_index("vault_files_owner", "vault_files", ["owner", "digest"])
    op.create_table(
        "vault_state",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("vault_id", sa.Text(), nullable=False),
        sa.Column("position", _Number, nullable=False),
        sa.PrimaryKeyConstraint("one"),
    )


def _unique(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "vault_files", columns, unique=True, sqlite_where=where, postgresql_where=where)
