"""The options of the two indexes over a Qdrant server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr, field_validator
from qdrant_client import models

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


class Consistency(StrEnum):
    """Replicas of a shard that must agree on the answer of a search."""

    MAJORITY = "majority"
    """More than half of them answer; the points that most of them have are returned."""
    QUORUM = "quorum"
    """More than half of them answer; the points that all of these have are returned."""
    ALL = "all"
    """All of them answer; the points that all have are returned."""


class WriteOrdering(StrEnum):
    """Order of concurrent writes of one point on several nodes."""

    WEAK = "weak"
    """None is guaranteed."""
    MEDIUM = "medium"
    """Through a leader that may change."""
    STRONG = "strong"
    """Through a leader that does not change: writes fail while it is down."""


class ReplicaReadOptions(BackendSettings):
    """Reads of a replicated collection."""

    consistency: Consistency | int | None = None
    """Replicas that must agree on a search: a number, or majority, quorum or all. By default one answers."""
    fan_out: int | None = Field(default=None, ge=0, le=64)
    """Further replicas that every search is sent to; the first answer counts. Hides slow nodes, costs their work."""

    @field_validator("consistency")
    @classmethod
    def _is_positive(cls, value: Consistency | int | None) -> Consistency | int | None:
        if isinstance(value, int) and value < 1:
            message = f"{value} is no number of replicas; give 1 or more, or majority, quorum or all"
            raise ValueError(message)
        return value

    @property
    def read_consistency(self) -> models.ReadConsistency | None:
        """Return the consistency as the client takes it."""
        chosen = self.consistency
        return models.ReadConsistencyType(chosen.value) if isinstance(chosen, Consistency) else chosen


class ReplicaWriteOptions(BackendSettings):
    """Writes to a replicated collection."""

    ordering: WriteOrdering | None = None
    """Order of concurrent writes. By default weak: a memory is written by one process at a time."""


class StorageOptions(BackendSettings):
    """Parts of a collection that are kept on disk, and are cached in memory as far as there is room."""

    graph_on_disk: bool = False
    """Whether the graphs are on disk."""
    quantized_on_disk: bool = False
    """Whether the quantised vectors are on disk (Qdrant's always_ram = false)."""
    sparse_on_disk: bool = False
    """Whether the postings of words are on disk."""
    payload_on_disk: bool = True
    """Whether payloads are on disk; indexed fields have their indexes besides."""
    payload_indexes_on_disk: bool = False
    """Whether the indexes of payload fields are on disk."""
    oversampling: float = Field(default=2.0, ge=1.0, le=16.0)
    """Candidates by quantised vectors, per hit, that are scored again by the whole vectors."""


class OptimizerOptions(BackendSettings):
    """Qdrant's optimizers, which merge segments and build graphs. By default the server's own values hold."""

    segments: int | None = Field(default=None, ge=1, le=128)
    """Segments of each shard; as many as cores favour short answers, few favour throughput."""
    max_segment_kilobytes: int | None = Field(default=None, ge=1000)
    """Largest segment that is still merged with others."""
    indexing_kilobytes: int | None = Field(default=None, ge=0)
    """Segments with more vectors than this are quantised and get graphs. 0: none are."""
    memmap_kilobytes: int | None = Field(default=None, ge=0)
    """Segments with more vectors than this keep them on disk."""
    deleted_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of deleted points from which a segment is rewritten."""
    vacuum_points: int | None = Field(default=None, ge=100)
    """Smallest number of points of a segment that is rewritten."""
    flush_seconds: int | None = Field(default=None, ge=1, le=3600)
    """Interval of writes of segments to disk; the write-ahead log holds what came since."""
    threads: int | None = Field(default=None, ge=0, le=256)
    """Threads that optimise each shard. 0: none are."""

    @property
    def config(self) -> models.OptimizersConfigDiff:
        """Return the options as the client takes them."""
        return models.OptimizersConfigDiff(
            default_segment_number=self.segments,
            max_segment_size=self.max_segment_kilobytes,
            indexing_threshold=self.indexing_kilobytes,
            memmap_threshold=self.memmap_kilobytes,
            deleted_threshold=self.deleted_share,
            vacuum_min_vector_number=self.vacuum_points,
            flush_interval_sec=self.flush_seconds,
            max_optimization_threads=self.threads,
        )


class WalOptions(BackendSettings):
    """Write-ahead log of each shard. By default the server's own values hold."""

    capacity_megabytes: int | None = Field(default=None, ge=1, le=4096)
    """Size of a segment of the log."""
    segments_ahead: int | None = Field(default=None, ge=0, le=64)
    """Segments of the log that are created in advance."""

    @property
    def config(self) -> models.WalConfigDiff:
        """Return the options as the client takes them."""
        return models.WalConfigDiff(wal_capacity_mb=self.capacity_megabytes, wal_segments_ahead=self.segments_ahead)


class StrictModeOptions(BackendSettings):
    """Limits that Qdrant holds each collection to. By default the server's own values hold."""

    enabled: bool | None = None
    """Whether the limits hold."""
    read_rate_limit: int | None = Field(default=None, ge=1)
    """Reads a minute and replica."""
    write_rate_limit: int | None = Field(default=None, ge=1)
    """Writes a minute and replica."""
    max_points: int | None = Field(default=None, ge=1)
    """Points of a collection."""
    max_vector_bytes: int | None = Field(default=None, ge=1)
    """Size of the vectors of a collection, in bytes."""
    max_payload_bytes: int | None = Field(default=None, ge=1)
    """Size of the payloads of a collection, in bytes."""

    @property
    def config(self) -> models.StrictModeConfig | None:
        """Return the options as the client takes them, None if none is given."""
        if self == StrictModeOptions():
            return None
        return models.StrictModeConfig(
            enabled=self.enabled,
            read_rate_limit=self.read_rate_limit,
            write_rate_limit=self.write_rate_limit,
            max_points_count=self.max_points,
            max_collection_vector_size_bytes=self.max_vector_bytes,
            max_collection_payload_size_bytes=self.max_payload_bytes,
        )


class TenantOptions(BackendSettings):
    """Tenants with shards of their own; all others share the rest (Qdrant's custom sharding)."""

    own_shards: tuple[str, ...] = ()
    """Tenants whose entries have shards of their own, so that their load is theirs; takes effect with the next
    generation (`memsvc reindex`)."""
    shards: int = Field(default=1, ge=1)
    """Shards of each of these tenants."""

    @field_validator("own_shards")
    @classmethod
    def _are_tenants(cls, tenants: tuple[str, ...]) -> tuple[str, ...]:
        if not all(tenants) or len(set(tenants)) < len(tenants):
            message = "give each tenant once, by its name"
            raise ValueError(message)
        return tenants


class QdrantServerSettings(BackendSettings):
    """Options of the Qdrant server backends. Both indexes may use one server: each has its own collections."""

    url: str = f"http://127.0.0.1:{GRPC_PORT}"
    """Where the server listens for gRPC: http://HOST:PORT, https:// with TLS; without a port 6334 is asked."""
    urls: tuple[str, ...] = ()
    """Addresses of several nodes of one cluster, instead of `url`: calls go to the next node when one is down."""
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
    timeout_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """How long a read may take; a search never takes longer than its caller's deadline."""
    write_timeout_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """How long a write, or making a collection, may take."""
    attempts: int = Field(default=3, ge=1, le=10)
    """How often a call is tried while the server cannot be reached or is too busy; each of them can be repeated."""
    backoff_seconds: float = Field(default=0.05, ge=0, le=86_400)
    """How long to wait before the second attempt; twice as long before each further one."""
    connections: int = Field(default=3, ge=1, le=64)
    """Connections that calls are spread over."""
    refresh_seconds: float = Field(default=1.0, ge=0, le=86_400)
    """How late a switch of generations that another process made may be noticed."""
    linger_seconds: float = Field(default=10.0, ge=0, le=86_400)
    """How long a generation is kept after the switch to the next, for processes that have not noticed."""
    leftover_seconds: float = Field(default=600.0, gt=0, le=86_400)
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

    reads: ReplicaReadOptions = ReplicaReadOptions()
    writes: ReplicaWriteOptions = ReplicaWriteOptions()
    storage: StorageOptions = StorageOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    wal: WalOptions = WalOptions()
    strict_mode: StrictModeOptions = StrictModeOptions()
    tenants: TenantOptions = TenantOptions()

    @field_validator("urls")
    @classmethod
    def _are_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(urls)) < len(urls):
            message = "an address is named twice"
            raise ValueError(message)
        return tuple(map(cls._is_address, urls))

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
    def addresses(self) -> list[SplitResult]:
        """Return the parts of each address."""
        return [urlsplit(url) for url in self.urls or (self.url,)]


class QdrantSparseSettings(QdrantServerSettings):
    """Options of `memsvc_backends.qdrant_server:SPARSE`."""

    average_terms: float = Field(default=40.0, gt=0)
    """The length that entries are taken to have on average in the first generation; later ones know better."""
