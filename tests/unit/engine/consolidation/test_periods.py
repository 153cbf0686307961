"""Summing up a month, a span of time, a topic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, MemoryExistsError, NothingToSummarizeError, RequestIdReusedError
from memsvc.domain.maintenance import EVERYBODY, MaintenancePlan, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory
from memsvc.domain.scope import Scope
from memsvc.domain.summaries import Period, normal_topic
from memsvc.domain.write_requests import Outcome, WriteOptions
from memsvc.engine.summaries import periods
from memsvc.engine.summaries.periods import PeriodRequest, PeriodSummary
from tests.unit.engine.consolidation.conftest import ADA, NO_HURRY, Desk

FEBRUARY, MARCH = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
ALL = Period.between(None, None)


def month(text: str) -> Period:
    """Return a month."""
    period = Period.month(text)
    assert period is not None
    return period


def summarize(
    desk: Desk, period: Period, topic: str = "", *, scope: Scope = ADA, request_id: str = "", tokens: int = 200
) -> PeriodSummary:
    """Sum up."""
    desk.clock.advance(minutes=1)
    wish = PeriodRequest(scope, period, topic, tokens)
    summary = desk.app.period_summarizer.summarize(wish, WriteOptions(request_id=request_id), NO_HURRY)
    desk.settle()
    return summary


def names(memories: list[Memory]) -> set[str]:
    """Return the ids."""
    return {memory.id for memory in memories}


def test_month_is_summed_up_of_what_happened_in_it(desk: Desk) -> None:
    """From its first moment to its last; linked to its sources, under its key, and without what is no material."""
    inside = [
        desk.write("Anna decided to move to Porto.", event_time=FEBRUARY),
        desk.write("安娜买了两张去波尔图的票。", event_time=MARCH - MOMENT, trust=0.5),
        desk.write("The budget is 400 euros.", event_time=FEBRUARY + timedelta(days=3), kind=Kind.DECISION),
    ]
    desk.write("Too early to count.", event_time=FEBRUARY - MOMENT)
    desk.write("Too late to count.", event_time=MARCH)
    desk.write("What somebody said.", event_time=FEBRUARY, kind=Kind.MESSAGE)
    desk.write("A long document.", event_time=FEBRUARY, kind=Kind.DOCUMENT)
    desk.write("Private words.", Scope("ada", "apollo", "", "s"), event_time=FEBRUARY, layer=Layer.SESSION)
    desk.write("Of another project.", Scope("ada", "gemini"), event_time=FEBRUARY)
    desk.write("Of another user.", Scope("bob", "apollo"), event_time=FEBRUARY)
    summary = summarize(desk, month("2026-02"))

    memory = summary.written.memory
    assert (3, names(inside), "summary/2026-02") == (summary.source_count, set(memory.derived_from_ids), memory.key)
    assert (Kind.SUMMARY, Layer.LONG_TERM, 0.5) == (memory.kind, memory.layer, memory.trust)
    assert all(text in memory.content for text in ("Porto", "波尔图", "400"))
    assert Outcome.CREATED is summary.written.outcome


def test_summary_is_made_anew_under_its_key(desk: Desk) -> None:
    """A new revision of the same memory; of what says the same, none; a repeated request gets the first answer."""
    desk.write("Anna decided to move to Porto.", event_time=FEBRUARY)
    first = summarize(desk, month("2026-02"), request_id="r")
    same = summarize(desk, month("2026-02"))
    desk.write("The budget is 400 euros.", event_time=FEBRUARY)
    second = summarize(desk, month("2026-02"))

    assert first == summarize(desk, month("2026-02"), request_id="r")
    assert Outcome.DUPLICATE is same.written.outcome
    one, two = first.written.memory, second.written.memory
    assert (one.id, one.revision + 1, 2) == (two.id, two.revision, len(two.derived_from_ids))
    with pytest.raises(RequestIdReusedError):
        summarize(desk, month("2026-03"), request_id="r")


@pytest.mark.parametrize(
    ("topic", "about", "other"),
    [
        ("Budget  plan", "The plans of our budget: 400 euros for chairs.", "The budget of time is small."),
        ("预算", "今年的预算是400元。", "今年的会议是四月。"),
    ],
)
def test_topic_is_what_its_words_or_labels_say(desk: Desk, topic: str, about: str, other: str) -> None:
    """All of its words, inflected or not, or a tag or the category; its case and blanks do not count."""
    normal = " ".join(topic.casefold().split())
    found = [
        desk.write(about),
        desk.write("Chairs are bought.", tags=(normal,), event_time=FEBRUARY),
        desk.write("Tables are not.", category=normal),
    ]
    desk.write(other)
    summary = summarize(desk, ALL, normal)

    assert names(found) == set(summary.written.memory.derived_from_ids)
    assert f"summary/all/{normal}" == summary.written.memory.key


@pytest.mark.parametrize(
    ("topic", "label"),
    [
        ("tea", "Tea"), ("tea", "TEA"), ("tea", "ＴＥＡ"), ("ＴＥＡ", "tea"), ("green tea", " Green   TEA"), ("茶叶", "茶叶"),
        ("红 茶", "红\u3000茶"), ("straße", "STRASSE"), ("c++", "C++"), ("&", "＆"), ("cafe", "Café"),
    ],
)  # fmt: skip
def test_topic_is_a_label_however_it_is_written(desk: Desk, topic: str, label: str) -> None:
    """Filters tell "Tea" from "tea"; a topic does not, be it a tag or the category, with a time or without one."""
    found = [
        desk.write("Kettles are bought.", tags=("other", label), event_time=FEBRUARY),
        desk.write("水壶不买。", category=label),
    ]
    desk.write("Pots are bought.", tags=(f"{label} pot",), category=f"no {label}")
    summary = summarize(desk, ALL, normal_topic(topic))

    assert names(found) == set(summary.written.memory.derived_from_ids)


@pytest.mark.parametrize("page", [1, 2, 3])
def test_labels_are_looked_for_in_all_of_the_period(desk: Desk, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, those of the same moment too, until the time is over."""
    monkeypatch.setattr(periods, "PAGE", page)
    found = [desk.write(f"Kettle {number}.", tags=("＆",), event_time=FEBRUARY) for number in range(4)]
    found += [desk.write(f"Pot {number}.", tags=("＆",)) for number in range(3)]
    desk.write("Of another month.", tags=("＆",), event_time=MARCH)

    assert set(summarize(desk, month("2026-02"), "&").written.memory.derived_from_ids) == names(found)
    with pytest.raises(DeadlineExceededError):
        desk.app.period_summarizer.summarize(PeriodRequest(ADA, ALL, "&", 200), WriteOptions(), Deadline.after(0))


