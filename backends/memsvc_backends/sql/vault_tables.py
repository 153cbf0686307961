"""The tables of the vault; they belong to those of `memsvc_backends.sql.tables`."""

from __future__ import annotations

import sqlalchemy as sa

from memsvc_backends.sql.tables import EMPTY, Number, metadata

__all__ = ["metadata", "vault_files", "vault_state"]

vault_files = sa.Table(
    "vault_files",
    metadata,
    # The path as file systems without case and composition have it: two such paths are one.
    sa.Column("path_key", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    # One of the two, and the other empty.
    sa.Column("memory_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("revision", Number, nullable=False),
    sa.Column("anchor", sa.Text, nullable=False),
)


def _unique(name: str, condition: sa.ColumnElement[bool], *columns: sa.ColumnElement[object]) -> sa.Index:
    return sa.Index(name, *columns, unique=True, sqlite_where=condition, postgresql_where=condition)


_v = vault_files.c
_unique("unique_vault_memory", _v.memory_id != EMPTY, _v.memory_id)
_unique("unique_vault_session", _v.session_id != EMPTY, _v.owner, _v.project_id, _v.session_id)
sa.Index("vault_files_owner", _v.owner, _v.digest)

vault_state = sa.Table(
    "vault_state",
    metadata,
    # One row, when there is a vault.
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("vault_id", sa.Text, nullable=False),
    sa.Column("position", Number, nullable=False),
)
