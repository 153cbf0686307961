"""Qdrant behind the ports of the indexes.

`EDGE` is Qdrant's own engine without its server, in a supervised child process. `SERVER` and `SPARSE` are the vectors
and the words of a Qdrant server, which several processes share.

The names are resolved on first use, since the child imports this package too and has no need of pydantic, numpy or
the domain: without them it starts in a third of the time and holds 40 MB less.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memsvc_backends.qdrant.edge import EDGE
    from memsvc_backends.qdrant.server import SERVER
    from memsvc_backends.qdrant.sparse import SPARSE

__all__ = ["EDGE", "SERVER", "SPARSE"]
_MODULES = {"EDGE": "edge", "SERVER": "server", "SPARSE": "sparse"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
