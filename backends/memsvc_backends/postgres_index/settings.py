"""Settings of the indexes on PostgreSQL."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from memsvc.ports.plugin import BackendSettings
from memsvc_backends.postgres_common.connection_options import is_database_url


class PostgresSettings(BackendSettings):
    """Settings that both indexes share."""

    # An address holds a password, and an error of this model must not show it.
    model_config = ConfigDict(hide_input_in_errors=True, use_attribute_docstrings=True)

    from_metadata: ClassVar[tuple[str, ...]] = ("url",)

    url: SecretStr | None = None
    """A PostgreSQL database, postgresql://USER:PASSWORD@HOST:PORT/DATABASE; by default that of the metadata store.

    The tables are made in the first schema of the user's search path. Several processes may share them.
    """

    connections: int = Field(default=8, ge=1, le=64)
    """How many searches and changes may be under way at once; further ones wait for the first to end."""

    wait_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """How long a call waits for a lock or a connection before the index counts as unavailable."""

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        if self.url is None:
            message = (
                "the database is missing: set url to postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "or give the metadata store one (metadata.options.url)"
            )
            raise ValueError(message)
        if not is_database_url(self.url.get_secret_value()):
            message = "url must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            raise ValueError(message)
        return self

    @property
    def address(self) -> str:
        """Return the URL with its password."""
        return (self.url or SecretStr("")).get_secret_value()


class PgvectorSettings(PostgresSettings):
    """Options of the vector index `pgvector`."""

    graph_threshold: int = Field(default=10_000, ge=0)
    """Entries of one owner from which on a graph (HNSW) is worth building, and its searches take it; fewer are compared
    one by one. Before version 0.8 of the extension, which cannot look on when filters leave too little, all are."""
    graph_links: int = Field(default=16, ge=2, le=100)
    """Links of each node of a graph (m)."""
    graph_build_width: int = Field(default=64, ge=4, le=1000)
    """Candidates kept while a graph is built (ef_construction); at least twice *graph_links*."""
    graph_search_width: int = Field(default=128, ge=1, le=1000)
    """Candidates kept while a graph is searched (ef_search); larger misses fewer and takes longer."""
    build_memory_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Memory of the server that building a graph may take (maintenance_work_mem); beyond it is several times slower."""

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if self.graph_build_width < 2 * self.graph_links:
            message = "graph_build_width must be at least twice graph_links"
            raise ValueError(message)
        return self


class FulltextSettings(PostgresSettings):
    """Options of the lexical index `pg-fulltext`."""
