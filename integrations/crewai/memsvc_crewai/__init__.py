"""CrewAI's memory storage on a memsvc service."""

from __future__ import annotations

from memsvc_crewai.storage import MemsvcStorage

__all__ = ["MemsvcStorage"]
