"""Embedders of an endpoint, opened by the clock of a test."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Embedder
from memsvc_backends.openai import OpenAiEmbedderSettings
from memsvc_backends.openai.embedder import open_embedder
from tests.support.http_stub import Endpoint
from tests.support.openai_embeddings_stub import DIMENSION, vector_of


class Stopwatch:
    """A clock that stands until somebody waits, which takes no time."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def time(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds


class Opener:
    """Opens embedders of the endpoint by the clock of the test."""

    def __init__(self, stack: ExitStack, endpoint: Endpoint, clock: Stopwatch, directory: Path) -> None:
        self.stack, self.endpoint, self.clock, self.directory = stack, endpoint, clock, directory

    def __call__(self, **options: Any) -> Embedder:
        told = {"base_url": self.endpoint.url, "model": "m", "dimensions": DIMENSION} | options
        settings = OpenAiEmbedderSettings.model_validate(told)
        return self.stack.enter_context(open_embedder(settings, self.directory, self.clock))


def unit(text: str, dimension: int = DIMENSION) -> np.ndarray[Any, Any]:
    vector = np.array(vector_of(text, dimension), np.float32)
    return vector / np.linalg.norm(vector)


def refused(embedder: Embedder, texts: tuple[str, ...] = ("a", "b")) -> BackendUnavailableError:
    with pytest.raises(BackendUnavailableError) as caught:
        embedder.embed_passages(texts)
    return caught.value
