"""Check of each chosen backend by itself: whether it opens and answers, and the remedy if not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from memsvc.bootstrap.backends import NO_BACKEND, OPTIONAL_PORTS, PORTS, SAME_PORT, backend_context, options_of
from memsvc.bootstrap.plugins import load_backend
from memsvc.domain.errors import UNREACHED, BackendUnavailableError, MemsvcError
from memsvc.settings import BackendChoice, Settings
from memsvc.settings.profile import BACKENDS, Profile

_SERVERS = {"qdrant": "Qdrant", "qdrant-sparse": "Qdrant", "pgvector": "PostgreSQL", "pg-fulltext": "PostgreSQL"}
EMBEDDERS = ("embedder", "previous_embedder")
MODELS = ("language_model",)
PROBE = "Does the model answer?"


@dataclass(frozen=True, slots=True)
class BackendCheck:
    """State of a backend: *trouble* is empty when it works, *advice* says what to do; *model* names its model."""

    port: str
    backend: str
    trouble: str
    advice: str
    model: str
    seconds: float


def check_backends(settings: Settings, directory: Path) -> list[BackendCheck]:
    """Open and ping every chosen backend, one after another, and close it again.

    Raises:
        PluginError: A backend cannot be chosen.
        StartError: An option of a backend is wrong.
        StoreMissingError: The store is new or empty, and the directory belongs to another one.
    """
    choices: dict[str, BackendChoice] = {port: getattr(settings, port) for port in (*PORTS, *OPTIONAL_PORTS)}
    chosen = {port: choice for port, choice in choices.items() if choice.backend != NO_BACKEND}
    shared = settings.metadata.options
    return [_checked(port, choice, directory, shared) for port, choice in chosen.items()]


def configuration_warnings(settings: Settings) -> Iterator[str]:
    """Tell what several processes over one PostgreSQL would trip over with these settings."""
    if not settings.metadata.options.get("url"):
        return
    own = BACKENDS[Profile.EMBEDDED]
    for port in ("vectors", "lexical"):
        choice: BackendChoice = getattr(settings, port)
        if choice.backend == own[port]:
            yield (
                f"{port}: {choice.backend} is this process's own; run one process on this database, or set "
                f"MEMSVC_PROFILE=cluster or postgres."
            )
    if settings.profile is not Profile.EMBEDDED and not settings.blobs.options:
        yield (
            "blobs: files are kept in the data directory; several processes need one place for them, as in "
            "MEMSVC_BLOBS__OPTIONS__URL=s3://BUCKET."
        )


def _checked(port: str, choice: BackendChoice, directory: Path, shared: Mapping[str, Any]) -> BackendCheck:
    spec = load_backend(SAME_PORT.get(port, port), choice.backend)
    options = options_of(port, choice, spec.settings, {} if port == "metadata" else shared)
    begun, trouble, advice, model = perf_counter(), "", "", ""
    try:
        with spec.open(options, backend_context(port, directory)) as backend:
            begun = perf_counter()
            backend.ping()
            if port == "metadata":
                backend.moves.require_here()
            seconds = perf_counter() - begun
            model = describe_backend(port, backend)
    except BackendUnavailableError as error:
        seconds, trouble = perf_counter() - begun, error.message
        # A backend that knows more than that says itself what to do.
        advice = _advice(port, choice, options) if error.problem == UNREACHED else ""
    except MemsvcError as error:
        seconds, trouble = perf_counter() - begun, error.message
    return BackendCheck(port, choice.backend, trouble, advice, model, seconds)


def _advice(port: str, choice: BackendChoice, options: object) -> str:
    name = f"MEMSVC_{port.upper()}__OPTIONS__URL"
    server = "PostgreSQL" if port == "metadata" and choice.options.get("url") else _SERVERS.get(choice.backend)
    if server == "PostgreSQL" and port != "metadata" and "url" not in choice.options:
        return f"{port}: its database is the store's; see there, or name another in {name}."
    if server:
        address = "" if server == "PostgreSQL" else f" at {getattr(options, 'url', '')}"
        return f"{port}: is {server} up, and can it be reached from here{address}? Its address is in {name}."
    return f"{port}: the log says more with MEMSVC_LOG__LEVEL=DEBUG."


# Description of a backend: its model, and the dimension of its vectors.


def describe_backend(port: str, backend: Any) -> str:
    """Return what is worth knowing of an open backend; an embedder has embedded something, so that it is known to work.

    Raises:
        BackendUnavailableError: It does not embed; the message says why and what to look at.
    """
    if port in EMBEDDERS:
        return f"{backend.model}, {len(backend.embed_query(PROBE))} dimensions"
    return str(backend.model) if port in MODELS else ""
