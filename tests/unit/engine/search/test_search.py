"""Search over the reference backends: fusion, boosts, filters of the store, paging, explanations."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.filters import AnyOf, Field, Not
from memsvc.domain.memory import Keyword, Layer
from memsvc.domain.scope import Scope
from memsvc.domain.search import (
    Fusion,
    FusionMethod,
    Mode,
    Retriever,
    SearchHit,
    SearchQuery,
    SearchReply,
    Selection,
    TimeWeighting,
)
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.services import Services

ADA = Scope("ada")


def remember(application: Services, *drafts: Draft, scope: Scope = ADA) -> list[str]:
    """Store memories in order and return their ids once they are found."""
    written = [
        application.memory_creator.create(scope, draft, WriteOptions(wait_for=WaitFor.STORED)) for draft in drafts
    ]
    application.indexer.when_reached(written[-1].position).result(timeout=30)
    return [one.memory.id for one in written]


def search(application: Services, text: str, **fields: object) -> SearchReply:
    """Search as Ada with no deadline."""
    query = replace(SearchQuery(scope=ADA, text=text, explain=True), **fields)  # type: ignore[arg-type]
    return application.search.search(query, Deadline())


def ids(hits: tuple[SearchHit, ...]) -> list[str]:
    """Return the ids of hits."""
    return [hit.memory.id for hit in hits]


def boosts(hit: SearchHit) -> dict[str, float]:
    """Return the boosts of a hit by name."""
    assert hit.explanation is not None
    return dict(hit.explanation.boosts)


def test_an_explanation_names_every_retriever_with_rank_and_raw_score(application: Services) -> None:
    """Each retriever that found a memory says so; the shares add up to the fused score."""
    remember(application, Draft("The otter sleeps in the river."), Draft("A heron stands by the lake."))

    hit = search(application, "otter river", keywords=("otter",)).hits[0]

    assert hit.explanation is not None
    scores = hit.explanation.retrievers
    assert {(Retriever.DENSE, 1), (Retriever.BM25, 1), (Retriever.KEYWORD_TABLE, 1)} == {
        (score.retriever, score.rank) for score in scores
    }
    assert all(score.raw_score > 0.0 for score in scores)
    assert hit.explanation.fused_score == pytest.approx(sum(score.share for score in scores))


def test_long_memories_do_not_displace_all_others(application: Services) -> None:
    """Two memories have more entries than a retrieval returns: every page is full, and each memory a hit once."""
    section = "The otter of the harbour meets the otter of the harbour. " * 30
    books = remember(application, *(Draft(f"{name}\n\n" + section * 560) for name in ("One", "Two")))
    notes = remember(application, *(Draft(f"Note {number} of the harbour") for number in range(8)))
    for mode in (Mode.SEMANTIC, Mode.HYBRID):
        pages = [
            search(application, "otter harbour", mode=mode, limit=4, offset=offset).hits for offset in range(0, 12, 4)
        ]
        found = [memory_id for page in pages for memory_id in ids(page)]
        scores = [hit.score for page in pages for hit in page]

        assert [4, 4, 2] == [len(page) for page in pages]
        assert {*books, *notes} == set(found)
        assert books == sorted(found[:2])
        assert sorted(scores, reverse=True) == scores
        assert not search(application, "otter harbour", mode=mode, limit=4, offset=8).has_more


def test_the_lines_around_a_hit_lift_it(application: Services) -> None:
    """A memory takes a share of its neighbour's score within the session, and no share across sessions."""
    lines = ("Shall we meet the otter keeper?", "Yes, at noon.")
    remember(application, *(Draft(line, session_id="s1", speaker="Bo") for line in lines))
    remember(application, Draft("Yes, at night.", session_id="s2", speaker="Bo"))

    found = {hit.memory.content: boosts(hit) for hit in search(application, "otter keeper").hits}

    assert found["Yes, at noon."]["neighbour"] > 0.0
    assert "neighbour" not in found["Yes, at night."]


def test_a_named_speaker_is_preferred(application: Services) -> None:
    """Who is not the speaker that the query names loses; no one loses when nobody is named."""
    remember(
        application,
        Draft("I like otters.", speaker="Anna", session_id="s"),
        Draft("I like otters too.", speaker="Bo", session_id="t"),
    )

    named = search(application, "what does Bo like, otters?").hits
    unnamed = search(application, "who likes otters?").hits

    assert named[0].memory.speaker == "Bo"
    assert ["speaker" in boosts(hit) for hit in named if hit.memory.speaker == "Anna"] == [True]
    assert not any("speaker" in boosts(hit) for hit in unnamed)


