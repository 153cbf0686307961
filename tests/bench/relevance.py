"""Foreign questions, and the confidence in first hits: their threshold and their calibration.

A foreign question asks a user for what only the memories of another user answer, so every hit is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.bench.conversations import ADVERSARIAL, Conversation, Probe
from tests.bench.results import QUESTIONS, Row
from tests.bench.scoring import calibration_error, share_below, threshold_that_keeps

PART = "Relevance"
MOST_FOREIGN = 200
"""The largest number of foreign questions of a data set."""
KEPT = 0.95
"""The share of the right first hits that the threshold keeps."""


@dataclass(frozen=True, slots=True)
class FirstHit:
    """The first hit of a question, its confidence and whether it is evidence; without a hit both are zero."""

    question: str
    confidence: float
    is_right: bool


def foreign_questions(sets: Mapping[str, Sequence[Conversation]]) -> dict[tuple[str, str], list[Probe]]:
    """Return questions of other conversations for each data set and conversation, without evidence.

    There is one for each question of the conversation, in a language of these, but at most `MOST_FOREIGN` for a data
    set, shared among its conversations by their numbers of questions; fewer if the others have no more. The user has
    neither the question nor the text of any of its evidence. The choice depends on the data alone.
    """
    everyone = [(name, one) for name, conversations in sets.items() for one in conversations]
    return {
        (name, one.name): _chosen(name, one, [other for _, other in everyone if other is not one], sets)
        for name, one in everyone
    }


def _chosen(
    name: str, own: Conversation, others: Sequence[Conversation], sets: Mapping[str, Sequence[Conversation]]
) -> list[Probe]:
    every = sum(len(one.questions) for one in sets[name])
    count = len(own.questions) if every <= MOST_FOREIGN else len(own.questions) * MOST_FOREIGN // every
    languages = {question.language for question in own.questions}
    known = {_plain(line.text) for line in own.lines} | {_plain(question.text) for question in own.questions}
    candidates: dict[str, Probe] = {}
    for other in others:
        texts = {line.id: _plain(line.text) for line in other.lines}
        for question in other.questions:
            answers = {texts[one] for one in question.evidence if one in texts} | {_plain(question.text)}
            if question.language in languages and question.category != ADVERSARIAL and not known & answers:
                candidates[_plain(question.text)] = Probe(question.text, (), question.category, question.language)
    random = Random(f"{name} {own.name}")
    return random.sample(list(candidates.values()), min(count, len(candidates)))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def relevance_rows(name: str, confidence: str, own: Sequence[FirstHit], foreign: Sequence[FirstHit]) -> list[Row]:
    """Return the row of a data set; none if no first hit is right or there is no foreign question.

    The calibration is that of own and foreign questions of the held-out half together.

    Args:
        name: The data set.
        confidence: The name of the field that is the confidence.
        own: The first hits of all own questions that are not adversarial.
        foreign: Those of the foreign questions.
    """
    right = [one.confidence for one in own if one.is_right]
    held_out = [(one.confidence, one.is_right) for one in (*own, *foreign) if is_held_out(one.question)]
    if not right or not foreign or not held_out:
        return []
    threshold = threshold_that_keeps(KEPT, right)
    values = {
        QUESTIONS: len(own),
        "right first": len(right),
        "foreign": len(foreign),
        f"{confidence} that {KEPT:.0%} reach": threshold,
        "foreign below": share_below(threshold, [one.confidence for one in foreign]),
        "calibration error": calibration_error(held_out),
    }
    return [Row(PART, name, value, unit) for unit, value in values.items()]


def is_held_out(question: str) -> bool:
    """Return whether a question is in the half on which nothing may be fitted: a bit of the digest of its text."""
    return bool(hashlib.sha256(question.encode()).digest()[0] & 1)
