"""The table of API keys. Ids ascend in the order of creation, so that the primary key lists them in it."""

from __future__ import annotations

import sqlalchemy as sa

from memsvc_backends.sql.tables import Number, metadata

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("tenant_id", sa.Text, nullable=False),
    # Lists as JSON; empty: no bound.
    sa.Column("user_ids", sa.Text, nullable=False),
    sa.Column("project_ids", sa.Text, nullable=False),
    # SHA-256 of the text, in hexadecimal: the text itself is nowhere.
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("expire_time", Number),
    sa.Column("revoke_time", Number),
    sa.Column("calls_per_second", sa.Double, nullable=False),
    sa.Column("concurrent_calls", Number, nullable=False),
)
