"""Who decides what to remember: a language model where there is one, else, and whenever it fails, the rules."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memsvc.domain.capture import Decider, Reason, Statement, Verdict
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.sessions import Role
from memsvc.engine.capture.prompts import SCHEMA, prompt_of, verdicts_of
from memsvc.ports.models import LanguageModel, UnusableAnswerError
from memsvc.text.capture_rules import judge, title_of

BATCH_STATEMENTS = 40
BATCH_CHARS = 12_000
MOST_BATCHES = 16
"""What would take more questions than this is decided by the rules: nobody waits for so many answers."""
RESERVE_SECONDS = 1.0
"""Kept of the caller's time for what comes after the model: the rules in its place, and the write."""
_SETTLED = frozenset({Reason.ROLE, Reason.FORGET, Reason.QUOTED})
"""What no model is asked about: whom not to listen to, what others say, the wish that something be not remembered."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement with its verdict, and the text to remember."""

    statement: Statement
    verdict: Verdict
    content: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts in the order of the statements, who gave them, and why not the model, if it should have."""

    judged: tuple[Decision, ...]
    decider: Decider
    notice: str = ""


class CaptureDecider:
    """Decides what to remember of statements."""

    def __init__(self, model: LanguageModel | None) -> None:
        """Ask *model* first; without one the rules decide."""
        self._model = model

    @property
    def asks_a_model(self) -> bool:
        """Return whether deciding may take as long as a language model takes."""
        return self._model is not None

    def decide(self, statements: Sequence[Statement], deadline: Deadline) -> Judgement:
        """Return a verdict for every statement. It never fails for the model's sake: then the rules decide."""
        ruled = [_ruled(one) for one in statements]
        asked = [place for place, one in enumerate(ruled) if one.verdict.reason not in _SETTLED]
        if self._model is None or not asked:
            return Judgement(tuple(ruled), Decider.RULES)
        batches = list(_batches(asked, statements))
        if len(batches) > MOST_BATCHES:
            return Judgement(tuple(ruled), Decider.RULES, "The text is too long for the language model; rules decided.")
        try:
            for batch in batches:
                self._ask(self._model, batch, ruled, deadline)
        except (BackendUnavailableError, UnusableAnswerError) as error:
            log.warning("the language model did not decide what to remember, the rules did: %s", error)
            rules = tuple(_ruled(one) for one in statements)
            return Judgement(rules, Decider.RULES, f"The language model did not decide, the rules did: {_cause(error)}")
        return Judgement(tuple(ruled), Decider.LANGUAGE_MODEL)

    @staticmethod
    def _ask(model: LanguageModel, places: Sequence[int], judged: list[Decision], deadline: Deadline) -> None:
        """Put the model's verdicts in the place of the rules'; those it leaves out stay the rules'."""
        remaining = deadline.remaining()
        if remaining is not None and remaining <= RESERVE_SECONDS:
            message = "There is no time left to ask it."
            raise UnusableAnswerError(message)
        own = Deadline() if remaining is None else Deadline.after(remaining - RESERVE_SECONDS)
        statements = [judged[place].statement for place in places]
        answer = model.json(prompt_of(statements), SCHEMA, deadline=own)
        for index, (verdict, content) in verdicts_of(answer, statements).items():
            statement = statements[index]
            judged[places[index]] = Decision(statement, _sensible(verdict, statement, content), content)


def _ruled(statement: Statement) -> Decision:
    """Return what the rules make of a statement."""
    verdict = judge(statement.text, statement.role, is_code=statement.is_code, is_quoted=statement.is_quoted)
    return Decision(statement, verdict, statement.text)


def _sensible(verdict: Verdict, statement: Statement, content: str) -> Verdict:
    """Return a model's verdict within the bounds that hold for everybody."""
    layer = Layer.LONG_TERM if verdict.layer is Layer.SESSION else verdict.layer
    is_echo = statement.role is Role.ASSISTANT and verdict.kind is Kind.PREFERENCE
    return replace(
        verdict, layer=layer, remember=verdict.remember and not is_echo, title=verdict.title or title_of(content)
    )


def _cause(error: Exception) -> str:
    return "it cannot be reached." if isinstance(error, BackendUnavailableError) else str(error)


def _batches(places: Sequence[int], statements: Sequence[Statement]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for place in places:
        length = len(statements[place].text)
        if batch and (len(batch) == BATCH_STATEMENTS or size + length > BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += length
    if batch:
        yield batch
