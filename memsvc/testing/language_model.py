"""The contract of `memsvc.ports.models.LanguageModel`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import LanguageModel, Prompt, Schema

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
    """What every language model promises.

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
