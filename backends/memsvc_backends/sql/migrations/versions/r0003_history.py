"""When what a memory says is true, checkpoints, and what is left of purged memories. Frozen, as every step is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns and tables, and let revisions begin when their memory says that it was changed."""
    op.add_column("memories", sa.Column("valid_from", _Number))
    op.add_column("memories", sa.Column("valid_to", _Number))
    changed = "json_extract(snapshot, '$.update_time')"
    if op.get_bind().dialect.name == "postgresql":
        changed = "(snapshot::json->>'update_time')::bigint"
    op.execute(
        "UPDATE revisions SET time = CASE WHEN snapshot IS NULL"  # noqa: S608 - our own words
        ' THEN (SELECT update_time FROM memories WHERE memories."row" = revisions."row")'
        f" ELSE {changed} END"
    )
    op.create_table(
        "checkpoints",
        *(_text(name) for name in ("owner", "project_id", "name")),
        _number("known_time"),
        _number("create_time"),
        _text("note"),
        sa.PrimaryKeyConstraint("owner", "project_id", "name"),
    )
    newest_first: list[str | sa.TextClause] = ["owner", "project_id", sa.text("create_time DESC"), "name"]
    op.create_index("checkpoints_create_time", "checkpoints", newest_first)
    op.create_table(
        "tombstones",
        _number("row"),
        *(_text(name) for name in ("owner", "project_id", "memory_id", "session_id")),
        _number("create_time"),
        _number("time"),
        sa.PrimaryKeyConstraint("row"),
    )
    op.create_index("tombstones_owner", "tombstones", ["owner", "project_id"])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, _Number, nullable=False, autoincrement=False)
