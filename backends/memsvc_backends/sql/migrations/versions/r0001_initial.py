"""The tables of version 0.1. Frozen: a later change is a migration of its own."""

from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MAINTAINED = "status = 'ACTIVE' AND tier != 'CORE' AND layer != 'CORE'"

_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    # PostgreSQL compares texts by their bytes, as SQLite does.
    "text": sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
    "bytes": sa.LargeBinary(),
    "small": sa.SmallInteger(),
    "integer": sa.Integer(),
    # SQLite makes a key of its own row numbers only of what is called INTEGER.
    "number": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "double": sa.Double(),
}


def upgrade() -> None:
    """Create everything in an empty database."""
    _memories()
    _memory_indexes()
    _memory_terms()
    _changes()
    _conflicts_and_history()
    _sessions()
    _work()
    _files_and_vault()


def _table(name: str, columns: str, *, key: str, with_rowid: bool = True) -> None:
    """Create a table of columns that are given as "name type"; a type with "?" may be null."""
    made: list[sa.Column[object]] = []
    for column in columns.split(", "):
        column_name, type_name = column.split()
        type_ = _TYPES[type_name.removesuffix("?")]
        made.append(sa.Column(column_name, type_, nullable=type_name.endswith("?"), autoincrement=False))
    options = {} if with_rowid else {"sqlite_with_rowid": False}
    op.create_table(name, *made, sa.PrimaryKeyConstraint(*key.split(", ")), **options)


def _index(name: str, table: str, columns: str, *, where: str = "") -> None:
    """Create an index of the rows that meet a condition; one whose name says so is unique."""
    parts = [sa.text(column) if column.endswith(" DESC") else column for column in columns.split(", ")]
    condition = sa.text(where) if where else None
    is_unique = name.startswith("unique_")
    op.create_index(name, table, parts, unique=is_unique, sqlite_where=condition, postgresql_where=condition)


def _memories() -> None:
    _table(
        "memories",
        "row number, revision integer, chunk_count integer, content_bytes number, fingerprint number, "
        "previous_row number?, importance integer, access_count number, create_time number, update_time number, "
        "access_time number?, event_time number?, expire_time number?, valid_from number?, valid_to number?, "
        "confidence double, trust double, work_in_progress small, is_unique small, status text, layer text, "
        "kind text, tier text, origin text, review text, owner text, project_id text, id text, session_id text, "
        "agent_id text, speaker text, category text, key text, content_hash text, supersedes_id text, "
        "superseded_by_id text, source text, title text, tags text, keywords text, related_ids text, "
        "derived_from_ids text, file_refs text, reminder text, metadata text, summary text, content text",
        key="row",
    )


