"""Merging and summing up by a language model, over real HTTP; where it fails or is not faithful, the rules do it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.summaries import Period
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.summaries.periods import PeriodRequest
from tests.support.http_stub import Endpoint, failed
from tests.support.openai_chat_stub import said, serving
from tests.unit.engine.consolidation.conftest import ADA, NO_HURRY, Desk, opened

KEY = "sk-a1B2c3D4e5F6g7H8i9J0"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


@pytest.fixture
def desk(tmp_path: Path, endpoint: Endpoint) -> Iterator[Desk]:
    options = {"base_url": endpoint.url, "model": "m", "retries": 0, "timeout_seconds": 20}
    with opened(tmp_path, language_model={"backend": "openai", "options": options}) as one:
        yield one


def test_model_words_are_taken_while_they_say_the_same(desk: Desk, endpoint: Endpoint) -> None:
    """In both languages; what it loses, adds, denies or does not answer is merged by the rule, with a notice."""
    cases = (
        ("Anna prefers tea. She takes it with milk.", "Anna prefers the tea"),
        ("张华喜欢喝茶。她家里有两只猫。", "张华很喜欢喝茶"),
        ("Bob likes chess. He plays on 5 May.", "Bob likes chess!"),
        ("Carl likes rowing. He rows alone.", "Carl likes rowing!"),
        ("Dora likes golf. She plays alone.", "Dora likes golf!"),
        ("Emma likes judo. She trains alone.", "Emma likes judo!"),
    )
    answers = (
        ("Anna prefers tea, which she takes with milk.", ""),
        ("张华喜欢喝茶，她家里有两只猫。", ""),
        ("Bob likes chess; he plays on 6 May.", "changed"),
        ("Carl does not like rowing; he rows alone.", "changed"),
        ("Dora likes golf.", "changed"),
        ("", "did not answer"),
    )
    for (older, newer), (answer, told) in zip(cases, answers, strict=True):
        desk.write(older), desk.write(newer)
        endpoint.replies.append(said(answer) if answer else failed(500))
        [group] = desk.consolidate().groups

        assert (told in group.notice, group.merged.content == answer) == (True, told == "")
        assert older[-3:-1] in group.merged.content


def test_no_secret_is_shown_to_the_model(desk: Desk, endpoint: Endpoint) -> None:
    """Memories that hold one are merged by the rule."""
    desk.write(f"The deploy key is {KEY}. Anna has it."), desk.write(f"The deploy key is {KEY}!")
    [group] = desk.consolidate().groups

    assert ([], True) == (endpoint.asked, "secret" in group.notice)
    assert f"The deploy key is {KEY}! Anna has it." == group.merged.content


def test_period_is_summed_up_by_the_model(desk: Desk, endpoint: Endpoint) -> None:
    """With the dates and without the secrets of its memories; without an answer their sentences are taken."""
    desk.write("Anna decided to move to Porto."), desk.write(f"The deploy key is {KEY}.")
    endpoint.replies += [said("Anna moves to Porto."), failed(500)]
    wish = PeriodRequest(ADA, Period.between(None, None), "", 100)
    first = desk.app.period_summarizer.summarize(wish, WriteOptions(), NO_HURRY)
    material = endpoint.asked[0]["messages"][1]["content"]
    second = desk.app.period_summarizer.summarize(wish, WriteOptions(), NO_HURRY)

    assert ("Anna moves to Porto.", "", 2) == (first.written.memory.content, first.notice, first.source_count)
    assert ("2026-" in material, KEY in material) == (True, False)
    assert "Anna decided to move to Porto." in second.written.memory.content
    assert "did not answer" in second.notice
    assert KEY not in second.written.memory.content
