"""The embedder of fastembed keeps the port's promises, and its own, with a model made on the spot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc.testing.models import PASSAGES, RERANKER_QUERIES, EmbedderContract
from memsvc_backends.fastembed import FASTEMBED, FastembedSettings
from tests.support.onnx_model import make_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [*PASSAGES, *(query for query, _ in RERANKER_QUERIES), "note tea harbour"]
    return make_model(tmp_path_factory.mktemp("model"), texts)


def opened(stack: ExitStack, directory: Path, **options: Any) -> Embedder:
    settings = FastembedSettings.model_validate(options)
    return stack.enter_context(FASTEMBED.open(settings, BackendContext(directory, lambda: NOW)))


class TestFastembed(EmbedderContract):
    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def embedder(self, stack: ExitStack, model: Path, tmp_path: Path) -> Embedder:
        return opened(stack, tmp_path, model="words", path=model, batch_items=2, threads=1)

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        return stack.close

    def test_the_dimension_is_the_models(self, embedder: Embedder) -> None:
        """Nobody has to tell it; model and dimension name the space."""
        assert (embedder.model, embedder.dimension) == ("fastembed/words@256", 256)

    def test_prefixes_and_pooling_count(self, stack: ExitStack, model: Path, tmp_path: Path) -> None:
        """A prefix makes other vectors, of passages another space; so does the first token instead of the mean."""
        plain = opened(stack, tmp_path, model="words", path=model)
        prefixed = opened(stack, tmp_path, model="words", path=model, passage_prefix="tea ", query_prefix="tea ")
        first = opened(stack, tmp_path, model="words", path=model, pooling="cls")

        assert prefixed.embed_query("harbour") == pytest.approx(plain.embed_query("tea harbour"))
        assert prefixed.embed_passages(["harbour"]) == pytest.approx(plain.embed_passages(["tea harbour"]))
        assert prefixed.model != plain.model
        assert not np.allclose(first.embed_query("tea harbour"), plain.embed_query("tea harbour"))

    def test_a_model_that_is_not_here_is_told_how_to_place(self, stack: ExitStack, tmp_path: Path) -> None:
        """Nothing is downloaded when that is not allowed; the message says what to run where."""
        with pytest.raises(BackendUnavailableError, match=r"no model.*On a machine with a network run.*cache_dir"):
            opened(stack, tmp_path, download=False)

    def test_a_model_that_nobody_knows_is_refused(self, stack: ExitStack, tmp_path: Path) -> None:
        """With some that fastembed knows, and the way to use one's own."""
        with pytest.raises(BackendUnavailableError, match=r"no model 'nobody/knows'.*multilingual.*set path"):
            opened(stack, tmp_path, model="nobody/knows", download=False)

    @pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
    def test_a_folder_without_a_whole_model_is_refused(self, stack: ExitStack, tmp_path: Path, missing: str) -> None:
        """With the names of the files that belong into it."""
        broken = make_model(tmp_path / "broken", PASSAGES, dimension=4)
        broken.joinpath(missing).unlink()

        with pytest.raises(BackendUnavailableError, match=r"must hold tokenizer\.json"):
            opened(stack, tmp_path, model="words", path=broken)

    def test_a_file_that_is_no_model_is_refused(self, stack: ExitStack, tmp_path: Path) -> None:
        """Likewise."""
        broken = make_model(tmp_path / "broken", PASSAGES, dimension=4)
        broken.joinpath("model.onnx").write_bytes(b"no model")

        with pytest.raises(BackendUnavailableError, match="cannot load the model"):
            opened(stack, tmp_path, model="words", path=broken)


MISSING = """
import sys
sys.modules["fastembed"] = None
from memsvc_backends.fastembed import FASTEMBED, FastembedSettings
try:
    with FASTEMBED.open(FastembedSettings(), None):
        pass
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_missing_package_is_named_with_the_way_to_get_it() -> None:
    """Without the extra, opening says which command installs it; its options are known all the same."""
    found = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)

    assert "pip install memsvc[fastembed]" in found.stdout