def _memory_indexes() -> None:
    _index("memories_access_count", "memories", "owner, project_id, access_count DESC")
    _index("memories_access_time", "memories", "owner, project_id, access_time DESC")
    _index("memories_active_tier", "memories", "owner, project_id", where="tier = 'ACTIVE'")
    _index("memories_core", "memories", "owner, project_id", where="layer = 'CORE' OR tier = 'CORE'")
    _index("memories_create_time", "memories", "owner, project_id, create_time DESC")
    _index("memories_event_time", "memories", "owner, project_id, event_time DESC")
    _index(
        "memories_expiring",
        "memories",
        "expire_time, row, owner, project_id",
        where=f"{_MAINTAINED} AND expire_time IS NOT NULL",
    )
    _index(
        "memories_former_key",
        "memories",
        "owner, project_id, key",
        where="\"key\" != '' AND (status = 'DELETED' OR status = 'QUARANTINED')",
    )
    _index("memories_importance", "memories", "owner, project_id, importance DESC")
    _index(
        "memories_indexed",
        "memories",
        "row, fingerprint, chunk_count",
        where="status != 'DELETED' AND status != 'EXPIRED'",
    )
    _index(
        "memories_logs",
        "memories",
        "key, owner, project_id",
        where="substr(\"key\", 1, 6) = 'daily/' AND status = 'ACTIVE'",
    )
    _index("memories_preference", "memories", "owner, project_id", where="kind = 'PREFERENCE'")
    _index("memories_quarantined", "memories", "owner, project_id, create_time DESC", where="status = 'QUARANTINED'")
    _index(
        "memories_read_often",
        "memories",
        "access_count, row, owner, project_id",
        where=f"{_MAINTAINED} AND layer = 'SHORT_TERM'",
    )
    _index("memories_session", "memories", "owner, project_id, session_id")
    _index("memories_short_term", "memories", "owner, project_id, update_time", where="layer = 'SHORT_TERM'")
    _index("memories_superseded", "memories", "superseded_by_id", where="superseded_by_id != ''")
    _index(
        "memories_unread",
        "memories",
        "access_time, create_time, row, owner, project_id",
        where=f"{_MAINTAINED} AND layer = 'LONG_TERM'",
    )
    _index("memories_update_time", "memories", "owner, project_id, update_time DESC")
    _index(
        "memories_useful",
        "memories",
        "owner, importance, access_count, row",
        where=f"{_MAINTAINED} AND layer = 'LONG_TERM'",
    )
    _index("unique_memory_content", "memories", "owner, project_id, content_hash, kind", where="is_unique = 1")
    _index("unique_memory_id", "memories", "id")
    _index(
        "unique_memory_key",
        "memories",
        "owner, project_id, key",
        where="\"key\" != '' AND status != 'DELETED' AND status != 'QUARANTINED'",
    )


def _memory_terms() -> None:
    _table("memory_tags", "owner text, term text, row number", key="owner, term, row", with_rowid=False)
    _table("memory_metadata", "owner text, term text, row number", key="owner, term, row", with_rowid=False)
    _table(
        "memory_keywords", "owner text, term text, row number, weight double", key="owner, term, row", with_rowid=False
    )
    _table("memory_refs", "owner text, term text, row number", key="owner, term, row", with_rowid=False)
    _table(
        "memory_chunks", "entry number, start_line integer, end_line integer, heading_path text, text text", key="entry"
    )
    _table("memory_vectors", "row number, model text, vector bytes", key="row")


def _changes() -> None:
    _table("revisions", "row number, revision integer, action text, time number, snapshot text?", key="row, revision")
    _table(
        "outbox",
        "position number, row number, revision integer, time number, applied small, action text, memory_id text, "
        "owner text, project_id text, private_session text",
        key="position",
    )
    _index("outbox_pending", "outbox", "position", where="applied = 0")
    _index("outbox_reach", "outbox", "owner, project_id, position")
    _table("counters", "one integer, last_row number, last_position number, store_id text", key="one")
    counters = sa.table("counters", *(sa.column(name) for name in ("one", "last_row", "last_position", "store_id")))
    op.bulk_insert(counters, [{"one": 1, "last_row": 0, "last_position": 0, "store_id": uuid.uuid4().hex}])
    _table("embeddings", "model text, digest bytes, vector bytes", key="model, digest")
    _table(
        "requests",
        "owner text, method text, request_id text, time number, digest text, answer text",
        key="owner, method, request_id",
    )
    _index("requests_time", "requests", "time")


