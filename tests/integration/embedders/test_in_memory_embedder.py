"""What only the reference embedder promises: the same vectors in every process, and a dimension of choice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.ports.plugin import BackendContext
from memsvc_backends.in_memory.models import EMBEDDER, InMemoryEmbedderSettings


@pytest.mark.parametrize("dimension", [2, 64, 384])
def test_the_dimension_is_a_setting_and_part_of_the_model(tmp_path: Path, dimension: int) -> None:
    """Vectors of different dimensions belong to different spaces, and say so."""
    context = BackendContext(tmp_path, lambda: datetime(2026, 2, 6, tzinfo=UTC))

    with EMBEDDER.open(InMemoryEmbedderSettings(dimension=dimension), context) as embedder:
        vector = embedder.embed_query("hello")

    assert vector.shape == (dimension,)
    assert embedder.model == f"in-memory/pieces-{dimension}"


def test_vectors_are_the_same_in_every_process(tmp_path: Path) -> None:
    """The hash is a fixed one: tests may keep vectors in files."""
    context = BackendContext(tmp_path, lambda: datetime(2026, 2, 6, tzinfo=UTC))

    with EMBEDDER.open(InMemoryEmbedderSettings(dimension=4), context) as embedder:
        vector = embedder.embed_query("tea")

    assert vector.round(2).tolist() == pytest.approx([0.0, -0.71, 0.0, 0.71])
