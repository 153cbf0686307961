"""The contract of `memsvc.ports.models.Embedder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, DeadlineExceededError
from memsvc.ports.models import Embedder, LanguageModel, Prompt, Reranker, Schema, Tokenizer

PASSAGES = (
    "Anna lives in Lisbon and works at the harbour.",
    "The printer on the second floor is out of paper again.",
    "王小明喜欢喝乌龙茶，不喜欢咖啡。",
    "Die Bäckerei öffnet sonntags erst um acht.",
)
RERANKER_QUERIES = (("Where does Anna live?", 0), ("Is the printer out of paper?", 1), ("王小明喜欢喝什么茶？", 2))
ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "punctuation": "…!?",
    "nul": "before\0after",
    "emoji": "👩\u200d🚀🎉",
    "half a surrogate pair": "a\ud83db",
    "many scripts": "Ελλάδα Россия العربية हिन्दी ไทย 한국어 カナ",
    "combining marks": "Z\u0351\u036b\u0343algo",
    "long": "The harbour was quiet that night, and nobody spoke. " * 25,
    "one long word": "x" * 500,
}
LONG_QUERIES = {
    "prose": "Anna moved to Lisbon in the spring, and works at the harbour. " * 120,
    "Chinese prose": "安娜在春天搬到了里斯本，和她的哥哥一起在港口工作。" * 300,
    "different characters": "".join(map(chr, range(0x4E00, 0x4E00 + 8_192))),
    "pairs of signs": "a." * 4_096,
    "emoji": "😀" * 8_192,
    "numbers": " ".join(f"{number * 7_919:x}" for number in range(1_200)),
    "one character": "=" * 8_192,
}
"""Queries of about the longest length, most of which take far more tokens than prose of that length."""
_ALIKE = 1e-4
"""Models that run elsewhere give the same text the same vector but for rounding."""


class EmbedderContract:
    """Contract of embedders. Give it the fixtures `embedder`, an open one, and `close`, which closes it."""

    def test_passages_come_as_rows_of_the_dimension(self, embedder: Embedder) -> None:
        """Passages give one float32 row each, of the declared dimension."""
        vectors = embedder.embed_passages(PASSAGES)

        assert vectors.shape == (len(PASSAGES), embedder.dimension)
        assert vectors.dtype == np.float32

    def test_a_query_is_one_vector_of_the_dimension(self, embedder: Embedder) -> None:
        """A query gives one flat float32 vector of the declared dimension."""
        vector = embedder.embed_query(RERANKER_QUERIES[0][0])

        assert vector.shape == (embedder.dimension,)
        assert vector.dtype == np.float32

    def test_no_passages_give_no_rows(self, embedder: Embedder) -> None:
        """No texts give the shape (0, dimension)."""
        assert embedder.embed_passages([]).shape == (0, embedder.dimension)

    @pytest.mark.parametrize("name", ODD_TEXTS)
    def test_odd_texts_give_unit_vectors(self, embedder: Embedder, name: str) -> None:
        """Any text at all, as passage and as query, gives a finite vector of length 1."""
        text = ODD_TEXTS[name]

        lengths = np.linalg.norm([*embedder.embed_passages([text]), embedder.embed_query(text)], axis=1)

        assert lengths == pytest.approx(1.0, abs=_ALIKE)

    def test_rows_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        """A row depends on its own text only, wherever it is in the batch."""
        forwards = embedder.embed_passages(PASSAGES)
        backwards = embedder.embed_passages(PASSAGES[::-1])
        alone = np.vstack([embedder.embed_passages([text]) for text in PASSAGES])

        assert forwards == pytest.approx(alone, abs=_ALIKE)
        assert backwards[::-1] == pytest.approx(alone, abs=_ALIKE)

    def test_different_texts_give_different_vectors(self, embedder: Embedder) -> None:
        """Texts of different content are distinguished, also when they differ after a NUL only."""
        vectors = embedder.embed_passages([*PASSAGES, "note\0tea", "note\0harbour"])

        assert len(np.unique(vectors.round(3), axis=0)) == len(vectors)

    @pytest.mark.parametrize(("query", "best"), RERANKER_QUERIES)
    def test_a_query_is_nearest_to_the_passage_that_answers_it(self, embedder: Embedder, query: str, best: int) -> None:
        """The dot product says how near two meanings are."""
        similarities = embedder.embed_passages(PASSAGES) @ embedder.embed_query(query)

        assert int(similarities.argmax()) == best

    def test_threads_get_the_same_vectors(self, embedder: Embedder) -> None:
        """Calls from several threads at once give what they give alone."""
        passages = embedder.embed_passages(PASSAGES)
        query = embedder.embed_query(RERANKER_QUERIES[0][0])

        with ThreadPoolExecutor(4) as pool:
            repeated = [pool.submit(embedder.embed_passages, PASSAGES) for _ in range(4)]
            queried = [pool.submit(embedder.embed_query, RERANKER_QUERIES[0][0]) for _ in range(8)]

        assert all(future.result() == pytest.approx(passages, abs=_ALIKE) for future in repeated)
        assert all(future.result() == pytest.approx(query, abs=_ALIKE) for future in queried)

    def test_vectors_belong_to_the_caller(self, embedder: Embedder) -> None:
        """Changing a returned vector changes no later one."""
        first = embedder.embed_query(RERANKER_QUERIES[0][0])
        kept = first.copy()
        first[:] = 0

        assert embedder.embed_query(RERANKER_QUERIES[0][0]) == pytest.approx(kept, abs=_ALIKE)

    def test_clearing_the_text_cache_changes_no_vector(self, embedder: Embedder) -> None:
        """Texts that were embedded before give the same vectors afterwards."""
        before = embedder.embed_passages(PASSAGES)
        embedder.clear_text_cache()

        assert embedder.embed_passages(PASSAGES) == pytest.approx(before, abs=_ALIKE)

    @pytest.mark.parametrize("name", LONG_QUERIES)
    def test_a_long_query_is_embedded_by_its_part(self, embedder: Embedder, name: str) -> None:
        """The part is a beginning of the query that stays as it is, and has the vector of the whole query."""
        query = LONG_QUERIES[name]

        part = embedder.query_part(query)

        assert query.startswith(part)
        assert part
        assert embedder.query_part(part) == part
        assert embedder.embed_query(part) == pytest.approx(embedder.embed_query(query), abs=_ALIKE)

    def test_a_short_query_is_embedded_whole(self, embedder: Embedder) -> None:
        """A question of a sentence or two is never cut, in any script."""
        for question in (*(query for query, _ in RERANKER_QUERIES), " ".join(PASSAGES), ""):
            assert embedder.query_part(question) == question

    def test_the_model_is_named(self, embedder: Embedder) -> None:
        """The name of the vector space is there, and stays."""
        assert embedder.model
        assert embedder.model == embedder.model.strip()

    def test_ping_returns(self, embedder: Embedder) -> None:
        """An embedder that can embed answers a ping."""
        embedder.ping()

    def test_a_closed_embedder_refuses_every_call(self, embedder: Embedder, close: Callable[[], None]) -> None:
        """After it is closed, every call raises BackendClosedError."""
        close()

        for call in (lambda: embedder.embed_passages(["x"]), lambda: embedder.embed_query("x"), embedder.ping):
            with pytest.raises(BackendClosedError):
                call()


# The contract of `memsvc.ports.models.LanguageModel`.


PROMPT = Prompt("Answer the question.", "What is the capital of Portugal? 葡萄牙的首都是哪里？")
SCHEMA = Schema(
    "capital",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
    },
)


class LanguageModelContract:
    """Contract of language models.

    Give it the fixtures `model`, an open one that can be reached, `unreachable`, one that cannot, and `close`, which
    closes the first.
    """

    def test_it_has_a_name(self, model: LanguageModel) -> None:
        """The model is named."""
        assert model.model

    def test_text_is_trimmed_and_not_empty(self, model: LanguageModel) -> None:
        """A prompt is answered in words."""
        answer = model.text(PROMPT, deadline=Deadline())

        assert answer
        assert answer == answer.strip()

    def test_json_is_an_object(self, model: LanguageModel) -> None:
        """A prompt with a schema is answered by an object."""
        assert isinstance(model.json(PROMPT, SCHEMA, deadline=Deadline.after(60)), dict)

    def test_it_may_be_asked_by_several_threads(self, model: LanguageModel) -> None:
        """Every one gets its answer."""
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: model.text(PROMPT, deadline=Deadline()), range(8)))

        assert all(answers)

    def test_no_time_is_no_answer(self, model: LanguageModel) -> None:
        """After the deadline nothing is asked."""
        with pytest.raises(BackendUnavailableError):
            model.text(PROMPT, deadline=Deadline.after(0))

    def test_one_that_is_there_can_be_pinged(self, model: LanguageModel) -> None:
        """It says nothing when all is well."""
        model.ping()

    def test_one_that_cannot_be_reached_says_so(self, unreachable: LanguageModel) -> None:
        """By the domain's error, whatever it is asked."""
        for ask in (
            unreachable.ping,
            lambda: unreachable.text(PROMPT, deadline=Deadline()),
            lambda: unreachable.json(PROMPT, SCHEMA, deadline=Deadline()),
        ):
            with pytest.raises(BackendUnavailableError):
                ask()

    def test_a_closed_one_says_so(self, model: LanguageModel, close: Callable[[], None]) -> None:
        """Nothing is asked after closing."""
        close()

        with pytest.raises(BackendClosedError):
            model.text(PROMPT, deadline=Deadline())


