"""The rules against labelled pairs: those with odd numbers are for development, those with even ones are held out.

The pairs of `unseen.jsonl` were written when the rules were done, to look for what they miss; no rule was changed
for them since. Pairs that a rule is changed for belong among the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.conflicts import contradicts
from memsvc.domain.memory import Memory, content_hash
from memsvc.domain.scope import Scope
from memsvc.engine.records.memory_builder import find_contradiction
from memsvc.text.facts import loose_facts_in

DATA = Path(__file__).parents[3] / "data" / "conflicts"
MADE, UNSEEN, NEGATED = "pairs", "unseen", "negations"
PRECISION, RECALL = 0.95, 0.7


def is_changed(older: str, newer: str) -> bool:
    """Return whether *newer* contradicts *older* for certain, or gives reason to doubt it."""
    if find_contradiction(memory(older), memory(newer)) is not None:
        return True
    said = {fact.topic: fact for fact in loose_facts_in(older)}
    return any(fact.topic in said and contradicts(said[fact.topic], fact) for fact in loose_facts_in(newer))


@dataclass(frozen=True)
class Pair:
    """An older and a newer memory, and whether a person sees a conflict."""

    id: str
    older: str
    newer: str
    conflict: bool
    topic: str

    @property
    def is_held_out(self) -> bool:
        return int(self.id.rpartition("-")[2]) % 2 == 0

    @property
    def is_found(self) -> bool:
        return is_changed(self.older, self.newer)


@dataclass
class Counts:
    """How often the rules and a person agree."""

    hits: int = 0
    false_alarms: int = 0
    misses: int = 0
    rejections: int = 0

    def add(self, pair: Pair) -> None:
        found = pair.is_found
        if pair.conflict:
            self.hits, self.misses = self.hits + found, self.misses + (not found)
        else:
            self.false_alarms, self.rejections = self.false_alarms + found, self.rejections + (not found)

    @property
    def precision(self) -> float:
        return self.hits / max(1, self.hits + self.false_alarms)

    @property
    def recall(self) -> float:
        return self.hits / max(1, self.hits + self.misses)


def memory(content: str) -> Memory:
    now = datetime(2026, 2, 6, tzinfo=UTC)
    return Memory("m", Scope("u"), content, now, now, content_hash(content))


def pairs(name: str = MADE) -> list[Pair]:
    text = (DATA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [Pair(**json.loads(line)) for line in text.splitlines()]


def test_set_is_balanced() -> None:
    """At least 60 pairs of each language, half of them no conflict, in both halves alike; none comes twice."""
    for language in ("en", "zh"):
        for is_held_out in (False, True):
            half = [pair for pair in pairs() if pair.id.startswith(language) and pair.is_held_out is is_held_out]
            assert len(half) >= 30
            assert sum(pair.conflict for pair in half) * 2 == len(half)
        unseen = [pair for pair in pairs(UNSEEN) if pair.id.startswith(language)]
        assert sum(pair.conflict for pair in unseen) * 2 == len(unseen) >= 30
    every = pairs() + pairs(UNSEEN)
    assert len({(pair.older, pair.newer) for pair in every}) == len(every)


def test_rules_hold_on_what_they_were_not_made_with(capsys: pytest.CaptureFixture[str]) -> None:
    """Precision at least 0.95 and recall at least 0.7 in each language, on the held-out half and on unseen pairs."""
    table: dict[tuple[str, str], Counts] = {}
    for pair in pairs(UNSEEN):
        table.setdefault((pair.id[:2], UNSEEN), Counts()).add(pair)
    for pair in pairs():
        half = "held out" if pair.is_held_out else "development"
        table.setdefault((pair.id[:2], half), Counts()).add(pair)

    with capsys.disabled():
        print("\nlanguage  half         hits  false  missed  rejected  precision  recall")  # noqa: T201
        for (language, half), counts in sorted(table.items()):
            print(  # noqa: T201
                f"{language:8}  {half:11}  {counts.hits:4}  {counts.false_alarms:5}  {counts.misses:6}"
                f"  {counts.rejections:8}  {counts.precision:9.3f}  {counts.recall:6.3f}"
            )
    for (_, half), counts in table.items():
        if half != "development":
            assert counts.precision >= PRECISION
            assert counts.recall >= RECALL


@pytest.mark.parametrize("pair", pairs(NEGATED), ids=lambda pair: pair.id)
def test_traits_and_opening_days_conflict_with_their_negation_alone(pair: Pair) -> None:
    """Allergies, possessions, habits, skills and days of opening: a statement with its negation, and nothing like it.

    Statements of others, of another thing or day, wishes, suppositions, questions, requests and what holds today are
    none of them. Only conflicts that a write finds count here.
    """
    found = find_contradiction(memory(pair.older), memory(pair.newer)) is not None
    turned = find_contradiction(memory(pair.newer), memory(pair.older)) is not None

    assert (found, turned) == (pair.conflict, pair.conflict)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_changes_in_other_words_are_seen(language: str) -> None:
    """What everyday speech changes, also in the other language; what it adds, and what concerns others, stays."""
    text = (DATA.parent / "everyday" / "conflicts.jsonl").read_text(encoding="utf-8")
    counts = Counts()
    for line in map(json.loads, text.splitlines()):
        if line["language"] == language:
            counts.add(Pair("", line["older"], line["newer"], line["conflict"], ""))

    assert counts.precision >= PRECISION
    assert counts.recall >= 0.8


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Porto.", "上周末搬到布拉加了"),
        ("我住北京", "We relocated to Leeds."),
        ("我是学生", "我毕业了,现在是一名律师"),
        ("We use Jenkins.", "switched to GitHub Actions"),
        ("用 MySQL", "改存 PostgreSQL"),
        ("I drink coffee.", "咖啡戒了"),
        ("I'm allergic to cats.", "turns out I'm not allergic to cats any more"),
        ("I own a Vespa.", "I sold the Vespa"),
        ("I'm single.", "我有男朋友啦"),
        ("The launch is on 3 June.", "launch slips to the 17th"),
        ("房租三千。", "房租降到两千五了"),
        ("The puppy is called Sprout.", "We renamed the puppy, he's Otto"),
        ("Answer in bullet points.", "no more bullet points, prose please"),
        ("叫我王先生。", "别叫我王先生,叫我小王"),
        ("My best friend is Marta.", "Marta and I don't talk any more"),
        ("我领导是王总。", "换领导了,现在是李总"),
    ],
)
def test_each_family_of_changes_is_seen(older: str, newer: str) -> None:
    """Home, school, tools, taste, allergy, possession, relation, dates, numbers, names, instructions, address, roles."""
    assert is_changed(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("我喜欢 Python", "我也喜欢 Go"),
        ("I play chess on Mondays.", "I've also joined a boules team on Sundays."),
        ("I live in Leeds.", "If I moved, I'd go to York."),
        ("I own a trumpet.", "I'd love to own a saxophone."),
        ("My salary is 45k.", "My wife's salary went up to 52k."),
        ("Use tabs in Go files.", "Use spaces in YAML."),
        ("回答要简短。", "报告要写详细。"),
        ("我月薪八千。", "我老婆月薪涨到一万了。"),
        ("我们项目用Go。", "他们项目改用Rust了。"),
    ],
)
def test_additions_wishes_and_others_change_nothing(older: str, newer: str) -> None:
    """Neither "also" nor a plan, another person or another thing makes a statement outdated."""
    assert not is_changed(older, newer)


@pytest.mark.parametrize("pair", [pair for pair in pairs() if pair.topic == "sorts"], ids=lambda pair: pair.id)
def test_only_values_of_the_same_sort_are_compared(pair: Pair) -> None:
    """A name with a name, a time with a time, a town with a town, summers with summers: each pair is told right."""
    assert pair.is_found is pair.conflict
