"""The contract of the tokenizer port."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from memsvc.ports.models import Tokenizer

TEXTS: Sequence[str] = (
    "Anna moves to Lisbon in March.",
    "我们决定下周三在上海开会。",
    "def f(x):\n    return {'a': [1, 2]}\n",
    "<|endoftext|> is a word here",
    "🦭 e\u0301 \x00 \u200d",
    "half a pair: \ud83d",
)


class TokenizerContract:
    """What every tokenizer does. A binding gives the fixture `tokenizer`."""

    @pytest.fixture
    def tokenizer(self) -> Tokenizer:
        """Return an open tokenizer."""
        raise NotImplementedError

    def test_nothing_takes_nothing(self, tokenizer: Tokenizer) -> None:
        """An empty text has no tokens."""
        assert tokenizer.count("") == 0

    @pytest.mark.parametrize("text", TEXTS)
    def test_every_text_can_be_counted(self, tokenizer: Tokenizer, text: str) -> None:
        """There is at least one token in it, and no more than bytes; twice the same."""
        count = tokenizer.count(text)

        assert 1 <= count <= len(text.encode("utf-8", "surrogatepass"))
        assert count == tokenizer.count(text)

    @pytest.mark.parametrize("text", TEXTS[:3])
    def test_more_text_takes_more_tokens(self, tokenizer: Tokenizer, text: str) -> None:
        """Ten times the text takes about ten times the tokens."""
        once, often = tokenizer.count(text), tokenizer.count(text * 10)

        assert 8 * once <= often <= 11 * once

    @pytest.mark.parametrize("one", [*TEXTS[:5], "What is this?!", "a  ", "/", "9", "...\n\n", "x\r", ")", "行。"])
    @pytest.mark.parametrize("other", ["- [mem:1] x", "## 核心", "</memory>", "Left out: 2", "未列出：2"])
    def test_lines_add_up_where_that_is_said(self, tokenizer: Tokenizer, one: str, other: str) -> None:
        """A line costs the same before another one as alone."""
        if tokenizer.adds_up:
            parts = tokenizer.count(f"{one}\n") + tokenizer.count(f"{other}\n")
            assert parts == tokenizer.count(f"{one}\n{other}\n")

    def test_special_tokens_are_text(self, tokenizer: Tokenizer) -> None:
        """A text that spells a special token is counted by its characters."""
        assert tokenizer.count("<|endoftext|>") > 1

    @pytest.mark.parametrize("letter", ["x", "汉", " ", "\n", "é"])
    def test_long_texts_are_counted(self, tokenizer: Tokenizer, letter: str) -> None:
        """A text of a hundred thousand equal letters is no trap."""
        assert 0 < tokenizer.count(letter * 100_000) <= 400_000

    def test_threads_may_share_it(self, tokenizer: Tokenizer) -> None:
        """Counts from several threads are those from one."""
        alone = [tokenizer.count(text) for text in TEXTS] * 20

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(tokenizer.count, list(TEXTS) * 20)) == alone

    def test_it_has_a_name_and_answers(self, tokenizer: Tokenizer) -> None:
        """The name says whose tokens are counted."""
        tokenizer.ping()

        assert tokenizer.name