# The contract of the reranker port.


QUERIES: Sequence[tuple[str, str, str]] = (
    ("Where does Anna live?", "Anna live in Lisbon, she does.", "The train leaves at nine."),
    ("安娜住在哪里", "安娜住在里斯本。", "火车九点开。"),
)
"""A query, a text that has to do with it, and one that has not."""


class RerankerContract:
    """Contract of rerankers. A binding gives the fixture `reranker`, and `close` where it can be closed."""

    @pytest.fixture
    def reranker(self) -> Reranker:
        """Return an open reranker."""
        raise NotImplementedError

    @pytest.fixture
    def close(self) -> Callable[[], None]:
        """Close the reranker under test."""
        pytest.skip("the binding does not close its reranker")

    @pytest.mark.parametrize(("query", "fits", "strange"), QUERIES)
    def test_what_fits_has_the_higher_score(self, reranker: Reranker, query: str, fits: str, strange: str) -> None:
        """In both languages, whichever comes first."""
        one, other = reranker.rerank(query, [fits, strange], deadline=Deadline())

        assert one > other
        assert reranker.rerank(query, [strange, fits], deadline=Deadline()) == pytest.approx([other, one])

    def test_scores_are_in_range(self, reranker: Reranker) -> None:
        """Whatever the texts hold: nothing, signs, much."""
        texts = ["", " ", "🦭", "a\x00b", "word " * 5_000, "汉" * 3_000]

        scores = reranker.rerank("a word", texts, deadline=Deadline())

        assert len(scores) == len(texts)
        assert all(0.0 <= score <= 1.0 for score in scores)

    def test_nothing_gives_nothing(self, reranker: Reranker) -> None:
        """No texts, no scores."""
        assert reranker.rerank("query", [], deadline=Deadline()) == []

    def test_passed_deadline_is_an_error(self, reranker: Reranker) -> None:
        """Nothing is begun when the time is over."""
        with pytest.raises(DeadlineExceededError):
            reranker.rerank("query", ["text"], deadline=Deadline.after(0.0))

    def test_it_has_a_name_and_answers(self, reranker: Reranker) -> None:
        """The name says which model it is."""
        reranker.ping()

        assert reranker.name

    def test_closed_reranker_says_so(self, reranker: Reranker, close: Callable[[], None]) -> None:
        """Use after the end is a fault of the program."""
        close()

        with pytest.raises(BackendClosedError):
            reranker.rerank("query", ["text"], deadline=Deadline())


# The contract of the tokenizer port.


TEXTS: Sequence[str] = (
    "Anna moves to Lisbon in March.",
    "我们决定下周三在上海开会。",
    "def f(x):\n    return {'a': [1, 2]}\n",
    "<|endoftext|> is a word here",
    "🦭 e\u0301 \x00 \u200d",
    "half a pair: \ud83d",
)


class TokenizerContract:
    """Contract of tokenizers. A binding gives the fixture `tokenizer`."""

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
