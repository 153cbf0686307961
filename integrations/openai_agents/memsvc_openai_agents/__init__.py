"""Sessions of the OpenAI Agents SDK on a memsvc service."""

from __future__ import annotations

from memsvc_openai_agents.session import MemsvcSession

__all__ = ["MemsvcSession"]
