"""Scripted users: what they say in several sessions, the facts in it, what changes, and what they are asked at the end.

One JSON file for each user; the README of the benchmark describes the format.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "agent_day"
HALVES = ("dev", "dev_b", "held_out")
"""Two of development, and one by which no rule may be written."""
FILLER_ROUNDS = 150
_ROUND = timedelta(minutes=2)
_REPLIES: Mapping[str, Sequence[str]] = {
    "en": ("Thanks for telling me.", "Alright.", "Understood, thanks.", "Okay!", "Good to know."),
    "zh": ("好的。", "明白了。", "收到,谢谢。", "嗯,知道了。", "好嘞。"),
}


@dataclass(frozen=True, slots=True)
class ScriptedFact:
    """A fact that a user tells.

    Attributes:
        session: The number of the session in which it is told.
        say: The message that tells it.
        write: What an agent would store that creates memories itself.
        kind: The kind of that memory, as the API names it.
        markers: A line that contains one of them, in any case, carries the fact.
        replaces: The id of the fact that it makes outdated; empty if there is none.
    """

    id: str
    session: int
    say: str
    write: str
    kind: str
    markers: tuple[str, ...]
    replaces: str

    def is_in(self, text: str) -> bool:
        """Return whether *text* carries the fact."""
        folded = text.casefold()
        return any(marker.casefold() in folded for marker in self.markers)


@dataclass(frozen=True, slots=True)
class ScriptedQuestion:
    """A question, the ids of the facts that answer it, any of which is enough, and of those that are outdated."""

    text: str
    right: tuple[str, ...]
    outdated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptedReminder:
    """A day that a list of reminders must contain, or if it is not *live* must not contain any more."""

    fact: str
    due_on: date
    live: bool


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user or the assistant; *fact* is empty in filler."""

    role: str
    text: str
    moment: datetime
    fact: str = ""


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """A user with the conversations, facts and questions."""

    name: str
    language: str
    speaker: str
    sessions: tuple[tuple[Said, ...], ...]
    facts: Mapping[str, ScriptedFact]
    questions: tuple[ScriptedQuestion, ...]
    reminders: tuple[ScriptedReminder, ...]
    asked_at: datetime
    filler: tuple[str, ...] = field(repr=False)

    @property
    def outdated(self) -> frozenset[str]:
        """Return the ids of the facts that a later one replaced."""
        return frozenset(fact.replaces for fact in self.facts.values() if fact.replaces)


def read_users(half: str) -> list[ScriptedUser]:
    """Return the users of one of `HALVES`, by name."""
    folder = DATA / half
    filler = json.loads((folder / "filler.json").read_text(encoding="utf-8"))
    paths = sorted(path for path in folder.glob("*.json") if path.name != "filler.json")
    return [_user(json.loads(path.read_text(encoding="utf-8")), filler) for path in paths]


def read_filler(half: str) -> dict[str, list[str]]:
    """Return what users say in the filler of one half, by language."""
    found = json.loads((DATA / half / "filler.json").read_text(encoding="utf-8"))
    return {language: [one["user"] for one in rounds] for language, rounds in found.items()}


def _user(found: dict[str, Any], filler: Mapping[str, Sequence[Mapping[str, str]]]) -> ScriptedUser:
    facts = {
        one["id"]: ScriptedFact(
            one["id"],
            one["session"],
            one["say"],
            one["write"],
            one["kind"],
            tuple(one["marker"]),
            one["replaces"] or "",
        )
        for one in found["facts"]
    }
    chance = random.Random(found["user"])
    languages = ("en", "zh") if found["language"] == "mixed" else (found["language"],)
    rounds = [one for language in languages for one in filler[language]]
    chosen = chance.sample(rounds, FILLER_ROUNDS)
    starts = [datetime.fromisoformat(one["started_at"]) for one in found["sessions"]]
    shares = [chosen[number :: len(starts)] for number in range(len(starts))]
    sessions = tuple(
        tuple(_session(start, [one for one in facts.values() if one.session == number], share, chance))
        for number, (start, share) in enumerate(zip(starts, shares, strict=True))
    )
    return ScriptedUser(
        found["user"],
        found["language"],
        found["speaker"],
        sessions,
        facts,
        tuple(ScriptedQuestion(one["text"], tuple(one["right"]), tuple(one["outdated"])) for one in found["questions"]),
        tuple(
            ScriptedReminder(one["fact"], date.fromisoformat(one["due_on"]), one["live"]) for one in found["reminders"]
        ),
        datetime.fromisoformat(found["asked_at"]),
        tuple(one["user"] for one in chosen),
    )


def _session(
    start: datetime, facts: Sequence[ScriptedFact], filler: Sequence[Mapping[str, str]], chance: random.Random
) -> Iterator[Said]:
    """Yield the messages of a session: the facts in their order, at random places among the filler."""
    places = sorted(chance.sample(range(len(facts) + len(filler)), len(facts)))
    told, chat = iter(facts), iter(filler)
    for number in range(len(facts) + len(filler)):
        moment = start + number * _ROUND
        if number in places:
            fact = next(told)
            language = "en" if fact.say.isascii() else "zh"
            yield Said("user", fact.say, moment, fact.id)
            yield Said("assistant", chance.choice(_REPLIES[language]), moment, fact.id)
        else:
            one = next(chat)
            yield Said("user", one["user"], moment)
            yield Said("assistant", one["assistant"], moment)
