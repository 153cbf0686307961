"""What keys say, and how citations are recognised."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memsvc.domain.memory import Kind, Layer, Tier
from memsvc.domain.memory_keys import convention_of, fault_of, with_convention
from memsvc.domain.write_requests import Draft
from memsvc.text.recalled_text import citation, ids_cited_in, is_part_of, normal_text

ID = "0190163d-8694-739b-aea5-966c26f8ad91"


@pytest.mark.parametrize(
    ("key", "layer", "kind", "category", "title"),
    [
        ("daily/2026-02-06", Layer.SHORT_TERM, Kind.NOTE, "daily", "2026-02-06"),
        ("context/MEMORY", Layer.CORE, Kind.DOCUMENT, "context", "MEMORY"),
        ("knowledge/world/首都", Layer.LONG_TERM, Kind.FACT, "world", "首都"),
        ("knowledge/experience/a/b", Layer.LONG_TERM, Kind.EXPERIENCE, "experience", "a/b"),
        ("knowledge/opinions/x", Layer.LONG_TERM, Kind.OPINION, "opinions", "x"),
    ],
)
def test_keys_say_what_their_memory_is(key: str, layer: Layer, kind: Kind, category: str, title: str) -> None:
    """Daily logs, context documents and knowledge."""
    convention = convention_of(key)

    assert convention is not None
    assert (convention.layer, convention.kind, convention.category, convention.title) == (layer, kind, category, title)
    assert fault_of(key) == ""


@pytest.mark.parametrize(
    "key",
    ["daily/", "daily/2026-2-6", "daily/2026-02-30", "context/", "knowledge/", "knowledge/world/", "knowledge/x/y"],
)
def test_keys_that_are_nearly_right_are_faulty(key: str) -> None:
    """They say nothing, and the fault says what would be right."""
    assert convention_of(key) is None
    assert "'" in fault_of(key)


def test_other_keys_say_nothing() -> None:
    """They are free."""
    assert (convention_of("reports/1"), fault_of("reports/1"), fault_of("dailylog")) == (None, "", "")


def test_what_a_draft_says_comes_before_its_key() -> None:
    """The key fills only what is left open."""
    draft = Draft("x", key="daily/2026-02-06", layer=Layer.LONG_TERM, title="mine")

    full = with_convention(draft)

    assert (full.layer, full.title, full.kind, full.tier) == (Layer.LONG_TERM, "mine", Kind.NOTE, Tier.CONTEXTUAL)
    assert full.event_time == datetime(2026, 2, 6, tzinfo=UTC)


def test_citations_are_found_and_taken_out() -> None:
    """The one form, anywhere, in either case."""
    text = f"- {citation(ID)} 2026-02-06 (3 days ago): Ｔａｂｓ!"

    assert ids_cited_in(text + citation(ID.upper()) + "[mem:x]") == [ID]
    assert normal_text(f"Tabs, {citation(ID)} SPACES。") == "tabsspaces"
    assert is_part_of("tabsspaces", "xtabsspacesx")
    assert not is_part_of("tabs", "tabsspaces")
