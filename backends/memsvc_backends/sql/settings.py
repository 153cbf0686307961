"""Settings of the SQL store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from memsvc.ports.plugin import BackendSettings
from memsvc_backends.postgres_common.connection_options import is_database_url


class Durability(StrEnum):
    """Durability of a commit: the failures that it survives."""

    FULL = "full"
    """The loss of power: every commit waits for the disk."""
    NORMAL = "normal"
    """The death of the process: the last commits before a loss of power may be gone, the file stays whole."""


LEAST_SHARED_READERS = 4
"""A claim of changes, a rebuild that pauses claims, and what they read take three at once."""


class SqlSettings(BackendSettings):
    """The options of the backend `sql`."""

    # An address holds a password, and an error of this model must not show it.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: SecretStr | None = None
    """A PostgreSQL database, postgresql://USER:PASSWORD@HOST:PORT/DATABASE; by default an SQLite file is used.

    Several processes may share it. It needs the extra `postgres`. The tables are made in the first schema of the
    user's search path.
    """

    path: Path | None = None
    """The SQLite file; by default memsvc.db in the backend's folder of the data directory."""

    durability: Durability = Durability.FULL
    """What a commit survives."""

    wait_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """How long a call waits for a lock or a connection before it is refused as unavailable."""

    statement_seconds: float = Field(default=120.0, ge=0, le=86_400)
    """How long a statement on PostgreSQL may take before its connection is given up; 0: no limit."""

    rewrite_bytes: int = Field(default=128 * 1024 * 1024, ge=0)
    """Largest size of all tables on PostgreSQL, with their indexes, that an erasure rewrites by VACUUM FULL; 0: never.

    Reads and writes of a table wait while it is rewritten.
    """

    readers: int = Field(default=8, ge=1, le=64)
    """How many reads may run side by side, each on a connection; one more writes. With *url* at least 4."""

    cache_bytes: int = Field(default=2_000_000, ge=100_000)
    """SQLite's page cache of one connection; there is one for writing and up to *readers* for reading."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not is_database_url(url.get_secret_value()):
            message = "must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            raise ValueError(message)
        return url

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.url is not None and self.path is not None:
            message = "set either url (PostgreSQL) or path (SQLite), not both"
            raise ValueError(message)
        if self.url is not None and self.readers < LEAST_SHARED_READERS:
            message = f"readers must be at least {LEAST_SHARED_READERS} with url: the indexer holds up to three"
            raise ValueError(message)
        return self