def test_what_was_put_away_counts_once(desk: Desk) -> None:
    """A compacted log itself, not its summary; a merged memory, not its originals."""
    log = desk.write("Met Anna about the budget of 400 euros.", key="daily/2025-11-03")
    desk.write("I like hiking.", event_time=FEBRUARY), desk.write("The user likes hiking", event_time=FEBRUARY)
    [group] = desk.consolidate().groups
    for _ in desk.app.maintenance.run(EVERYBODY, [UpkeepStep.COMPACT], MaintenancePlan.PERFORM):
        pass
    desk.settle()
    assert (log.id,) == summarize(desk, month("2025-11")).written.memory.derived_from_ids
    assert (group.merged.id,) == summarize(desk, month("2026-02")).written.memory.derived_from_ids


def test_nothing_is_no_summary(desk: Desk) -> None:
    """The error names what was asked for; nothing is written."""
    desk.write("Anna decided to move to Porto.", event_time=FEBRUARY)
    with pytest.raises(NothingToSummarizeError) as refusal:
        summarize(desk, month("2031-01"), "tea")

    assert {"period": "2031-01", "topic": "tea"} == dict(refusal.value.metadata)
    with pytest.raises(NothingToSummarizeError):
        summarize(desk, ALL, scope=Scope("nobody"))


def test_summary_takes_nobodys_key(desk: Desk) -> None:
    """A memory that has the key, and is no such summary, stays."""
    own = desk.write("My own words.", key="summary/2026-02", event_time=FEBRUARY)
    with pytest.raises(MemoryExistsError):
        summarize(desk, month("2026-02"))

    assert own == desk.stored(own)


def test_periods_are_named_by_their_ends() -> None:
    """Months by themselves, spans by both ends, all time so."""
    assert (FEBRUARY, MARCH) == (month("2026-02").start, month("2026-02").end)
    assert datetime(2027, 1, 1, tzinfo=UTC) == month("2026-12").end
    assert month("9999-12").end is None
    assert [None] * 6 == [Period.month(text) for text in ("2026", "2026-13", "2026-2", "0000-01", "x", "2026-02-01")]
    assert "2026-02-01..2026-03-01" == Period.between(FEBRUARY, MARCH).name
    assert "..2026-03-01" == Period.between(None, MARCH).name
    assert "2026-02-01T00:00:01Z.." == Period.between(FEBRUARY + timedelta(seconds=1), None).name
    assert "2026-02-01T00:00:00.000001Z.." == Period.between(FEBRUARY + MOMENT, None).name
    assert "all" == ALL.name
