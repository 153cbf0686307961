"""Qdrant behind the vector port: `EDGE`, Qdrant's own engine without its server, in a supervised child process.

The names are resolved on first use, since the child imports this package too and has no need of pydantic, numpy or
the domain: without them it starts in a third of the time and holds 40 MB less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.qdrant.edge import EDGE

__all__ = ["EDGE"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from backends.qdrant import edge  # noqa: PLC0415 - see above

        return getattr(edge, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
