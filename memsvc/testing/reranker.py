"""The contract of the reranker port."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, DeadlineExceededError
from memsvc.ports.models import Reranker

QUERIES: Sequence[tuple[str, str, str]] = (
    ("Where does Anna live?", "Anna live in Lisbon, she does.", "The train leaves at nine."),
    ("安娜住在哪里", "安娜住在里斯本。", "火车九点开。"),
)
"""A query, a text that has to do with it, and one that has not."""


class RerankerContract:
    """What every reranker does. A binding gives the fixture `reranker`, and `close` where it can be closed."""

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
