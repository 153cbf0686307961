"""The embedder called directly, in this process: the floor of everything that has to embed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memsvc.bootstrap.plugins import load_backend
from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from tests.bench.load_generators import undisturbed
from tests.bench.percentiles import Sample

_WARM_UP = 10


@contextmanager
def opened_embedder(name: str, directory: Path) -> Iterator[Embedder]:
    """Open the embedder as the service does."""
    spec = load_backend("embedder", name)
    context = BackendContext(directory=directory / "embedder", now=lambda: datetime.now(UTC))
    with spec.open(spec.settings(), context) as embedder:
        yield embedder


def measure_queries(embedder: Embedder, texts: Sequence[str]) -> Sample:
    """Embed one query after another."""
    seconds = []
    with undisturbed():
        for text in texts:
            started = time.perf_counter()
            embedder.embed_query(text)
            seconds.append(time.perf_counter() - started)
    return Sample.of(seconds[min(_WARM_UP, len(seconds) - 1) :])


def passages_per_second(embedder: Embedder, texts: Sequence[str]) -> float:
    """Embed all texts in one go, and return the rate."""
    started = time.perf_counter()
    embedder.embed_passages(texts)
    return len(texts) / (time.perf_counter() - started)
