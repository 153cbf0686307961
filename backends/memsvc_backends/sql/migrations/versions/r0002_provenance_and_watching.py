"""Where memories come from, keys that quarantined memories do not hold, and changes by owner. Frozen."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NAMED = "\"key\" != '' AND status != 'DELETED'"


def upgrade() -> None:
    """Add the columns; what was there before counts as written by an agent."""
    _provenance()
    _changes()
    op.add_column("counters", _text("store_id", ""))
    name = sa.text("UPDATE counters SET store_id = :name").bindparams(name=uuid.uuid4().hex)
    op.get_bind().execute(name)


def _text(name: str, default: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False, server_default=default)


def _provenance() -> None:
    op.add_column("memories", _text("origin", "AGENT"))
    op.add_column("memories", sa.Column("trust", sa.Double(), nullable=False, server_default=sa.text("0.8")))
    op.add_column("memories", _text("derived_from", "[]"))
    op.add_column("memories", _text("review", ""))
    op.drop_index("unique_memory_key", "memories")
    where = sa.text(f"{_NAMED} AND status != 'QUARANTINED'")
    columns = ["owner", "project_id", "key"]
    op.create_index("unique_memory_key", "memories", columns, unique=True, sqlite_where=where, postgresql_where=where)
    quarantined = sa.text("status = 'QUARANTINED'")
    op.create_index(
        "memories_quarantined",
        "memories",
        ["owner", "project_id", sa.text("create_time DESC")],
        sqlite_where=quarantined,
        postgresql_where=quarantined,
    )


def _changes() -> None:
    for name in ("owner", "project_id", "private_session"):
        op.add_column("outbox", _text(name, ""))
    # Of memories that were removed for good nobody knows any more whose they were: nobody is told of them.
    for name in ("owner", "project_id"):
        wanted = f"SELECT memories.{name} FROM memories WHERE memories.row = outbox.row"  # noqa: S608 - our own names
        op.execute(f"UPDATE outbox SET {name} = coalesce(({wanted}), '')")  # noqa: S608 - as above
    private = "SELECT session_id FROM memories WHERE memories.row = outbox.row AND layer = 'SESSION'"
    op.execute(f"UPDATE outbox SET private_session = coalesce(({private}), '')")  # noqa: S608 - as above
    op.create_index("outbox_reach", "outbox", ["owner", "project_id", "position"])