def _conflicts_and_history() -> None:
    _table(
        "statements",
        "owner text, project_id text, topic text, row number, rule text, parts text, positive small",
        key="owner, project_id, topic, row",
        with_rowid=False,
    )
    _index("statements_row", "statements", "row")
    _table(
        "conflicts",
        "owner text, project_id text, id text, older_id text, newer_id text, state text, rule text, topic text, "
        "older_value text, newer_value text, create_time number, resolve_time number?",
        key="owner, project_id, id",
        with_rowid=False,
    )
    _index("conflicts_newer", "conflicts", "newer_id")
    _index("conflicts_older", "conflicts", "older_id")
    _index("conflicts_open", "conflicts", "owner, project_id, id", where="state = 'OPEN'")
    _table(
        "checkpoints",
        "owner text, project_id text, name text, known_time number, create_time number, note text",
        key="owner, project_id, name",
    )
    _index("checkpoints_create_time", "checkpoints", "owner, project_id, create_time DESC, name")
    _table(
        "tombstones",
        "row number, owner text, project_id text, memory_id text, session_id text, create_time number, time number",
        key="row",
    )
    _index("tombstones_memory", "tombstones", "memory_id")
    _index("tombstones_owner", "tombstones", "owner, project_id")
    _table(
        "erasures",
        "owner_digest text, owner text, request_id text, begin_time number, end_time number?, projects text, "
        "receipt text",
        key="owner_digest",
    )
    _index("erasures_end", "erasures", "end_time")


def _sessions() -> None:
    _table(
        "sessions",
        "row number, token_limit number, last_ordinal number, trim_count number, create_time number, "
        "update_time number, last_message_time number?, end_time number?, trim_time number?, state text, "
        "auto_trim text, owner text, project_id text, id text, agent_id text, title text, metadata text, "
        "flushed_ordinal number",
        key="row",
    )
    _index("sessions_row", "sessions", "owner, project_id, row")
    _index("sessions_state", "sessions", "owner, project_id, state, row")
    _index("unique_session_id", "sessions", "owner, project_id, id")
    _table(
        "messages",
        "row number, session_row number, ordinal number, token_count number, is_pinned small, has_content small, "
        "state text, role text, tool_call_id text, summary_id text, tool_calls text",
        key="row",
    )
    _index("messages_live", "messages", "session_row, ordinal, token_count", where="state = 'ACTIVE'")
    _index("messages_state", "messages", "session_row, state, token_count")
    _index("unique_message_ordinal", "messages", "session_row, ordinal")


def _work() -> None:
    _table(
        "reminders",
        "owner text, project_id text, day integer, row number",
        key="owner, project_id, day, row",
        with_rowid=False,
    )
    _table("reminders_given", "row number, day integer, slot text, time number", key="row, day, slot", with_rowid=False)
    _table("leases", "name text, holder text, until number, last_end number?", key="name")
    _table(
        "api_keys",
        "id text, name text, role text, tenant_id text, user_ids text, project_ids text, digest text, "
        "create_time number, expire_time number?, revoke_time number?, calls_per_second double, "
        "concurrent_calls number",
        key="id",
    )


def _files_and_vault() -> None:
    _table(
        "files",
        "row number, size_bytes number, create_time number, expire_time number?, has_content small, owner text, "
        "project_id text, agent_id text, session_id text, id text, category text, name text, media_type text, "
        "sha256 text, metadata text, searched text",
        key="row",
    )
    _index("files_category", "files", "owner, project_id, category, row")
    _index("files_expiring", "files", "expire_time, row", where="expire_time IS NOT NULL")
    _index("files_owner", "files", "owner, row")
    _index("files_row", "files", "owner, project_id, row")
    _index("files_sha256", "files", "sha256, owner, has_content")
    _index("unique_file_id", "files", "id")
    _table(
        "file_terms",
        "owner text, project_id text, term text, row number, weight double",
        key="owner, project_id, term, row",
        with_rowid=False,
    )
    _table(
        "vault_files",
        "path_key text, path text, owner text, project_id text, memory_id text, session_id text, digest text, "
        "revision number, anchor text",
        key="path_key",
    )
    _index("unique_vault_memory", "vault_files", "memory_id", where="memory_id != ''")
    _index("unique_vault_session", "vault_files", "owner, project_id, session_id", where="session_id != ''")
    _index("vault_files_owner", "vault_files", "owner, digest")
    _table("vault_state", "one integer, vault_id text, position number", key="one")
