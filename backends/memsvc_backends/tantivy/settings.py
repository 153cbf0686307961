"""The options of the Tantivy index."""

from __future__ import annotations

from pydantic import Field

from memsvc.ports.plugin import BackendSettings


class TantivySettings(BackendSettings):
    """How the index writes."""

    writer_heap_bytes: int = Field(default=50_000_000, ge=15_000_000)
    """Memory that uncommitted entries may take before a segment is written, in bytes. Tantivy's floor is 15 MB."""
