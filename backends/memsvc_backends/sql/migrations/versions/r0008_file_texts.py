"""Text of files: its state, its passages, and the words that they are found by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_IS_WAITING = sa.text("text_time IS NOT NULL")


def upgrade() -> None:
    """Add the columns, by which the text of all files is pending, and create the tables."""
    zero, empty = sa.text("0"), sa.text("''")
    op.add_column("files", sa.Column("text_state", _TEXT, nullable=False, server_default=sa.text("'PENDING'")))
    op.add_column("files", sa.Column("text_reason", _TEXT, nullable=False, server_default=empty))
    for name in ("text_chars", "text_bytes", "text_passages", "text_truncated", "text_attempts"):
        op.add_column("files", sa.Column(name, _NUMBER, nullable=False, server_default=zero))
    op.add_column("files", sa.Column("text_time", _NUMBER))
    op.execute("UPDATE files SET text_time = 0")
    op.create_index(
        "files_text_waiting",
        "files",
        ["text_time", "row"],
        sqlite_where=_IS_WAITING,
        postgresql_where=_IS_WAITING,
    )
    op.create_table(
        "file_passages",
        sa.Column("file", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("ordinal", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("start_line", sa.Integer(), nullable=False),
        sa.Column("end_line", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=False),
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("section", _TEXT, nullable=False),
        sa.Column("text", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("file", "ordinal"),
    )
    op.create_index("file_passages_owner", "file_passages", ["owner", "file"])
    op.create_table(
        "file_words",
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("term", _TEXT, nullable=False),
        sa.Column("file", _NUMBER, nullable=False, autoincrement=False),
        sa.Column("postings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "project_id", "term", "file"),
        sqlite_with_rowid=False,
    )
    op.create_index("file_words_file", "file_words", ["file"])
