"""The first tables. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TERM_KEY = ("owner", "term", "row")


def upgrade() -> None:
    """Create everything in an empty database."""
    _memories()
    _memory_indexes()
    _beside_memories()
    _changes()
    _embeddings_and_requests()


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _Number, nullable=nullable, autoincrement=False)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.SmallInteger(), nullable=False)


def _integer(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, autoincrement=False)


def _memories() -> None:
    numbers = ("create_time", "update_time")
    absent = ("access_time", "event_time", "expire_time")
    texts = (
        "status", "layer", "kind", "tier", "owner", "project_id", "id", "session_id", "agent_id", "speaker",
        "category", "key", "content_hash", "supersedes_id", "superseded_by_id", "source", "title", "tags",
        "keywords", "related_ids", "file_refs", "metadata", "summary", "content",
    )  # fmt: skip
    op.create_table(
        "memories",
        _number("row"),
        _integer("revision"),
        _integer("chunk_count"),
        _number("content_bytes"),
        _number("fingerprint"),
        _number("previous_row", nullable=True),
        _integer("importance"),
        _number("access_count"),
        *(_number(name) for name in numbers),
        *(_number(name, nullable=True) for name in absent),
        sa.Column("confidence", sa.Double(), nullable=False),
        _small("work_in_progress"),
        _small("is_unique"),
        *(_text(name) for name in texts),
        sa.PrimaryKeyConstraint("row"),
    )


def _memory_indexes() -> None:
    place = ["owner", "project_id"]
    op.create_index("unique_memory_id", "memories", ["id"], unique=True)
    _conditional("unique_memory_key", "memories", [*place, "key"], "\"key\" != '' AND status != 'DELETED'")
    _conditional("unique_memory_content", "memories", [*place, "content_hash", "kind"], "is_unique = 1")
    _conditional("memories_live", "memories", ["row", "fingerprint", "chunk_count"], "status != 'DELETED'")
    op.create_index("memories_session", "memories", [*place, "session_id"])
    for name in ("create_time", "update_time", "access_time", "event_time", "importance", "access_count"):
        op.create_index(f"memories_{name}", "memories", [*place, sa.text(f"{name} DESC")])


def _conditional(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    is_unique = name.startswith("unique_")
    op.create_index(name, table, columns, unique=is_unique, sqlite_where=where, postgresql_where=where)


def _beside_memories() -> None:
    weight: sa.Column[float] = sa.Column("weight", sa.Double(), nullable=False)
    for name, payload in (("memory_tags", ()), ("memory_metadata", ()), ("memory_keywords", (weight,))):
        columns = (_text("owner"), _text("term"), _number("row"), *payload)
        op.create_table(name, *columns, sa.PrimaryKeyConstraint(*_TERM_KEY), sqlite_with_rowid=False)
    op.create_table(
        "memory_chunks",
        _number("entry"),
        _integer("start_line"),
        _integer("end_line"),
        _text("heading_path"),
        _text("text"),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_table(
        "memory_vectors",
        _number("row"),
        _text("model"),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("row"),
    )


def _changes() -> None:
    op.create_table(
        "revisions",
        _number("row"),
        _integer("revision"),
        _text("action"),
        _number("time"),
        sa.Column("snapshot", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("row", "revision"),
    )
    op.create_table(
        "outbox",
        _number("position"),
        _number("row"),
        _integer("revision"),
        _number("time"),
        _small("applied"),
        _text("action"),
        _text("memory_id"),
        sa.PrimaryKeyConstraint("position"),
    )
    _conditional("outbox_pending", "outbox", ["position"], "applied = 0")
    counters = op.create_table(
        "counters", _integer("one"), _number("last_row"), _number("last_position"), sa.PrimaryKeyConstraint("one")
    )
    op.bulk_insert(counters, [{"one": 1, "last_row": 0, "last_position": 0}])


def _embeddings_and_requests() -> None:
    op.create_table(
        "embeddings",
        _text("model"),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("model", "digest"),
    )
    op.create_table(
        "requests",
        _text("owner"),
        _text("method"),
        _text("request_id"),
        _number("time"),
        _text("digest"),
        _text("answer"),
        sa.PrimaryKeyConstraint("owner", "method", "request_id"),
    )
    op.create_index("requests_time", "requests", ["time"])
