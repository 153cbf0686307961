"""The tokenizers keep the port's promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Tokenizer
from memsvc.ports.plugin import BackendContext, BackendSettings
from memsvc.testing.factories import NOW
from memsvc.testing.models import TokenizerContract
from memsvc_backends.bpe import BPE, BpeSettings
from memsvc_backends.bpe.tokenizer import BpeVocabulary
from memsvc_backends.in_memory import ESTIMATE

CONTEXT = BackendContext(Path("unused"), lambda: NOW)


class TestEstimate(TokenizerContract):
    """The one without a vocabulary."""

    @pytest.fixture
    def tokenizer(self) -> Iterator[Tokenizer]:
        """Open it."""
        with ESTIMATE.open(BackendSettings(), CONTEXT) as tokenizer:
            yield tokenizer


class TestBpe(TokenizerContract):
    """The one with OpenAI's vocabularies."""

    @pytest.fixture(params=list(BpeVocabulary), ids=str)
    def tokenizer(self, request: pytest.FixtureRequest) -> Iterator[Tokenizer]:
        """Open it with each vocabulary."""
        with BPE.open(BpeSettings(vocabulary=request.param), CONTEXT) as tokenizer:
            yield tokenizer


@pytest.mark.parametrize(
    ("vocabulary", "text", "tokens"),
    [
        # What tiktoken says of these.
        (BpeVocabulary.O200K, "Hello world, 你好世界。 这是一个测试", 11),
        (BpeVocabulary.CL100K, "Hello world, 你好世界。 这是一个测试 <|endoftext|>", 21),
        (BpeVocabulary.CL100K, "我们决定下周三在上海开会，讨论新的数据库方案，王芳负责记录。" * 20, 620),
    ],
)
def test_the_counts_are_those_of_the_models(vocabulary: BpeVocabulary, text: str, tokens: int) -> None:
    """They were compared with tiktoken's."""
    with BPE.open(BpeSettings(vocabulary=vocabulary), CONTEXT) as tokenizer:
        assert (vocabulary.value, tokens) == (tokenizer.name, tokenizer.count(text))


def test_a_closed_tokenizer_says_so() -> None:
    """To use it is a fault of the program."""
    with BPE.open(BpeSettings(), CONTEXT) as tokenizer:
        pass

    with pytest.raises(BackendClosedError):
        tokenizer.count("x")
