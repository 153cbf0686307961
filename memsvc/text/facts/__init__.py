"""Facts that a text states, by rules, in English and Chinese: no model, no store, deterministic."""

from __future__ import annotations

from memsvc.text.facts.chinese import is_choice_of_liked
from memsvc.text.facts.statements import (
    MAX_CHARS,
    MAX_LOOSE,
    MAX_STATEMENTS,
    MAX_TOPIC_BYTES,
    USER,
    concerns_answers,
    facts_in,
    loose_facts_in,
    persons_in,
)

__all__ = [
    "MAX_CHARS",
    "MAX_LOOSE",
    "MAX_STATEMENTS",
    "MAX_TOPIC_BYTES",
    "USER",
    "concerns_answers",
    "facts_in",
    "is_choice_of_liked",
    "loose_facts_in",
    "persons_in",
]
