"""The vector index in Qdrant's own engine without its server, in a supervised child process.

`EDGE` is resolved on first use, since the child imports this package too and has no need of pydantic, numpy or the
domain: without them it starts in a third of the time and holds 40 MB less.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memsvc_backends.qdrant_edge.index import EDGE

__all__ = ["EDGE"]


def __getattr__(name: str) -> object:
    if name == "EDGE":
        return import_module(f"{__name__}.index").EDGE
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
