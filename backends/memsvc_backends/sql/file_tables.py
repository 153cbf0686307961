"""The tables of files, beside those of `memsvc_backends.sql.tables`; imported before all that looks at tables."""

from __future__ import annotations

import sqlalchemy as sa

from memsvc_backends.sql.tables import ONE, Number, metadata

files = sa.Table(
    "files",
    metadata,
    # From the same counter as the rows of memories.
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("size_bytes", Number, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("expire_time", Number),
    # 0: only this record was brought here. The hash of such a file gives no claim to a blob that others put.
    sa.Column("has_content", sa.SmallInteger, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("category", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("media_type", sa.Text, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    # What `memsvc.domain.files.searched_text` makes of it.
    sa.Column("searched", sa.Text, nullable=False),
)
_f = files.c
HAS_CONTENT = _f.has_content == ONE
IS_PASSING = _f.expire_time.is_not(None)
sa.Index("unique_file_id", _f.id, unique=True)
sa.Index("files_row", _f.owner, _f.project_id, _f.row)
sa.Index("files_owner", _f.owner, _f.row)
sa.Index("files_category", _f.owner, _f.project_id, _f.category, _f.row)
sa.Index("files_sha256", _f.sha256, _f.owner, _f.has_content)
sa.Index("files_expiring", _f.expire_time, _f.row, sqlite_where=IS_PASSING, postgresql_where=IS_PASSING)

file_terms = sa.Table(
    "file_terms",
    metadata,
    # The words that files are found by; the key holds the place, so that a search reads what it may tell and no more.
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("term", sa.Text, primary_key=True),
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("weight", sa.Double, nullable=False),
    sqlite_with_rowid=False,
)
