"""Tools and instructions of Pydantic AI on a memsvc service."""

from __future__ import annotations

from memsvc_pydantic_ai.toolset import known_instructions, memory_toolset

__all__ = ["known_instructions", "memory_toolset"]
