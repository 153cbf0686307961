"""The memory service of Google's Agent Development Kit on a memsvc service."""

from __future__ import annotations

from memsvc_google_adk.memory_service import MemsvcMemoryService

__all__ = ["MemsvcMemoryService"]
