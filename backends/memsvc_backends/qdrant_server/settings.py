"""The options of the two indexes over a Qdrant server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr, field_validator

from memsvc.ports.plugin import BackendSettings

GRPC_PORT = 6334
REST_PORT = 6333


class Quantization(StrEnum):
    """Number of bits of a vector's numbers in memory; hits are scored again by the whole vectors."""

    NONE = "none"
    """All 32."""
    INT8 = "int8"
    """Eight: a quarter of the memory."""
    BINARY = "binary"
    """One: for models of 1 000 dimensions and more alone."""


class QdrantServerSettings(BackendSettings):
    """Options of the Qdrant server backends. Both indexes may use one server: each has its own collections."""

    url: str = f"http://127.0.0.1:{GRPC_PORT}"
    """Where the server listens for gRPC: http://HOST:PORT, https:// with TLS; without a port 6334 is asked."""
    api_key: SecretStr | None = None
    """The server's key."""
    ca_file: Path | None = None
    """Certificates (PEM) that the server's is checked against; by default those that the machine trusts."""
    cert_file: Path | None = None
    """Our own certificate (PEM), where the server asks for one."""
    key_file: Path | None = None
    """The key of our own certificate (PEM)."""
    prefix: str = Field(
        default="memsvc",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        json_schema_extra={"form": "must be 1 to 64 letters, digits, '_' and '-'"},
    )
    """What the names of our collections begin with. Installations that share a server take one each."""
    timeout_seconds: float = Field(default=5.0, gt=0)
    """How long a read may take; a search never takes longer than its caller's deadline."""
    write_timeout_seconds: float = Field(default=60.0, gt=0)
    """How long a write, or making a collection, may take."""
    attempts: int = Field(default=3, ge=1, le=10)
    """How often a call is tried while the server cannot be reached or is too busy; each of them can be repeated."""
    backoff_seconds: float = Field(default=0.05, ge=0)
    """How long to wait before the second attempt; twice as long before each further one."""
    connections: int = Field(default=3, ge=1, le=64)
    """Connections that calls are spread over."""
    refresh_seconds: float = Field(default=1.0, ge=0)
    """How late a switch of generations that another process made may be noticed."""
    linger_seconds: float = Field(default=10.0, ge=0)
    """How long a generation is kept after the switch to the next, for processes that have not noticed."""
    leftover_seconds: float = Field(default=600.0, gt=0)
    """After so long without a write an unfinished generation is taken to be that of a dead process, and removed."""
    batch_points: int = Field(default=256, ge=1, le=10_000)
    """Points sent at a time."""
    shards: int | None = Field(default=None, ge=1)
    """Shards of a new collection; by default one for each node of the cluster."""
    replicas: int = Field(default=1, ge=1)
    """Nodes that hold each shard of a new collection."""
    write_consistency: int = Field(default=1, ge=1)
    """Nodes that must have a write before it counts as done."""
    on_disk: bool = False
    """Whether the whole vectors are left on disk; their quantised ones stay in memory."""
    quantization: Quantization = Quantization.INT8
    """How vectors are kept in memory."""
    graph_links: int = Field(default=16, ge=0, le=128)
    """Links of each node of a tenant's graph (HNSW's m, Qdrant's payload_m). 0: no graphs, all scans are exact."""
    graph_build_width: int = Field(default=100, ge=4, le=1000)
    """Candidates kept while a graph is built (ef_construct)."""
    graph_search_width: int = Field(default=128, ge=4, le=4096)
    """Candidates kept while a graph is searched (ef); larger misses fewer and takes longer."""
    full_scan_kilobytes: int = Field(default=10_000, ge=10)
    """What a filter leaves is scanned, and not looked for by a graph, when its vectors take less than this."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
            message = f"{url!r} is no address of a server; give http://HOST:{GRPC_PORT} or https://HOST:{GRPC_PORT}"
            raise ValueError(message)
        if parts.port == REST_PORT:
            message = f"port {REST_PORT} is Qdrant's for REST; give the one for gRPC, which is {GRPC_PORT} by default"
            raise ValueError(message)
        return url

    @property
    def address(self) -> SplitResult:
        """Return the parts of the address."""
        return urlsplit(self.url)


class QdrantSparseSettings(QdrantServerSettings):
    """Options of `memsvc_backends.qdrant_server:SPARSE`."""

    average_terms: float = Field(default=40.0, gt=0)
    """The length that entries are taken to have on average in the first generation; later ones know better."""