@pytest.mark.parametrize("query", ["what happened on 8 May 2023?", "2023年5月8日发生了什么？"])
def test_a_named_date_is_preferred(application: Services, query: str) -> None:
    """A memory of the day that the query names gets the date boost, in both languages."""
    days = (datetime(2023, 5, 8, 12, tzinfo=UTC), datetime(2023, 9, 1, 12, tzinfo=UTC))
    remember(application, *(Draft(f"We met 见面 {day.month}.", event_time=day) for day in days))

    hits = search(application, query).hits

    assert days[0] == hits[0].memory.event_time
    assert boosts(hits[0])["date"] > 0.0


def test_time_weighting_prefers_recent_and_important_memories(application: Services) -> None:
    """With weighting an old memory loses to a recent one that fits as well, and the factor is explained."""
    now = datetime.now(UTC)
    old, new = (now - timedelta(days=400), now - timedelta(days=1))
    remember(
        application, *(Draft(f"The otter {word} swims.", event_time=day) for word, day in (("a", old), ("b", new)))
    )

    hits = search(application, "otter swims", weighting=TimeWeighting(decay_factor=0.8)).hits

    assert new == hits[0].memory.event_time
    assert boosts(hits[1])["time_weighting"] < boosts(hits[0])["time_weighting"] <= 1.0


def test_filters_of_the_store_hold_in_every_retriever(application: Services) -> None:
    """Ids, which only the store knows, are pushed down: better matches elsewhere do not crowd the memory out."""
    (wanted,) = remember(application, Draft("An otter was mentioned once in a long text about other things."))
    remember(application, *(Draft(f"otter otter otter {number}") for number in range(150)))
    selection = Selection(where=AnyOf(Field.ID, (wanted,)))

    for mode in Mode:
        assert [wanted] == ids(search(application, "otter", mode=mode, selection=selection).hits)
    without = search(application, "otter", selection=Selection(where=Not(AnyOf(Field.ID, (wanted,)))), limit=100)
    assert wanted not in ids(without.hits)


def test_pages_follow_each_other_without_gap_or_repeat(application: Services) -> None:
    """Walking the pages meets every memory once, in the order of one long page."""
    remember(application, *(Draft(f"otter number {number}") for number in range(25)))

    whole = ids(search(application, "otter", limit=25).hits)
    pages = [search(application, "otter", limit=10, offset=offset) for offset in (0, 10, 20)]

    assert whole == [memory_id for page in pages for memory_id in ids(page.hits)]
    assert [page.has_more for page in pages] == [True, True, False]


def test_min_score_leaves_out_what_is_below(application: Services) -> None:
    """Every hit has at least min_score."""
    remember(application, *(Draft(f"otter {'river ' * number}") for number in range(1, 8)))

    scores = [hit.score for hit in search(application, "otter river").hits]
    kept = [hit.score for hit in search(application, "otter river", min_score=scores[2]).hits]

    assert kept == [score for score in scores if score >= scores[2]]


def test_private_memories_are_found_in_their_session_only(application: Services) -> None:
    """Layer SESSION is private to the session it was written in, by every retriever."""
    remember(application, Draft("The otter is secret.", layer=Layer.SESSION), scope=Scope("ada", session_id="s1"))

    own = search(application, "otter", scope=Scope("ada", session_id="s1")).hits
    others = [search(application, "otter", scope=scope).hits for scope in (ADA, Scope("ada", session_id="s2"))]

    assert len(own) == 1
    assert others == [(), ()]


def test_given_keywords_ask_the_keyword_table(application: Services) -> None:
    """A memory is found by a keyword that its text does not hold."""
    (wanted,) = remember(application, Draft("It swims.", keywords=(Keyword("otter", 1.0),)))

    assert [wanted] == ids(search(application, "", keywords=("otter",)).hits)


@pytest.mark.parametrize("method", list(FusionMethod))
def test_every_fusion_puts_first_what_is_first_in_every_list(application: Services, method: FusionMethod) -> None:
    """Scores are in 0..1, descending, whatever the fusion."""
    remember(
        application, Draft("The otter sleeps in the river."), *(Draft(f"A heron {n} by the lake") for n in range(9))
    )

    hits = search(application, "otter river", fusion=Fusion(method)).hits

    assert hits[0].memory.content == "The otter sleeps in the river."
    scores = [hit.score for hit in hits]
    assert sorted(scores, reverse=True) == scores
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_a_passed_deadline_is_an_error(application: Services) -> None:
    """No search begins when its time is over."""
    remember(application, Draft("The otter sleeps."))

    with pytest.raises(DeadlineExceededError):
        application.search.search(SearchQuery(scope=ADA, text="otter"), Deadline.after(0.0))
