"""A memory block of LlamaIndex on a memsvc service."""

from __future__ import annotations

from memsvc_llama_index.memory_block import MemsvcMemoryBlock

__all__ = ["MemsvcMemoryBlock"]
