"""A context provider of the Microsoft Agent Framework on a memsvc service."""

from __future__ import annotations

from memsvc_agent_framework.context_provider import MemsvcContextProvider

__all__ = ["MemsvcContextProvider"]
