"""The chosen backends, opened and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memsvc.bootstrap.plugins import load_backend
from memsvc.data_directory import DataDirectory, known_store, make_private
from memsvc.domain.clock import utc_now
from memsvc.domain.errors import ReportedError
from memsvc.engine.admin.diagnose import Pingable
from memsvc.engine.runtime.latency_stats import Instrumentation, LastErrors, LatencyStats
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.blobs import BlobStore
from memsvc.ports.faults import FaultLog
from memsvc.ports.indexes import LexicalIndex, VectorIndex
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.models import Embedder, LanguageModel, Reranker, Tokenizer
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.settings import BackendChoice, Settings
from memsvc.settings.validation_errors import format_validation_error

PORTS = ("metadata", "vectors", "lexical", "embedder", "tokenizer", "blobs")
OPTIONAL_PORTS = ("language_model", "reranker", "previous_embedder")
SAME_PORT = {"previous_embedder": "embedder"}
"""Ports that are served by the backends of another."""
NO_BACKEND = "none"
"""The choice of doing without an optional port."""


class StartError(ReportedError):
    """The service cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Backends:
    """The chosen backends, open."""

    metadata: MetadataStore
    vectors: VectorIndex
    lexical: LexicalIndex
    embedder: Embedder
    tokenizer: Tokenizer
    blobs: BlobStore
    names: tuple[tuple[str, str], ...]
    now: Callable[[], datetime] = utc_now
    language_model: LanguageModel | None = None
    reranker: Reranker | None = None
    previous_embedder: Embedder | None = None
    faults: FaultLog = field(default_factory=FaultLog)

    def pingables(self) -> tuple[Pingable, ...]:
        """Return the health check of each backend."""
        return tuple(Pingable(port, name, getattr(self, port).ping) for port, name in self.names)


@contextmanager
def open_backends(settings: Settings, directory: Path, now: Callable[[], datetime] = utc_now) -> Iterator[Backends]:
    """Open the backends that the settings choose, all by the clock *now*, and close them again, the last one first.

    Raises:
        PluginError: A backend cannot be chosen.
        StartError: An option of a backend is wrong; nothing was opened.
        StoreMovedError: The data of the store were moved elsewhere, or have not all arrived.
        StoreMissingError: The store is new or empty, and the directory belongs to another one.
    """
    choices: dict[str, BackendChoice] = {port: getattr(settings, port) for port in PORTS}
    optional: dict[str, BackendChoice] = {port: getattr(settings, port) for port in OPTIONAL_PORTS}
    choices |= {port: choice for port, choice in optional.items() if choice.backend != NO_BACKEND}
    specs = {port: load_backend(SAME_PORT.get(port, port), choice.backend) for port, choice in choices.items()}
    shared = settings.metadata.options
    options = {port: options_of(port, choice, specs[port].settings, shared) for port, choice in choices.items()}
    faults = FaultLog()
    with ExitStack() as stack:
        backends = {
            port: stack.enter_context(
                specs[port].open(options[port], backend_context(port, directory, now, faults.of_port(port)))
            )
            for port in choices
        }
        backends["metadata"].moves.require_here()
        names = tuple((port, choice.backend) for port, choice in choices.items())
        yield Backends(**backends, names=names, now=now, faults=faults)


@contextmanager
def open_store(settings: Settings, directory: Path, now: Callable[[], datetime] = utc_now) -> Iterator[MetadataStore]:
    """Open the metadata store alone, as `open_backends` does, wherever its data are, and close it again.

    Raises:
        PluginError: It cannot be chosen.
        StartError: An option of it is wrong.
        StoreMissingError: It is new or empty, and the directory belongs to another one.
    """
    choice = settings.metadata
    spec = load_backend("metadata", choice.backend)
    options = options_of("metadata", choice, spec.settings, {})
    with spec.open(options, backend_context("metadata", directory, now)) as store:
        yield store


def backend_context(
    port: str, directory: Path, now: Callable[[], datetime] = utc_now, faults: FaultLog | None = None
) -> BackendContext:
    """Return the context of the backend of *port* in the data directory *directory*, whose folder there is private."""
    make_private(directory / port)
    known = known_store(directory) if port == "metadata" else None
    return BackendContext(directory / port, now, faults or FaultLog(), known)


def options_of(
    port: str, choice: BackendChoice, model: type[BackendSettings], shared: Mapping[str, Any]
) -> BackendSettings:
    """Check the options of a backend; those it takes from the metadata store's, *shared*, need not be given.

    Raises:
        StartError: They are wrong.
    """
    taken = {name: shared[name] for name in model.from_metadata if name in shared}
    try:
        return model.model_validate(taken | choice.options)
    except ValidationError as error:
        wrong = format_validation_error(error, model, f"{port}.options.").rstrip(".")
        end = "" if wrong.endswith("?") else "."
        message = f"The options of the {port} backend {choice.backend!r} are wrong: {wrong}{end}"
        raise StartError(message) from error


# Instrumentation of the backends.


@dataclass(frozen=True, slots=True)
class Instruments:
    """Latency statistics, and the last errors of indexes."""

    performance: LatencyStats
    last_errors: LastErrors = field(default_factory=LastErrors)

    def instrument(self, backends: Backends) -> Backends:
        """Return wrappers of *backends* that record every relevant call."""
        timing = Instrumentation(self.performance, self.last_errors)
        return replace(
            backends,
            metadata=timing.store(backends.metadata),
            vectors=timing.vectors(backends.vectors),
            lexical=timing.lexical(backends.lexical),
            embedder=timing.embedder(backends.embedder),
        )


@dataclass(frozen=True, slots=True)
class Assembly:
    """The common inputs of the functions that build the service.

    Attributes:
        search_priority: One for the process, as there is one interpreter lock.
        stack: Stops what was started, the last one first.
    """

    settings: Settings
    directory: DataDirectory
    backends: Backends
    instruments: Instruments
    search_priority: SearchPriority
    stack: ExitStack
