"""Discovery of backends by entry point; ours use the same mechanism as third-party ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from memsvc.domain.errors import ReportedError
from memsvc.ports.plugin import BackendSpec

GROUPS = {
    "metadata": "memsvc.metadata_stores",
    "vectors": "memsvc.vector_indexes",
    "lexical": "memsvc.lexical_indexes",
    "embedder": "memsvc.embedders",
    "tokenizer": "memsvc.tokenizers",
    "language_model": "memsvc.language_models",
    "reranker": "memsvc.rerankers",
    "blobs": "memsvc.blob_stores",
}
"""The entry-point group of each port."""


class PluginError(ReportedError):
    """A backend cannot be chosen: none has the name, two have it, or what was found is no backend."""


@dataclass(frozen=True, slots=True)
class FoundBackend:
    """A backend that some installed distribution offers."""

    port: str
    name: str
    distribution: str
    target: str


def found_backends() -> list[FoundBackend]:
    """Return every backend that can be chosen, by port and name."""
    return sorted(
        (
            FoundBackend(port, point.name, _distribution(point), point.value)
            for port, group in GROUPS.items()
            for point in _offered(group)
        ),
        key=lambda backend: (backend.port, backend.name, backend.distribution),
    )


def load_backend(port: str, name: str) -> BackendSpec[Any]:
    """Return the backend called *name*.

    Raises:
        PluginError: No installed distribution offers it, several do, or it is not a BackendSpec.
    """
    point = choose(port, name, _offered(GROUPS[port]))
    try:
        spec = point.load()
    except ImportError as error:
        message = f"The {port} backend {name!r} of {_distribution(point)} cannot be imported: {error}."
        raise PluginError(message) from error
    if not isinstance(spec, BackendSpec):
        message = f"The {port} backend {name!r} ({point.value}) is a {type(spec).__name__}, not a BackendSpec."
        raise PluginError(message)
    return spec


def choose(port: str, name: str, points: Iterable[EntryPoint]) -> EntryPoint:
    """Return the one entry point called *name*.

    Raises:
        PluginError: There is none, or there are two of the same name.
    """
    known = list(points)
    fitting = [point for point in known if point.name == name]
    if not fitting:
        names = ", ".join(sorted({point.name for point in known})) or "none at all"
        message = f"No {port} backend is called {name!r}; installed are: {names}."
        raise PluginError(message)
    if len(fitting) > 1:
        offers = " and ".join(sorted(_distribution(point) for point in fitting))
        message = f"The {port} backend {name!r} is offered by {offers}; uninstall one."
        raise PluginError(message)
    return fitting[0]


@cache
def _offered(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of *group*, read once: distributions do not come and go while a process runs."""
    return tuple(entry_points(group=group))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
