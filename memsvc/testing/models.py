"""The contract of `memsvc.ports.models.Embedder`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Embedder

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
_ALIKE = 1e-4
"""Models that run elsewhere give the same text the same vector but for rounding."""


class EmbedderContract:
    """What every embedder promises. Give it the fixtures `embedder`, an open one, and `close`, which closes it."""

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
        """A row depends on its own text only, wherever it stands."""
        forwards = embedder.embed_passages(PASSAGES)
        backwards = embedder.embed_passages(PASSAGES[::-1])
        alone = np.vstack([embedder.embed_passages([text]) for text in PASSAGES])

        assert forwards == pytest.approx(alone, abs=_ALIKE)
        assert backwards[::-1] == pytest.approx(alone, abs=_ALIKE)

    def test_different_texts_give_different_vectors(self, embedder: Embedder) -> None:
        """Texts of different content are told apart, also when they differ after a NUL only."""
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
