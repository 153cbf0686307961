"""The current tables. A test checks that the migrations create the same ones.

Times are microseconds since the epoch, lists and objects are JSON text, and the small columns that filters test
come first, so that reading them does not touch the pages a long content spills over.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""A whole number of 64 bits. SQLite makes a key of its own row numbers only of what is called INTEGER."""

EMPTY: sa.ColumnElement[str] = sa.literal_column("''")
DELETED: sa.ColumnElement[str] = sa.literal_column("'DELETED'")
EXPIRED: sa.ColumnElement[str] = sa.literal_column("'EXPIRED'")
QUARANTINED: sa.ColumnElement[str] = sa.literal_column("'QUARANTINED'")
ZERO: sa.ColumnElement[int] = sa.literal_column("0")
ONE: sa.ColumnElement[int] = sa.literal_column("1")
# Literals, not parameters: an index with a condition is used only when the query is seen to imply the condition.

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("chunk_count", sa.Integer, nullable=False),
    sa.Column("content_bytes", Number, nullable=False),
    sa.Column("fingerprint", Number, nullable=False),
    sa.Column("previous_row", Number),
    sa.Column("importance", sa.Integer, nullable=False),
    sa.Column("access_count", Number, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("update_time", Number, nullable=False),
    sa.Column("access_time", Number),
    sa.Column("event_time", Number),
    sa.Column("expire_time", Number),
    sa.Column("valid_from", Number),
    sa.Column("valid_to", Number),
    sa.Column("confidence", sa.Double, nullable=False),
    sa.Column("trust", sa.Double, nullable=False),
    sa.Column("work_in_progress", sa.SmallInteger, nullable=False),
    sa.Column("is_unique", sa.SmallInteger, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("layer", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("tier", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("review", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("speaker", sa.Text, nullable=False),
    sa.Column("category", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("supersedes_id", sa.Text, nullable=False),
    sa.Column("superseded_by_id", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("keywords", sa.Text, nullable=False),
    sa.Column("related_ids", sa.Text, nullable=False),
    sa.Column("derived_from_ids", sa.Text, nullable=False),
    sa.Column("file_refs", sa.Text, nullable=False),
    sa.Column("reminder", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    # What `memsvc.text.ranking_cues.pack_cues` makes of the content. Last, as a migration adds it.
    sa.Column("cues", Number, nullable=False, server_default=sa.text("0")),
)

IS_LIVE = memories.c.status != DELETED
IS_INDEXED = sa.and_(memories.c.status != DELETED, memories.c.status != EXPIRED)
IS_NAMED = sa.and_(memories.c.key != EMPTY, memories.c.status != DELETED, memories.c.status != QUARANTINED)
IS_FORMER_HOLDER = sa.and_(
    memories.c.key != EMPTY, sa.or_(memories.c.status == DELETED, memories.c.status == QUARANTINED)
)
IS_QUARANTINED = memories.c.status == QUARANTINED
IS_DELETED = memories.c.status == sa.literal_column("'DELETED'")
IS_UNIQUE = memories.c.is_unique == ONE
IS_FORGOTTEN = sa.and_(
    memories.c.status == sa.literal_column("'DELETED'"), memories.c.kind != sa.literal_column("'MESSAGE'")
)
IS_SUPERSEDED = memories.c.superseded_by_id != EMPTY
IS_SUMMARY = memories.c.kind == sa.literal_column("'SUMMARY'")
IS_CORE = sa.or_(memories.c.layer == sa.literal_column("'CORE'"), memories.c.tier == sa.literal_column("'CORE'"))
IS_ACTIVE_TIER = memories.c.tier == sa.literal_column("'ACTIVE'")
IS_PREFERENCE = memories.c.kind == sa.literal_column("'PREFERENCE'")
IS_LOG = sa.and_(
    sa.func.substr(memories.c.key, sa.literal_column("1"), sa.literal_column("6")) == sa.literal_column("'daily/'"),
    memories.c.status == sa.literal_column("'ACTIVE'"),
)
IS_SHORT_TERM = memories.c.layer == sa.literal_column("'SHORT_TERM'")
_IS_NO_CORE = sa.and_(
    memories.c.tier != sa.literal_column("'CORE'"),
    memories.c.layer != sa.literal_column("'CORE'"),
)
_IS_KEPT_UP = sa.and_(memories.c.status == sa.literal_column("'ACTIVE'"), _IS_NO_CORE)
IS_EXPIRING = sa.and_(
    sa.or_(memories.c.status == sa.literal_column("'ACTIVE'"), memories.c.status == sa.literal_column("'CONFLICTED'")),
    _IS_NO_CORE,
    memories.c.expire_time.is_not(None),
)
IS_PROMOTABLE = sa.and_(_IS_KEPT_UP, IS_SHORT_TERM)
IS_ARCHIVABLE = sa.and_(_IS_KEPT_UP, memories.c.layer == sa.literal_column("'LONG_TERM'"))
ACTIVE: sa.ColumnElement[str] = sa.literal_column("'ACTIVE'")


def _memory_index(name: str, *columns: sa.ColumnElement[object], unique: bool = False) -> sa.Index:
    return sa.Index(name, memories.c.owner, memories.c.project_id, *columns, unique=unique)


def _conditional(name: str, condition: sa.ColumnElement[bool], *columns: sa.ColumnElement[object]) -> sa.Index:
    """An index of the rows that meet *condition* only: unique keys and contents, in SQLite as in PostgreSQL."""
    unique = name.startswith("unique_")
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


_c = memories.c
sa.Index("unique_memory_id", _c.id, unique=True)
_conditional("unique_memory_key", IS_NAMED, _c.owner, _c.project_id, _c.key)
_conditional("memories_former_key", IS_FORMER_HOLDER, _c.owner, _c.project_id, _c.key)
_conditional("unique_memory_content", IS_UNIQUE, _c.owner, _c.project_id, _c.content_hash, _c.kind, _c.speaker)
_conditional("memories_forgotten", IS_FORGOTTEN, _c.owner, _c.content_hash, _c.update_time)
_conditional("memories_indexed", IS_INDEXED, _c.row, _c.fingerprint, _c.chunk_count)
_conditional("memories_superseded", IS_SUPERSEDED, _c.superseded_by_id)
_conditional("memories_summaries", IS_SUMMARY, _c.owner)
_conditional("memories_quarantined", IS_QUARANTINED, _c.owner, _c.project_id, _c.create_time.desc())
# What is loaded at a start is a handful of many: writing the others costs these indexes nothing.
_conditional("memories_core", IS_CORE, _c.owner, _c.project_id)
_conditional("memories_active_tier", IS_ACTIVE_TIER, _c.owner, _c.project_id)
_conditional("memories_preference", IS_PREFERENCE, _c.owner, _c.project_id)
_conditional("memories_short_term", IS_SHORT_TERM, _c.owner, _c.project_id, _c.update_time)
_conditional("memories_logs", IS_LOG, _c.key, _c.owner, _c.project_id)
# What upkeep looks for, each list in its order; owner and project so that those of others are passed over in the index.
_conditional("memories_expiring", IS_EXPIRING, _c.expire_time, _c.row, _c.owner, _c.project_id)
_conditional("memories_deleted", IS_DELETED, _c.update_time, _c.row, _c.owner, _c.project_id)
_conditional("memories_read_often", IS_PROMOTABLE, _c.access_count, _c.row, _c.owner, _c.project_id)
_conditional(
    "memories_unread", IS_ARCHIVABLE, _c.importance, _c.access_time, _c.create_time, _c.row, _c.owner, _c.project_id
)
_conditional("memories_useful", IS_ARCHIVABLE, _c.owner, _c.importance, _c.access_count, _c.row)
# SQLite ends every index with the row number, ascending: so lists are ordered without sorting.
_memory_index("memories_session", _c.session_id)
# Of each scope what it holds: scopes, users and agents are listed, and counted by status, without reading memories.
_memory_index("memories_scope", _c.agent_id, _c.session_id, _c.status, _c.update_time)
_memory_index("memories_create_time", _c.create_time.desc())
_memory_index("memories_update_time", _c.update_time.desc())
_memory_index("memories_access_time", _c.access_time.desc())
_memory_index("memories_event_time", _c.event_time.desc())
_memory_index("memories_importance", _c.importance.desc())
_memory_index("memories_access_count", _c.access_count.desc())


def _terms_table(name: str, *payload: sa.Column[float]) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("term", sa.Text, primary_key=True),
        sa.Column("row", Number, primary_key=True, autoincrement=False),
        *payload,
        sqlite_with_rowid=False,
    )


memory_tags = _terms_table("memory_tags")
memory_metadata = _terms_table("memory_metadata")
memory_keywords = _terms_table("memory_keywords", sa.Column("weight", sa.Double, nullable=False))
# What memories of any status refer to: a term is the category, a colon and the id of the file.
memory_refs = _terms_table("memory_refs")

memory_chunks = sa.Table(
    "memory_chunks",
    metadata,
    # Row and ordinal in one number, as `memsvc.domain.index_entries.entry_id` makes it: chunks are asked for by a list.
    sa.Column("entry", Number, primary_key=True, autoincrement=False),
    sa.Column("start_line", sa.Integer, nullable=False),
    sa.Column("end_line", sa.Integer, nullable=False),
    sa.Column("heading_path", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

passage_tokens = sa.Table(
    "passage_tokens",
    metadata,
    # As in `memory_chunks`, of the only passage of a memory too.
    sa.Column("entry", Number, primary_key=True, autoincrement=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.LargeBinary, nullable=False),
)

memory_vectors = sa.Table(
    "memory_vectors",
    metadata,
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)

revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("time", Number, nullable=False),
    # None while the revision is the current one, which the memory itself holds.
    sa.Column("snapshot", sa.Text),
)

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("position", Number, primary_key=True, autoincrement=False),
    sa.Column("row", Number, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("time", Number, nullable=False),
    sa.Column("applied", sa.SmallInteger, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("memory_id", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    # The session that alone may know of the change, when the memory was private to it before and after.
    sa.Column("private_session", sa.Text, nullable=False),
)
IS_PENDING = outbox.c.applied == ZERO
_conditional("outbox_pending", IS_PENDING, outbox.c.position)
sa.Index("outbox_reach", outbox.c.owner, outbox.c.project_id, outbox.c.position)

counters = sa.Table(
    "counters",
    metadata,
    # One row. Numbers grow, and none comes twice after a trim. On SQLite they follow the order of commits without gaps.
    # On PostgreSQL they are taken ahead of the commit, and follow the order of commits of one owner.
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("last_row", Number, nullable=False),
    sa.Column("last_position", Number, nullable=False),
    # A name that no other store has, so that a place in its changes is not taken for one of another's.
    sa.Column("store_id", sa.Text, nullable=False),
    # The last position that was trimmed. Last, as a migration adds it.
    sa.Column("trimmed_position", Number, nullable=False, server_default=sa.text("0")),
)

embeddings = sa.Table(
    "embeddings",
    metadata,
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("method", sa.Text, primary_key=True),
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("time", Number, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
)
sa.Index("requests_time", requests.c.time)

statements = sa.Table(
    "statements",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("parts", sa.Text, nullable=False),
    sa.Column("positive", sa.SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)
sa.Index("statements_row", statements.c.row)

conflicts = sa.Table(
    "conflicts",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("older_id", sa.Text, nullable=False),
    sa.Column("newer_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("topic", sa.Text, nullable=False),
    sa.Column("older_value", sa.Text, nullable=False),
    sa.Column("newer_value", sa.Text, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("resolve_time", Number),
    sqlite_with_rowid=False,
)
IS_OPEN = conflicts.c.state == sa.literal_column("'OPEN'")
_conditional("conflicts_open", IS_OPEN, conflicts.c.owner, conflicts.c.project_id, conflicts.c.id)
sa.Index("conflicts_older", conflicts.c.older_id)
sa.Index("conflicts_newer", conflicts.c.newer_id)
sessions = sa.Table(
    "sessions",
    metadata,
    # From the same counter as the rows of memories.
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("token_limit", Number, nullable=False),
    sa.Column("last_ordinal", Number, nullable=False),
    sa.Column("trim_count", Number, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("update_time", Number, nullable=False),
    sa.Column("last_message_time", Number),
    sa.Column("end_time", Number),
    sa.Column("trim_time", Number),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("auto_trim", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("flushed_ordinal", Number, nullable=False),
)
_s = sessions.c
sa.Index("unique_session_id", _s.owner, _s.project_id, _s.id, unique=True)
sa.Index("sessions_row", _s.owner, _s.project_id, _s.row)
sa.Index("sessions_state", _s.owner, _s.project_id, _s.state, _s.row)

messages = sa.Table(
    "messages",
    metadata,
    # The row of the memory that holds the content.
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("session_row", Number, nullable=False),
    sa.Column("ordinal", Number, nullable=False),
    sa.Column("token_count", Number, nullable=False),
    sa.Column("is_pinned", sa.SmallInteger, nullable=False),
    sa.Column("has_content", sa.SmallInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("tool_call_id", sa.Text, nullable=False),
    sa.Column("summary_id", sa.Text, nullable=False),
    sa.Column("tool_calls", sa.Text, nullable=False),
    # The ids of the memories that were extracted from it, each with the hash of the content that it says.
    sa.Column("extracted", sa.Text, nullable=False, server_default=sa.text("'[]'")),
)
IS_LIVE_MESSAGE = messages.c.state == ACTIVE
IS_SUMMARISED = messages.c.summary_id != EMPTY
sa.Index("unique_message_ordinal", messages.c.session_row, messages.c.ordinal, unique=True)
sa.Index("messages_state", messages.c.session_row, messages.c.state, messages.c.token_count)
_conditional("messages_summarised", IS_SUMMARISED, messages.c.summary_id, messages.c.ordinal)
_conditional("messages_live", IS_LIVE_MESSAGE, messages.c.session_row, messages.c.ordinal, messages.c.token_count)
checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("known_time", Number, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)
sa.Index(
    "checkpoints_create_time", checkpoints.c.owner, checkpoints.c.project_id, checkpoints.c.create_time.desc(),
    checkpoints.c.name,
)  # fmt: skip

tombstones = sa.Table(
    "tombstones",
    metadata,
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("memory_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("create_time", Number, nullable=False),
    sa.Column("time", Number, nullable=False),
)
sa.Index("tombstones_owner", tombstones.c.owner, tombstones.c.project_id)

reminders = sa.Table(
    "reminders",
    metadata,
    # Of ACTIVE memories only. The day is what `memsvc.domain.reminders.day_number` makes of it.
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

reminders_given = sa.Table(
    "reminders_given",
    metadata,
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    # Days as numbers, YYYYMMDD.
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.Text, primary_key=True),
    sa.Column("time", Number, nullable=False),
    sqlite_with_rowid=False,
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    # End of the lease; 0 when it was released.
    sa.Column("until", Number, nullable=False),
    sa.Column("last_end", Number),
)

sa.Index("tombstones_memory", tombstones.c.memory_id)

erasures = sa.Table(
    "erasures",
    metadata,
    # By a digest: of an owner whose erasure has ended nothing else is kept, and that only for a day.
    sa.Column("owner_digest", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("begin_time", Number, nullable=False),
    sa.Column("end_time", Number),
    sa.Column("projects", sa.Text, nullable=False),
    sa.Column("receipt", sa.Text, nullable=False),
)
sa.Index("erasures_end", erasures.c.end_time)


# The tables of files.


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
    # What `memsvc.domain.files.search_text_of` makes of it.
    sa.Column("searched", sa.Text, nullable=False),
    # Of its text; a migration added them. The time of the next extraction, if it is pending and the content is here.
    sa.Column("text_state", sa.Text, nullable=False, server_default=sa.text("'PENDING'")),
    sa.Column("text_reason", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("text_chars", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("text_bytes", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("text_passages", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("text_truncated", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("text_attempts", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("text_time", Number),
)
_f = files.c
TEXT_IS_WAITING = _f.text_time.is_not(None)
FILE_BYTES: sa.ColumnElement[int] = _f.size_bytes + _f.text_bytes
"""The size of a file and of its text, which quotas count."""
HAS_CONTENT = _f.has_content == ONE
IS_PASSING = _f.expire_time.is_not(None)
sa.Index("unique_file_id", _f.id, unique=True)
sa.Index("files_row", _f.owner, _f.project_id, _f.row)
sa.Index("files_owner", _f.owner, _f.row)
sa.Index("files_category", _f.owner, _f.project_id, _f.category, _f.row)
sa.Index("files_sha256", _f.sha256, _f.owner, _f.has_content)
sa.Index("files_expiring", _f.expire_time, _f.row, sqlite_where=IS_PASSING, postgresql_where=IS_PASSING)
sa.Index("files_text_waiting", _f.text_time, _f.row, sqlite_where=TEXT_IS_WAITING, postgresql_where=TEXT_IS_WAITING)

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

file_passages = sa.Table(
    "file_passages",
    metadata,
    # The row of the file.
    sa.Column("file", Number, primary_key=True, autoincrement=False),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("start_line", sa.Integer, nullable=False),
    sa.Column("end_line", sa.Integer, nullable=False),
    sa.Column("page", sa.Integer, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("section", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)
sa.Index("file_passages_owner", file_passages.c.owner, file_passages.c.file)

file_words = sa.Table(
    "file_words",
    metadata,
    # The words of passages: a row for each word of a file, not of a passage, which takes a tenth of the rows.
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, primary_key=True),
    sa.Column("term", sa.Text, primary_key=True),
    sa.Column("file", Number, primary_key=True, autoincrement=False),
    # See `memsvc_backends.sql.file_texts`.
    sa.Column("postings", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
sa.Index("file_words_file", file_words.c.file)


# The table of API keys. Ids ascend in the order of creation, so that the primary key lists them in it.


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


# Quotas, and the amounts that tenants and keys have stored.


quotas = sa.Table(
    "quotas",
    metadata,
    # "TENANT" or "KEY", and the tenant or the id of the key.
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    # 0: no limit.
    sa.Column("calls_per_second", sa.Double, nullable=False),
    sa.Column("memories", Number, nullable=False),
    sa.Column("content_bytes", Number, nullable=False),
    sa.Column("file_bytes", Number, nullable=False),
    sa.Column("update_time", Number, nullable=False),
)

stored_amounts = sa.Table(
    "stored_amounts",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    # Transactions of different users of a tenant add to different rows, so that they do not wait for each other. Only
    # the sums over the shards mean anything.
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("memories", Number, nullable=False),
    sa.Column("content_bytes", Number, nullable=False),
    sa.Column("file_bytes", Number, nullable=False),
)

call_rates = sa.Table(
    "call_rates",
    metadata,
    # The SHA-256 digest of "key/" or "tenant/" and the id, in hexadecimal.
    sa.Column("caller", sa.Text, primary_key=True),
    # The time of the next call, if all that were taken are evenly spread. Times in microseconds.
    sa.Column("due", sa.Double, nullable=False),
    # When calls were taken last, and how many.
    sa.Column("time", Number, nullable=False),
    sa.Column("taken", Number, nullable=False),
    sa.Index("call_rates_time", "time"),
)

webhook_cursors = sa.Table(
    "webhook_cursors",
    metadata,
    sa.Column("endpoint", sa.Text, primary_key=True),
    # Changes up to it are in the queue, or were not meant for the endpoint.
    sa.Column("position", Number, nullable=False),
    # Since then nothing is sent, because the endpoint answered 410 Gone.
    sa.Column("gone_time", Number),
)

webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    # Changes to send, and those that were given up. They hold no content: it is read when it is sent.
    sa.Column("endpoint", sa.Text, primary_key=True),
    sa.Column("position", Number, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("row", Number, nullable=False),
    sa.Column("memory_id", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("time", Number, nullable=False),
    # Attempts, the time of the first one, and the time of the next one; 0: at once.
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("first_time", Number, nullable=False),
    sa.Column("next_time", Number, nullable=False),
    # 1: a dead letter. The status and the error are those of the last attempt.
    sa.Column("is_dead", sa.SmallInteger, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)
sa.Index(
    "webhook_deliveries_owner",
    *(webhook_deliveries.c[name] for name in ("endpoint", "is_dead", "owner", "position")),
)


# Reports of use. The tables name their owner, so that an erasure finds their rows.


use_calls = sa.Table(
    "use_calls",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    # From the same counter as the rows of memories.
    sa.Column("call", Number, primary_key=True, autoincrement=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("time", Number, nullable=False),
    sa.Column("query", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

use_reports = sa.Table(
    "use_reports",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("call", Number, primary_key=True, autoincrement=False),
    # The row of the memory.
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("revision", Number, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
IS_WRONG = use_reports.c.outcome == sa.literal_column("'WRONG'")
sa.Index("use_reports_memory", use_reports.c.owner, use_reports.c.row, use_reports.c.call)
# What is listed for a review: few of many.
_conditional("use_reports_wrong", IS_WRONG, use_reports.c.owner, use_reports.c.call, use_reports.c.row)

use_counts = sa.Table(
    "use_counts",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("row", Number, primary_key=True, autoincrement=False),
    sa.Column("used", Number, nullable=False),
    sa.Column("ignored", Number, nullable=False),
    sa.Column("wrong", Number, nullable=False),
    sqlite_with_rowid=False,
)

use_feedback = sa.Table(
    "use_feedback",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("used", Number, nullable=False),
    sa.Column("ignored", Number, nullable=False),
    sa.Column("wrong", Number, nullable=False),
    sa.Column("calls", Number, nullable=False),
    # Reports since the last replay; is_due: they are enough for another one.
    sa.Column("pending", Number, nullable=False),
    sa.Column("is_due", sa.SmallInteger, nullable=False),
    # The last replay.
    sa.Column("replay_time", Number),
    sa.Column("replay_calls", Number, nullable=False),
    sa.Column("tested", Number, nullable=False),
    sa.Column("mrr_without", sa.Double, nullable=False),
    sa.Column("mrr_with", sa.Double, nullable=False),
    sa.Column("ndcg_without", sa.Double, nullable=False),
    sa.Column("ndcg_with", sa.Double, nullable=False),
    sa.Column("standard_error", sa.Double, nullable=False),
)
IS_DUE_FOR_REPLAY = use_feedback.c.is_due == ONE
_conditional("use_feedback_due", IS_DUE_FOR_REPLAY, use_feedback.c.owner)


# The tables of the vault; they belong to those of `memsvc_backends.sql.tables`.


__all__ = ["metadata", "vault_copies", "vault_files", "vault_state"]

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

vault_copies = sa.Table(
    "vault_copies",
    metadata,
    sa.Column("path_key", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project_id", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("memory_id", sa.Text, nullable=False),
)
sa.Index("vault_copies_owner", vault_copies.c.owner)

vault_state = sa.Table(
    "vault_state",
    metadata,
    # One row, when there is a vault.
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("vault_id", sa.Text, nullable=False),
    sa.Column("position", Number, nullable=False),
)
