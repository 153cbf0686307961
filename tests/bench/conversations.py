"""Conversations with questions whose evidence is known: the formats are described in README.md."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.public_sets import ABSTENTION, as_conversations

ADVERSARIAL = ABSTENTION
"""The category whose questions misquote, or have no answer: it is reported, and left out of the whole."""
_DATE_FORMS = (
    "%I:%M %p on %d %B, %Y",
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%d %H:%M:%S",
    # LongMemEval and BEAM.
    "%Y/%m/%d (%a) %H:%M",
    "%Y/%m/%d",
    "%B-%d-%Y",
    "%B %d, %Y",
)


@dataclass(frozen=True, slots=True)
class Said:
    """One line of a conversation."""

    id: str
    session: str
    speaker: str
    text: str
    time: datetime | None


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, its language, and the ids of the lines that answer it."""

    text: str
    evidence: tuple[str, ...]
    category: int
    language: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One user's memory, in the order of time."""

    name: str
    lines: tuple[Said, ...]
    questions: tuple[Probe, ...]


def read_conversations(path: Path) -> list[Conversation]:
    """Return the conversations of a file: a list in JSON, or an item on each line.

    Raises:
        ValueError: The form, or the form of a date, is not known.
    """
    text = path.read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines() if line] if path.suffix == ".jsonl" else json.loads(text)
    return [_conversation(one) for one in as_conversations(found)]


def digest(path: Path) -> str:
    """Return what tells one version of a file from another."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_date(text: str) -> datetime | None:
    """Return the moment, in UTC where no zone is named; an empty text is none.

    Raises:
        ValueError: The text is written in a way that is not known.
    """
    if not text.strip():
        return None
    for form in _DATE_FORMS:
        try:
            moment = datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the zone follows below
        except ValueError:
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    message = f"The date {text!r} is written in a way that is not known."
    raise ValueError(message)


def _conversation(found: dict[str, Any]) -> Conversation:
    lines = tuple(
        Said(
            str(one["id"]),
            str(one.get("session") or ""),
            str(one.get("speaker") or ""),
            str(one["text"]),
            read_date(str(one.get("date") or "")),
        )
        for one in found["memories"]
    )
    known = {line.id for line in lines}
    language = str(found.get("language") or "")
    questions = (
        Probe(
            str(one["text"]), tuple(dict.fromkeys(map(str, one["evidence"]))), int(one.get("category") or 0), language
        )
        for one in found["questions"]
    )
    answerable = tuple(one for one in questions if known.intersection(one.evidence))
    return Conversation(str(found["name"]), lines, answerable)
