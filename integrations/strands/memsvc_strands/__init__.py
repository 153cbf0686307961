"""A memory store of Strands Agents on a memsvc service."""

from __future__ import annotations

from memsvc_strands.memory_store import MemsvcMemoryStore

__all__ = ["MemsvcMemoryStore"]
