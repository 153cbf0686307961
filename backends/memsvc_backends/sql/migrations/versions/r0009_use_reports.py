"""Reports of use: calls, reports, their counts, and the state of the ranking."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_IS_WRONG = sa.text("outcome = 'WRONG'")
_IS_DUE = sa.text("is_due = 1")
_OUTCOMES = ("used", "ignored", "wrong")


def upgrade() -> None:
    """Create the tables."""
    _create_reports()
    _create_counts()


def _create_reports() -> None:
    op.create_table(
        "use_calls",
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("call", _NUMBER, nullable=False, autoincrement=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("project_id", "agent_id", "session_id")),
        sa.Column("time", _NUMBER, nullable=False),
        sa.Column("query", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "call"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "use_reports",
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("call", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("row", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("outcome", _TEXT, nullable=False),
        sa.Column("revision", _NUMBER, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "call", "row"),
        sqlite_with_rowid=False,
    )
    op.create_index("use_reports_memory", "use_reports", ["owner", "row", "call"])
    op.create_index(
        "use_reports_wrong",
        "use_reports",
        ["owner", "call", "row"],
        sqlite_where=_IS_WRONG,
        postgresql_where=_IS_WRONG,
    )


def _create_counts() -> None:
    op.create_table(
        "use_counts",
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("row", _NUMBER, nullable=False, autoincrement=False),
        *(sa.Column(name, _NUMBER, nullable=False) for name in _OUTCOMES),
        sa.PrimaryKeyConstraint("owner", "row"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "use_feedback",
        sa.Column("owner", _TEXT, nullable=False),
        *(sa.Column(name, _NUMBER, nullable=False) for name in (*_OUTCOMES, "calls", "pending")),
        sa.Column("is_due", sa.SmallInteger(), nullable=False),
        sa.Column("replay_time", _NUMBER),
        *(sa.Column(name, _NUMBER, nullable=False) for name in ("replay_calls", "tested")),
        *(
            sa.Column(name, sa.Double(), nullable=False)
            for name in ("mrr_without", "mrr_with", "ndcg_without", "ndcg_with", "standard_error")
        ),
        sa.PrimaryKeyConstraint("owner"),
    )
    op.create_index("use_feedback_due", "use_feedback", ["owner"], sqlite_where=_IS_DUE, postgresql_where=_IS_DUE)
