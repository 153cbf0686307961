"""The Python client: `AsyncMemsvc` for asyncio, `Memsvc` for everything else, with the same methods."""

from __future__ import annotations

from memsvc.client.async_client import AsyncMemsvc
from memsvc.client.channel import DEFAULT_ADDRESS, Tls
from memsvc.client.errors import MemsvcCallError, Violation
from memsvc.client.projects import Project, find_project
from memsvc.client.request_types import (
    AsOf,
    Changes,
    CommonChanges,
    ContextOptions,
    DocumentFields,
    Draft,
    Filters,
    MemoryFields,
    Message,
    NewMemory,
    NumberRange,
    Search,
    SearchOptions,
    ToolCall,
)
from memsvc.client.search import currency_of
from memsvc.client.sync_client import Memsvc

__all__ = [
    "DEFAULT_ADDRESS",
    "AsOf",
    "AsyncMemsvc",
    "Changes",
    "CommonChanges",
    "ContextOptions",
    "DocumentFields",
    "Draft",
    "Filters",
    "MemoryFields",
    "Memsvc",
    "MemsvcCallError",
    "Message",
    "NewMemory",
    "NumberRange",
    "Project",
    "Search",
    "SearchOptions",
    "Tls",
    "ToolCall",
    "Violation",
    "currency_of",
    "find_project",
]
