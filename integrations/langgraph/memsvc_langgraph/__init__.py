"""LangGraph's store interface on a memsvc service."""

from __future__ import annotations

from memsvc_langgraph.store import MemsvcStore

__all__ = ["MemsvcStore"]
