"""Sessions and the order of their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add two empty tables."""
    place = ["owner", "project_id"]
    op.create_table(
        "sessions",
        *(_number(name) for name in ("row", "token_limit", "last_ordinal", "trim_count", "create_time", "update_time")),
        *(_number(name, nullable=True) for name in ("last_message_time", "end_time", "trim_time")),
        *(_text(name) for name in ("state", "auto_trim", "owner", "project_id", "id", "agent_id", "title", "metadata")),
        sa.PrimaryKeyConstraint("row"),
    )
    op.create_index("unique_session_id", "sessions", [*place, "id"], unique=True)
    op.create_index("sessions_row", "sessions", [*place, "row"])
    op.create_index("sessions_state", "sessions", [*place, "state", "row"])
    op.create_table(
        "messages",
        *(_number(name) for name in ("row", "session_row", "ordinal", "token_count")),
        *(sa.Column(name, sa.SmallInteger(), nullable=False) for name in ("is_pinned", "has_content")),
        *(_text(name) for name in ("state", "role", "tool_call_id", "summary_id", "tool_calls")),
        sa.PrimaryKeyConstraint("row"),
    )
    op.create_index("unique_message_ordinal", "messages", ["session_row", "ordinal"], unique=True)
    op.create_index("messages_state", "messages", ["session_row", "state", "token_count"])
    live = sa.text("state = 'ACTIVE'")
    op.create_index("messages_live", "messages", ["session_row", "ordinal"], sqlite_where=live, postgresql_where=live)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _Number, nullable=nullable, autoincrement=False)
